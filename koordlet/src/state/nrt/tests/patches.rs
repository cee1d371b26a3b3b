//! Patches touch what is ours, keep the rest and converge.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::api::keys;

fn patched(existing: &Value, wanted: &WantedNrt) -> Value {
    let mut object = existing.clone();
    if let Some(patch) = patch(existing, wanted) {
        merge_patch::apply(&mut object, &patch.body);
    }
    assert_eq!(patch(&object, wanted), None, "right after an update nothing differs");
    object
}

#[test]
fn a_new_object_is_complete() {
    let mut scene = Scene::m().label("true");
    (scene.node.metadata.name, scene.node.metadata.uid) = ("n1".into(), "nuid".into());
    let wanted = scene.wanted();
    let object = new_object(&scene.node, &wanted);
    assert_eq!(patch(&object, &wanted), None);
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "nuid", "controller": true,
                        "blockOwnerDeletion": true}]);
    assert_eq!(object["metadata"]["ownerReferences"], owner);
    assert_eq!(object["metadata"]["labels"][keys::MANAGED_BY], "Koordinator");
    assert_eq!(object["metadata"]["labels"][keys::ENABLE_NUMA_RESERVATION], "true");
    assert_eq!((&object["topologyPolicies"], &object["metadata"]["name"]), (&json!(["None"]), &json!("n1")));
}

/// Row 68, and the defects of rows 2 and 3 of collection.md 15.
#[test]
fn zones_are_merged_field_by_field() {
    let existing = json!({
        "metadata": {"name": "n", "resourceVersion": "7", "annotations": {"foreign": "x"}, "labels": {"foreign": "y"}},
        "topologyPolicies": ["None"],
        "zones": [
            {"name": "node-0", "type": "Node", "parent": "socket-0", "costs": [{"name": "node-1", "value": 20}],
             "attributes": [{"name": "a", "value": "b"}],
             "resources": [{"name": "koordinator.sh/gpu", "capacity": "4", "allocatable": "3", "available": "1"},
                           {"name": "cpu", "capacity": "2", "allocatable": "2", "available": "2", "x": 1}]},
            {"name": "old", "type": "Node"},
        ],
    });
    let wanted = Scene::m().label("true").status("cpu", "16", "14").wanted();
    let change = patch(&existing, &wanted).unwrap();
    assert_eq!(change.body["metadata"]["resourceVersion"], "7");
    assert_eq!(change.body.get("topologyPolicies"), None);
    let object = patched(&existing, &wanted);
    let zone = &object["zones"][0];
    for field in ["parent", "costs", "attributes"] {
        assert_eq!(zone[field], existing["zones"][0][field]);
    }
    let names: Vec<_> =
        zone["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cpu", "hugepages-1Gi", "hugepages-2Mi", "koordinator.sh/gpu", "memory"]);
    let cpu = json!({"name": "cpu", "capacity": "8", "allocatable": "7", "available": "7", "x": 1});
    assert_eq!(zone["resources"][0], cpu);
    assert_eq!(zone["resources"][3], existing["zones"][0]["resources"][0]);
    assert_eq!(object["zones"].as_array().unwrap().len(), 2);
    assert_eq!(object["metadata"]["annotations"]["foreign"], "x");

    // The label goes when the Node's goes, and nothing else of the labels.
    let without = Scene::m().status("cpu", "16", "14").wanted();
    let change = patch(&object, &without).unwrap();
    assert_eq!(change.body["metadata"]["labels"], json!({keys::ENABLE_NUMA_RESERVATION: null}));
    assert_eq!(patched(&object, &without)["metadata"]["labels"], json!({"foreign": "y"}));
}

#[test]
fn c136_equal_meaning_is_no_change() {
    let wanted = Scene::m().wanted();
    let mut object = new_object(&Node::default(), &wanted);
    object["zones"][0]["resources"][0]["allocatable"] = json!("8000m");
    object["zones"][1]["resources"][3]["capacity"] = json!("65536Mi");
    object["metadata"]["annotations"][keys::NODE_RESERVATION] = json!(" { } ");
    object["zones"].as_array_mut().unwrap().reverse();
    for _ in 0..200 {
        assert_eq!(patch(&object, &wanted), None);
    }
    object["metadata"]["annotations"][keys::NODE_RESERVATION] = json!("{");
    let change = patch(&object, &wanted).unwrap();
    assert_eq!(change.changed, [format!("annotation {}", keys::NODE_RESERVATION)]);
    assert_eq!(change.body, json!({"metadata": {"annotations": {keys::NODE_RESERVATION: "{}"}}}));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z0-9]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_resource() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["cpu", "memory", "hugepages-2Mi", "gpu", "koordinator.sh/gpu"]);
    (name, "[0-9]{1,2}(m|Gi|x)?", any_json()).prop_map(|(name, amount, foreign)| {
        json!({"name": name, "capacity": amount, "allocatable": "1", "foreign": foreign})
    })
}

