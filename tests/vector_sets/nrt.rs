//! `nrt.jsonl`: what the topology object should hold, and what becomes of an existing one.

use koordlet::api::keys;
use koordlet::api::kubelet_config::KubeletConfig;
use koordlet::api::node::Node;
use koordlet::api::pod::Pod;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::host::cpuinfo::BasicInfo;
use koordlet::host::meminfo::Meminfo;
use koordlet::host::numa::{HugePage, NodeNumaInfo, NumaInfo};
use koordlet::host::topology::{NodeCpuInfo, ProcessorInfo};
use koordlet::state::nrt::{NrtError, NrtInput, WantedNrt, merge_patch, patch};
use koordlet::state::pods::PodTable;
use serde_json::{Map, Value, json};

use crate::set::{Row, Verdict, check};
use crate::suppress_node::cpu_infos;

#[test]
fn vector_nrt() {
    check("nrt", &[("nrt_calc", 34, nrt_calc)]);
}

/// C3: an object that holds what is wanted is not updated again. Its zones are merged field by field (C2), so those
/// of the row, flattened to what is allocatable, are compared by name only.
fn nrt_calc(row: &Row) -> Verdict {
    let wanted = match compute(row) {
        Ok(wanted) => wanted,
        Err(error) => return row.compare(Err::<Value, _>(error)),
    };
    let mut got = published(&wanted);
    let mut want = row.out.clone().unwrap_or_default();
    if let (Some(existing), Some(want)) = (row.input.get("existing"), want.as_object_mut()) {
        if let Some(problem) = update(existing, &wanted, want) {
            return Verdict::Wrong(problem);
        }
        for key in ["changed", "changedAfterUpdate", "mergedZones"] {
            want.remove(key);
        }
    }
    sort_allocs(&mut want);
    sort_allocs(&mut got);
    row.compare_with(&want, &got)
}

fn compute(row: &Row) -> Result<WantedNrt, NrtError> {
    let input = &row.input;
    let mut node: Node = serde_json::from_value(input["node"].clone()).unwrap();
    if input["nodeHasAnnotations"] == true && node.metadata.annotations.is_empty() {
        // The recorded map was there and empty, which an API server never sends.
        node.metadata.annotations.insert("bystander".into(), String::new());
    }
    let pods: Vec<Pod> = serde_json::from_value(input["pods"].clone()).unwrap();
    let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
    let kubelet = input["kubeletConfig"].as_object().map(KubeletConfig::from_fields);
    WantedNrt::compute(&NrtInput {
        cpus: &cpus(input),
        numa: &numa(input),
        node: &node,
        pods: &PodTable::build(pods, &naming, &PodTable::default()).0,
        kubelet: kubelet.as_ref().filter(|_| input["disableQueryKubeletConfig"] != true),
        cpu_manager_state: input.get("cpuManagerState").and_then(Value::as_str),
        hugepages: input["hugePageReport"] == true,
    })
}

fn cpus(input: &Value) -> NodeCpuInfo {
    let info = &input["basicInfo"];
    let text = |name: &str| info.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let basic = BasicInfo {
        cpu_model: text("cpuModel"),
        vendor_id: text("vendorID"),
        hyper_thread_enabled: info.get("hyperThreadEnabled") == Some(&json!(true)),
        turbo_enabled: info.get("turboEnabled") == Some(&json!(true)),
        cat_l3_cbm_mask: text("catL3CbmMask"),
    };
    let processors = cpu_infos(&input["cpus"]).into_iter().map(|info| ProcessorInfo {
        cpu: info.cpu,
        core: info.core,
        socket: info.socket,
        node: info.node,
        l1dl1il2: "0".to_owned(),
        l3: 0,
        online: "yes".to_owned(),
    });
    NodeCpuInfo::new(basic, processors.collect())
}

fn numa(input: &Value) -> NodeNumaInfo {
    let memory = input["numaMemTotalKiB"].as_array().unwrap();
    let pages = |node: usize, index: usize, size: u64| {
        let num_pages = input["hugePages2M1G"][node][index].as_u64().unwrap_or(0);
        (size, HugePage { num_pages, page_size: size })
    };
    let infos = memory.iter().enumerate().map(|(node, total)| NumaInfo {
        node: u32::try_from(node).unwrap(),
        mem_info: Meminfo::parse_numa(&format!("Node {node} MemTotal: {total} kB\n")),
        huge_pages: [pages(node, 0, 2048), pages(node, 1, 1_048_576)].into(),
    });
    infos.collect::<Vec<_>>().into()
}

/// In the form of the recorded answers, which leave out `cpu-topology`.
fn published(wanted: &WantedNrt) -> Value {
    let annotation = |(key, text): (&&str, &String)| {
        let value: Value = serde_json::from_str(text).unwrap();
        (*key != keys::CPU_TOPOLOGY).then(|| ((*key).to_owned(), value))
    };
    let annotations: Map<String, Value> = wanted.annotations.iter().filter_map(annotation).collect();
    let zones: Vec<Value> = wanted
        .zones
        .iter()
        .map(|zone| {
            let resources = zone.resources.iter().map(|resource| {
                let (capacity, allocatable) =
                    (resource.text(resource.capacity), resource.text(resource.allocatable));
                (resource.name.to_owned(), json!([capacity, allocatable, allocatable]))
            });
            json!({"name": zone.name, "type": "Node", "resources": resources.collect::<Map<_, _>>()})
        })
        .collect();
    json!({
        "annotations": annotations,
        "labels": wanted.reservation_label.as_ref().map(|label| json!({keys::ENABLE_NUMA_RESERVATION: label})),
        "topologyPolicy": wanted.topology_policy,
        "zones": zones,
    })
}

/// Updates the existing object; what is wrong with that.
fn update(existing: &Value, wanted: &WantedNrt, recorded: &Map<String, Value>) -> Option<String> {
    let change = patch(existing, wanted);
    if json!(change.is_some()) != recorded["changed"] {
        return Some(format!("the change is {change:?}"));
    }
    let mut object = existing.clone();
    if let Some(change) = change {
        merge_patch::apply(&mut object, &change.body);
    }
    if let Some(again) = patch(&object, wanted) {
        return Some(format!("after the update {:?} differ still", again.changed));
    }
    let names = |zones: &Value| -> Vec<(Value, Vec<Value>)> {
        let resources = |zone: &Value| match &zone["resources"] {
            Value::Object(by_name) => by_name.keys().map(|name| json!(name)).collect(),
            list => list.as_array().unwrap().iter().map(|resource| resource["name"].clone()).collect(),
        };
        zones.as_array().unwrap().iter().map(|zone| (zone["name"].clone(), resources(zone))).collect()
    };
    if names(&object["zones"]) != names(&recorded["mergedZones"]) {
        return Some(format!("the zones become {}", object["zones"]));
    }
    let foreign = |object: &Value| {
        let resources = object["zones"][0]["resources"].as_array().unwrap().clone();
        let gpu: Vec<Value> =
            resources.into_iter().filter(|resource| resource["name"] == "koordinator.sh/gpu").collect();
        (
            gpu,
            object["metadata"]["annotations"]["foreign"].clone(),
            object["metadata"]["ownerReferences"].clone(),
        )
    };
    (foreign(existing) != foreign(&object)).then(|| format!("what others own becomes {object}"))
}

fn sort_allocs(out: &mut Value) {
    let allocs = out.pointer_mut("/annotations/node.koordinator.sh~1pod-cpu-allocs");
    if let Some(allocs) = allocs.and_then(Value::as_array_mut) {
        allocs.sort_by_key(|alloc| alloc["uid"].to_string());
    }
}
