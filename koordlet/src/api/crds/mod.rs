//! Definitions of the custom resources, in `deploy/crds` for clusters without Koordinator's own: the same groups,
//! field names, types, ranges and optionality. Fields that a newer version adds are not pruned.
//!
//! These types are made for the definitions. The agent reads objects through the lenient ones beside them, in which
//! nonsense in one field spoils nothing.

pub mod node_metric;
pub mod node_slo;
pub mod qos_strategy;
mod quantity;
pub mod topology;

use kube::CustomResourceExt as _;
use serde_json::Value;

use self::node_metric::NodeMetric;
use self::node_slo::NodeSlo;
use self::topology::NodeResourceTopology;

/// First line of each file.
const HEADER: &str = "# Written by `cargo xtask crds` from the types in koordlet/src/api/crds.\n";

/// File name and text of each definition.
///
/// # Errors
/// A schema that has no YAML; a test makes sure that there is none.
pub fn files() -> Result<Vec<(String, String)>, serde_yaml_ng::Error> {
    let definitions = [NodeSlo::crd(), NodeMetric::crd(), NodeResourceTopology::crd()];
    let text = |definition| {
        let definition = trimmed(serde_yaml_ng::to_string(&definition)?)?;
        let name =
            |path: &str| definition.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let file = format!("{}_{}.yaml", name("/spec/group"), name("/spec/names/plural"));
        Ok((file, HEADER.to_owned() + &serde_yaml_ng::to_string(&definition)?))
    };
    definitions.into_iter().map(text).collect()
}

/// The definition as the API has it: nothing may be `null`, and a spec need not be there.
fn trimmed(text: String) -> Result<Value, serde_yaml_ng::Error> {
    let mut definition: Value = serde_yaml_ng::from_str(&text)?;
    drop(text);
    if let Some(Value::Array(versions)) = definition.pointer_mut("/spec/versions") {
        for schema in versions.iter_mut().filter_map(|version| version.pointer_mut("/schema/openAPIV3Schema"))
        {
            trim(schema);
            if let Some(members) = schema.as_object_mut() {
                members.remove("title");
            }
            if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
                required.retain(|name| name != "spec");
            }
            if schema["required"].as_array().is_some_and(Vec::is_empty) {
                schema.as_object_mut().map(|schema| schema.remove("required"));
            }
        }
    }
    Ok(definition)
}

fn trim(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, value| !(name == "nullable" && value.is_boolean()));
            // Only the one of the two says so to the API server.
            if members.get("additionalProperties") == Some(&Value::Bool(true)) {
                members.remove("additionalProperties");
                members.insert("x-kubernetes-preserve-unknown-fields".to_owned(), Value::Bool(true));
            }
            members.values_mut().for_each(trim);
        }
        Value::Array(items) => items.iter_mut().for_each(trim),
        Value::Number(number) => {
            #[expect(clippy::cast_possible_truncation, reason = "bounds are small whole numbers")]
            if let Some(whole) =
                number.as_f64().filter(|_| number.is_f64()).filter(|number| number.fract() == 0.0)
            {
                *schema = Value::from(whole as i64);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