fn any_zone() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec!["node-0", "node-1", "node-2", "other"]);
    let resources = prop::collection::vec(any_resource(), 0..4);
    (name, resources, any_json()).prop_map(|(name, resources, foreign)| {
        json!({"name": name, "type": "Node", "parent": foreign, "costs": [foreign], "resources": resources})
    })
}

fn any_object() -> impl Strategy<Value = Value> {
    let keys = vec![keys::NODE_RESERVATION, keys::POD_CPU_ALLOCS, "foreign/a", "foreign/b"];
    let texts = prop::collection::btree_map(prop::sample::select(keys), "[{}a-z]{0,3}", 0..4);
    let labels = prop::option::of("[a-z]{0,4}");
    let zones = prop::collection::vec(any_zone(), 0..4);
    (texts, labels, zones, any_json()).prop_map(|(annotations, label, zones, foreign)| {
        let labels: Map<String, Value> = label
            .into_iter()
            .map(|label| (keys::ENABLE_NUMA_RESERVATION.to_owned(), json!(label)))
            .chain([("foreign".to_owned(), foreign.clone())])
            .collect();
        json!({"metadata": {"annotations": annotations, "labels": labels, "x": foreign}, "zones": zones, "y": foreign})
    })
}

/// What is not ours: all but our annotations, our label, the policies, and of zones our names, types and resources.
fn foreign(object: &Value) -> Value {
    let mut rest = object.clone();
    rest.as_object_mut().unwrap().remove("topologyPolicies");
    let metadata = rest["metadata"].as_object_mut().unwrap();
    metadata["annotations"].as_object_mut().unwrap().retain(|key, _| key.starts_with("foreign"));
    metadata["labels"].as_object_mut().unwrap().remove(keys::ENABLE_NUMA_RESERVATION);
    let mut zones: BTreeMap<String, Value> = BTreeMap::new();
    for zone in rest["zones"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|zone| zone["name"] == "node-0" || zone["name"] == "node-1")
    {
        let mut zone = zone.clone();
        let resources: Vec<Value> = zone["resources"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|r| r["name"].as_str().unwrap().contains("gpu"))
            .cloned()
            .collect();
        zone["resources"] = json!(
            resources
                .iter()
                .filter(|r| r["name"] == "gpu")
                .chain(resources.iter().filter(|r| r["name"] != "gpu"))
                .collect::<Vec<_>>()
        );
        zones.entry(zone["name"].as_str().unwrap().to_owned()).or_insert(zone);
    }
    rest["zones"] = json!(zones);
    rest
}

proptest! {
    #[test]
    fn a_patch_keeps_what_is_foreign_and_converges(object in any_object(), label in any::<bool>()) {
        let scene = Scene::m();
        let wanted = if label { scene.label("true") } else { scene }.wanted();
        let after = patched(&object, &wanted);
        let (mut was, mut is) = (foreign(&object), foreign(&after));
        // Zones that were not there have nothing foreign.
        let new: Vec<String> = is["zones"].as_object().unwrap().keys().filter(|name| was["zones"].get(*name).is_none()).cloned().collect();
        for name in new {
            is["zones"].as_object_mut().unwrap().remove(&name);
        }
        for zones in [&mut was, &mut is] {
            zones["zones"].as_object_mut().unwrap().retain(|_, zone| zone.is_object());
        }
        prop_assert_eq!(was, is);
    }

    #[test]
    fn a_patch_of_anything_converges(object in any_json(), zones in any_json()) {
        let wanted = Scene::m().wanted();
        patched(&object, &wanted);
        patched(&json!({"metadata": object, "zones": zones}), &wanted);
        patched(&json!({"zones": [zones, {"name": "node-0", "resources": object}]}), &wanted);
    }
}
