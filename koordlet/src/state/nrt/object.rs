//! From what is wanted to the object: a new one, or the JSON merge patch of an existing one, collection.md 10.2 and
//! 10.5. The patch holds only what is ours and differs, so that right after it nothing does (15, rows 2 and 3).

use serde_json::{Map, Value, json};

use super::wanted::WantedNrt;
use super::zones::{WantedResource, WantedZone};
use crate::api::keys;
use crate::api::node::Node;
use crate::api::quantity::Quantity;

/// Type of a zone that is a NUMA node.
const ZONE_TYPE: &str = "Node";

/// A change of an existing object.
#[derive(Clone, Debug, PartialEq)]
pub struct NrtPatch {
    /// JSON merge patch. One that replaces the zones, a list that others write into too, names the object's version,
    /// so that the API server refuses it once the object has changed.
    pub body: Value,
    /// What changes, for the log.
    pub changed: Vec<String>,
}

/// The object where there is none, complete at once: its creation needs no update after it.
pub fn new_object(node: &Node, wanted: &WantedNrt) -> Value {
    let metadata = &node.metadata;
    let mut labels = Map::from_iter([(keys::MANAGED_BY.to_owned(), json!("Koordinator"))]);
    labels.extend(wanted.reservation_label.iter().map(|label| (reservation_key(), json!(label))));
    let zones: Vec<Value> = wanted.zones.iter().map(|zone| merged_zone(None, zone)).collect();
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": metadata.name,
            "labels": labels,
            "annotations": wanted.annotations,
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Node",
                "name": metadata.name,
                "uid": metadata.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "topologyPolicies": [wanted.topology_policy],
        "zones": zones,
    })
}

/// What has to change in `existing`; `None` when it holds all that is wanted. Quantities and annotations are compared
/// by meaning, not by text; what others own is neither compared nor touched. Zones that are not wanted go.
pub fn patch(existing: &Value, wanted: &WantedNrt) -> Option<NrtPatch> {
    let mut changed = Vec::new();
    let mut metadata = Map::new();
    let mut body = Map::new();
    let annotations = annotation_changes(existing, wanted);
    if !annotations.is_empty() {
        changed.extend(annotations.keys().map(|key| format!("annotation {key}")));
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if let Some(label) = label_change(existing, wanted) {
        changed.push(format!("label {}", keys::ENABLE_NUMA_RESERVATION));
        metadata.insert("labels".to_owned(), Value::Object(Map::from_iter([(reservation_key(), label)])));
    }
    let policies = json!([wanted.topology_policy]);
    if existing.get("topologyPolicies") != Some(&policies) {
        changed.push("topologyPolicies".to_owned());
        body.insert("topologyPolicies".to_owned(), policies);
    }
    if !zones_are_current(existing, wanted) {
        changed.push("zones".to_owned());
        body.insert("zones".to_owned(), merged_zones(existing, wanted));
        if let Some(version) = existing.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
    }
    if !metadata.is_empty() {
        body.insert("metadata".to_owned(), Value::Object(metadata));
    }
    (!changed.is_empty()).then_some(NrtPatch { body: Value::Object(body), changed })
}

fn reservation_key() -> String {
    keys::ENABLE_NUMA_RESERVATION.to_owned()
}

/// A member of the object's `metadata.annotations` or `metadata.labels`.
fn meta<'a>(existing: &'a Value, map: &str, key: &str) -> Option<&'a Value> {
    existing.get("metadata")?.get(map)?.get(key)
}

fn annotation_changes(existing: &Value, wanted: &WantedNrt) -> Map<String, Value> {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
    let is_current = |key: &str, text: &str| {
        let present = meta(existing, "annotations", key).and_then(Value::as_str);
        present.is_some_and(|present| present == text || parsed(present) == parsed(text))
    };
    let differing = wanted.annotations.iter().filter(|(key, text)| !is_current(key, text));
    differing.map(|(key, text)| ((*key).to_owned(), json!(text))).collect()
}

