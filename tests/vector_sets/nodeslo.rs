//! `nodeslo.jsonl`: a NodeSLO laid over the defaults, and the ConfigMap's policy of a node.

use std::collections::BTreeMap;

use koordlet::api::node_slo::NodeSloSpec;
use koordlet::state::slo::config_map::ConfigMapPolicy;
use koordlet::state::slo::qos::PerClass;
use koordlet::state::slo::{Slo, SloMerger};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::set::{Row, Verdict, check};

#[test]
fn vector_nodeslo() {
    check("nodeslo", &[("agent_merge", 26, agent_merge), ("manager_render", 33, manager_render)]);
}

fn agent_merge(row: &Row) -> Verdict {
    let spec: NodeSloSpec = serde_json::from_value(row.input["spec"].clone()).unwrap();
    let mut merger = SloMerger::default();
    merger.apply(&spec);
    compare(row, row.out.clone().unwrap_or_default(), as_spec(merger.slo()))
}

/// The policy in force in the form of a spec.
fn as_spec(slo: &Slo) -> Value {
    let mut thresholds = json_of(&slo.suppress);
    let evict = json_of(&slo.evict);
    thresholds.as_object_mut().unwrap().extend(evict.as_object().cloned().unwrap());
    let qos = &slo.qos;
    let mut strategy = Map::new();
    add(&mut strategy, "cpuQOS", &qos.cpu.classes);
    add(&mut strategy, "memoryQOS", &qos.memory);
    add(&mut strategy, "resctrlQOS", &qos.resctrl);
    add(&mut strategy, "blkioQOS", &qos.blkio.classes);
    add(&mut strategy, "networkQOS", &qos.network.classes);
    strategy.insert("cgroupRoot".to_owned(), json!({"blkioQOS": qos.blkio.root}));
    let policies = json!({"cpuPolicy": qos.cpu.policy, "netQOSPolicy": qos.network.policy});
    strategy.insert("policies".to_owned(), policies);
    json!({
        "resourceUsedThresholdWithBE": thresholds,
        "resourceQOSStrategy": strategy,
        "cpuBurstStrategy": slo.burst,
        "systemStrategy": slo.system,
        "hostApplications": slo.host_applications,
        "extensions": slo.extensions,
    })
}

fn json_of(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap()
}

fn add(strategy: &mut Map<String, Value>, member: &str, classes: &PerClass<impl Serialize>) {
    let PerClass { lsr, ls, be, system } = classes;
    for (class, part) in [("lsrClass", lsr), ("lsClass", ls), ("beClass", be), ("systemClass", system)] {
        let members = strategy.entry(class).or_insert_with(|| json!({}));
        members.as_object_mut().unwrap().insert(member.to_owned(), json_of(part));
    }
}

/// Q30: a bandwidth that a node strategy does not speak of is the cluster's. Q32: a node strategy's list of blocks
/// takes the place of the cluster's.
fn manager_render(row: &Row) -> Verdict {
    let texts = |name: &str| -> BTreeMap<String, String> {
        serde_json::from_value(row.input.get(name).cloned().unwrap_or_default()).unwrap_or_default()
    };
    let data = texts("configMapData");
    let mut policy = ConfigMapPolicy::default();
    policy.take(&data);
    let (spec, _) = policy.render(&texts("nodeLabels"), &texts("nodeAnnotations"));
    let mut want = row.out.clone().unwrap_or_default();
    let document = |key: &str| serde_json::from_str::<Value>(&data[key]).unwrap();
    match row.defect.as_deref() {
        Some("Q30") => {
            let cluster = document("system-config")["clusterStrategy"]["totalNetworkBandwidth"].clone();
            want["systemStrategy"]["totalNetworkBandwidth"] = cluster;
        }
        Some("Q32") => {
            let labels = texts("nodeLabels");
            let config = document("resource-qos-config");
            let matches = |entry: &&Value| {
                let wanted = entry["nodeSelector"]["matchLabels"].as_object().unwrap();
                wanted.iter().all(|(key, value)| labels.get(key).is_some_and(|label| value == label))
            };
            let entry = config["nodeStrategies"].as_array().unwrap().iter().find(matches).unwrap();
            want["resourceQOSStrategy"]["beClass"]["blkioQOS"]["blocks"] =
                entry["beClass"]["blkioQOS"]["blocks"].clone();
        }
        _ => {}
    }
    compare(row, want, json_of(&spec))
}

/// In this set an empty list, object or text equals an absent one.
fn compare(row: &Row, mut want: Value, mut got: Value) -> Verdict {
    strip(&mut want);
    strip(&mut got);
    row.compare_with(&want, &got)
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.values_mut().for_each(strip);
            members.retain(|_, member| !is_empty(member));
        }
        Value::Array(entries) => entries.iter_mut().for_each(strip),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
