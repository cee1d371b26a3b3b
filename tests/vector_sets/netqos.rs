//! `netqos.jsonl`: Terway's files and priorities, tc's classes and rates.

use std::net::Ipv4Addr;

use koordlet::api::keys;
use koordlet::api::node_slo::NodeSloSpec;
use koordlet::api::pod::Pod;
use koordlet::api::qos::{KubeQos, QosClass};
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::claims::network::ClassId;
use koordlet::executor::network::set_key;
use koordlet::rules::bandwidth;
use koordlet::rules::tc_network_qos::shared_class;
use koordlet::rules::terway_qos::files;
use koordlet::state::pods::PodEntry;
use koordlet::state::slo::qos::network::NetworkQos;
use koordlet::state::slo::{Slo, SloMerger};
use koordlet::units::BitRate;
use serde_json::{Value, json};

use crate::set::{Check, Row, Verdict, check};

/// The policy of a row; an error if a field of it is refused, which leaves the last good one in force.
fn policy(row: &Row) -> Result<Slo, String> {
    let spec: NodeSloSpec = serde_json::from_value(row.input["nodeSLO"].clone()).unwrap();
    let mut merger = SloMerger::default();
    match &merger.apply(&spec).unwrap_or_default()[..] {
        [] => Ok(merger.slo().clone()),
        [first, ..] => Err(first.to_string()),
    }
}

fn total(slo: &Slo) -> BitRate {
    bandwidth::bits(slo.system.total_network_bandwidth)
}

fn terway_node_file(row: &Row) -> Verdict {
    let text = policy(row).and_then(|slo| {
        let classes = &slo.qos.network.classes;
        files::node_file(slo.system.total_network_bandwidth, &classes.ls, &classes.be)
            .map_err(|error| error.to_string())
    });
    row.compare(text.map(|text| json!({ "text": text })))
}

fn tc_node_config(row: &Row) -> Verdict {
    let Ok(slo) = policy(row) else {
        return Verdict::NotApplicable(
            "a policy with a bad field is refused as a whole: the last good one stays",
        );
    };
    let total = total(&slo);
    let class = |qos: &NetworkQos| {
        let bits = |bandwidth| if qos.enable { bandwidth::of_total(bandwidth, total).0 } else { 0 };
        json!({
            "txMin": bits(qos.egress_request), "txMax": bits(qos.egress_limit),
            "rxMin": bits(qos.ingress_request), "rxMax": bits(qos.ingress_limit),
        })
    };
    let classes = &slo.qos.network.classes;
    row.compare(Ok::<_, String>(
        json!({"total": total.0, "ls": class(&classes.ls), "be": class(&classes.be)}),
    ))
}

fn annotated(row: &Row) -> Pod {
    let annotation = row.input.get("annotation").and_then(Value::as_str);
    let mut pod = Pod::default();
    "u".clone_into(&mut pod.metadata.uid);
    pod.metadata.annotations.extend(annotation.map(|text| (keys::NETWORK_QOS.to_owned(), text.to_owned())));
    pod
}

fn tc_pod_bandwidth(row: &Row) -> Verdict {
    let limits = bandwidth::pod_limits(&annotated(row)).map(Option::unwrap_or_default);
    let bytes = |limit: Option<BitRate>| limit.unwrap_or_default().bytes_per_second();
    row.compare(
        limits.map(|limits| json!({"ingress": bytes(limits.ingress), "egress": bytes(limits.egress)})),
    )
}

/// A pod with an annotation that cannot be read is left out, as one that lacks a key.
fn terway_pod_bandwidth(row: &Row) -> Verdict {
    let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
    let entry = PodEntry::new(annotated(row), &naming).unwrap();
    let bandwidth = files::pod_bandwidth(&entry).ok().flatten();
    row.compare(Ok::<_, String>(bandwidth.map_or(json!({"leftOut": true}), |found| json!(found))))
}

fn terway_pod_prio(row: &Row) -> Verdict {
    let kube: Option<KubeQos> = serde_json::from_value(row.input["kubeQOS"].clone()).ok();
    let prio = files::priority(QosClass::from_label(row.text("qosLabel")), kube);
    row.compare(Ok::<_, String>(json!({ "prio": prio })))
}

fn tc_pod_class(row: &Row) -> Verdict {
    let class = shared_class(QosClass::from_label(row.text("qosLabel")));
    let name = match class {
        Some(ClassId::SYSTEM) => Some("system_class"),
        Some(ClassId::LS) => Some("ls_class"),
        Some(ClassId::BE) => Some("be_class"),
        _ => None,
    };
    let recorded = row.out.as_ref().and_then(|out| out["class"].as_str());
    // No class is recorded as an empty text or as nothing.
    if let (None, None | Some("")) = (name, recorded) {
        return Verdict::Right;
    }
    row.compare(name.map(|name| json!({ "class": name })).ok_or("no class"))
}

/// Minor numbers are hexadecimal digits, as `tc` writes them.
fn tc_classid(row: &Row) -> Verdict {
    let number = |key: &str| row.int(key).unwrap_or_default();
    let class: Result<ClassId, _> = format!("{}:{}", number("major"), number("minor")).parse();
    row.compare(class.map(|class| json!({ "classid": class.raw() })))
}

/// The bytes of an address in a set's key, as hexadecimal digits.
fn tc_ip_hex(row: &Row) -> Verdict {
    let address: Result<Ipv4Addr, _> = row.text("ip").parse();
    let hex = address.map(|address| format!("{:08x}", u32::from_be_bytes(set_key(address))));
    row.compare(hex.map(|hex| json!({ "hex": hex })))
}

const CHECKS: &[(&str, usize, Check)] = &[
    ("tc_classid", 1, tc_classid),
    ("tc_ip_hex", 2, tc_ip_hex),
    ("tc_node_config", 3, tc_node_config),
    ("tc_pod_bandwidth", 3, tc_pod_bandwidth),
    ("tc_pod_class", 3, tc_pod_class),
    ("terway_node_file", 4, terway_node_file),
    ("terway_pod_bandwidth", 5, terway_pod_bandwidth),
    ("terway_pod_prio", 18, terway_pod_prio),
];

#[test]
fn vector_netqos() {
    check("netqos", CHECKS);
}
