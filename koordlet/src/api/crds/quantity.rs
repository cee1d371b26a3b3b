//! Schemas of amounts: a whole number, or a text of Kubernetes' quantity syntax.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::json;

/// What the API server's own definitions ask of a quantity.
const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// A quantity.
pub(super) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-int-or-string": true, "pattern": PATTERN})
}

/// Quantities by resource name.
pub(super) fn quantities(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "additionalProperties": quantity(generator)})
}

/// Bandwidth that is kept, qos.md 1.2: 0 if not given.
pub(super) fn request(_: &mut SchemaGenerator) -> Schema {
    share(0)
}

/// Bandwidth that may be used, qos.md 1.2: all if not given.
pub(super) fn limit(_: &mut SchemaGenerator) -> Schema {
    share(100)
}

fn share(default: i64) -> Schema {
    let mut schema = json_schema!({"x-kubernetes-int-or-string": true});
    schema.insert("default".to_owned(), json!(default));
    schema
}