/// The label's new value; `null` takes it away.
fn label_change(existing: &Value, wanted: &WantedNrt) -> Option<Value> {
    let present = meta(existing, "labels", keys::ENABLE_NUMA_RESERVATION);
    match &wanted.reservation_label {
        Some(label) => (present.and_then(Value::as_str) != Some(label)).then(|| json!(label)),
        None => present.map(|_| Value::Null),
    }
}

fn zones(existing: &Value) -> &[Value] {
    existing.get("zones").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, member: &str) -> Option<&'a str> {
    value.get(member).and_then(Value::as_str)
}

fn named<'a>(list: &'a [Value], name: &str) -> Vec<&'a Value> {
    list.iter().filter(|entry| text(entry, "name") == Some(name)).collect()
}

/// Whether the object has the wanted zones and no others, each with what is ours in it.
fn zones_are_current(existing: &Value, wanted: &WantedNrt) -> bool {
    let is_current = |zone: &WantedZone| match named(zones(existing), &zone.name).as_slice() {
        [present] => {
            let resources = resources(present);
            text(present, "type") == Some(ZONE_TYPE)
                && zone.resources.iter().all(|resource| resource_is_current(resources, resource))
        }
        _ => false,
    };
    let is_list = existing.get("zones").is_some_and(Value::is_array);
    is_list && zones(existing).len() == wanted.zones.len() && wanted.zones.iter().all(is_current)
}

fn resources(zone: &Value) -> &[Value] {
    zone.get("resources").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn resource_is_current(present: &[Value], resource: &WantedResource) -> bool {
    let present = named(present, resource.name);
    let [present] = present.as_slice() else { return false };
    columns(resource).into_iter().all(|(column, amount)| {
        let present: Option<Quantity> = text(present, column).and_then(|text| text.parse().ok());
        present == Some(amount)
    })
}

/// The columns of a resource.
fn columns(resource: &WantedResource) -> [(&'static str, Quantity); 3] {
    let WantedResource { name: _, capacity, allocatable } = resource;
    [("capacity", *capacity), ("allocatable", *allocatable), ("available", *allocatable)]
}

/// The wanted zones; each keeps what others have in the present one of its name.
fn merged_zones(existing: &Value, wanted: &WantedNrt) -> Value {
    let zone = |zone: &WantedZone| {
        let present = named(zones(existing), &zone.name);
        merged_zone(present.first().copied(), zone)
    };
    Value::Array(wanted.zones.iter().map(zone).collect())
}

/// A zone with our name, type and resources over what is there; resources by name.
fn merged_zone(present: Option<&Value>, zone: &WantedZone) -> Value {
    let mut merged = present.and_then(Value::as_object).cloned().unwrap_or_default();
    let there = present.map_or(&[][..], resources);
    let is_ours = |entry: &Value| {
        let name = text(entry, "name");
        zone.resources.iter().any(|resource| Some(resource.name) == name)
    };
    let mut list: Vec<Value> = there.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    list.extend(zone.resources.iter().map(|resource| merged_resource(there, resource)));
    list.sort_by(|a, b| text(a, "name").cmp(&text(b, "name")));
    merged.insert("name".to_owned(), json!(zone.name));
    merged.insert("type".to_owned(), json!(ZONE_TYPE));
    merged.insert("resources".to_owned(), Value::Array(list));
    Value::Object(merged)
}

fn merged_resource(there: &[Value], resource: &WantedResource) -> Value {
    let present = named(there, resource.name);
    let mut merged = present.first().and_then(|entry| entry.as_object()).cloned().unwrap_or_default();
    merged.insert("name".to_owned(), json!(resource.name));
    for (column, amount) in columns(resource) {
        merged.insert(column.to_owned(), json!(resource.text(amount)));
    }
    Value::Object(merged)
}
