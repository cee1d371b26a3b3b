//! `extensions`, qos.md 1.6: policy of parts that are built in beside the stock ones. Each registers a default under
//! its key; other keys are not kept.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{Faults, Fields};
use super::overlay::overlay;

const SECTION: &str = "spec.extensions";

/// Policy by key.
pub type Extensions = BTreeMap<String, Value>;

/// The section over the registered defaults, key by key. On the wire the keys lie under one more, `Object`; without it
/// they are taken as well (qos.md 12, Q29).
pub(super) fn read(defaults: &Extensions, section: Option<&Value>, faults: &mut Faults) -> Extensions {
    let mut fields = Fields::at(SECTION.to_owned(), section, faults);
    let wrapped = fields.members("Object").or(section.and_then(Value::as_object));
    let mut extensions = defaults.clone();
    for (key, value) in &mut extensions {
        if let Some(given) = wrapped.and_then(|given| given.get(key)) {
            overlay(value, given);
        }
    }
    extensions
}
