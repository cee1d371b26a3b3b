//! `collectors.jsonl`: what best effort may use and asks for, and the use of the system (collection.md 6.4, 6.6).

use std::collections::BTreeMap;
use std::sync::Arc;

use koordlet::api::pod::Pod;
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::place::DirKind;
use koordlet::node::be_files::BeFiles;
use koordlet::state::be_resources::request;
use koordlet::state::pods::PodTable;
use koordlet::state::system_usage::{Sampled, SystemInputs, UseSum};
use koordlet::state::tree::CgroupTree;
use koordlet::state::usage::NanoCpu;
use koordlet::units::{Bytes, Nanos};
use serde_json::{Map, Value, json};

use crate::parsers::lscpu_tree::put;
use crate::set::{self, Row, Verdict};

#[test]
fn vector_collectors() {
    set::check(
        "collectors",
        &[
            ("be_real_limit", 29, be_real_limit),
            ("be_request", 10, be_request),
            ("system_usage", 27, system_usage),
        ],
    );
}

const BE: &str = "kubepods/besteffort";

/// The row's files in a folder of either version, and the directories that they make.
fn be_folder(row: &Row) -> (tempfile::TempDir, CgroupTree) {
    let folder = tempfile::tempdir().unwrap();
    let put = |file: String, text: &str| put(&folder.path().join(file), text);
    let v1 = row.text("cgroup") == "v1";
    let (quota, period) = (row.text("quota"), row.text("period"));
    if v1 {
        put(format!("cpu/{BE}/cpu.cfs_quota_us"), quota);
        put(format!("cpu/{BE}/cpu.cfs_period_us"), period);
    } else {
        put("cgroup.controllers".to_owned(), "cpuset cpu memory");
        let quota = if quota == "-1" { "max" } else { quota };
        put(format!("{BE}/cpu.max"), &format!("{quota} {period}"));
    }
    let mut tree = CgroupTree::default();
    for (name, cpus) in row.input["beCpusets"].as_object().unwrap() {
        let dir = if name == "." { BE.to_owned() } else { format!("{BE}/{name}") };
        let file = if v1 { "cpuset.cpus" } else { "cpuset.cpus.effective" };
        put(format!("{}{dir}/{file}", if v1 { "cpuset/" } else { "" }), cpus.as_str().unwrap());
        let dir = CgroupDir::new(&dir).unwrap();
        let place = Naming::new(CgroupDriver::Cgroupfs, "").unwrap().classify(&dir).map(|place| place.kind);
        tree.dirs.insert(dir, place.unwrap_or(DirKind::Nested));
    }
    (folder, tree)
}

fn be_real_limit(row: &Row) -> Verdict {
    let (folder, tree) = be_folder(row);
    let layout = Arc::new(Layout::of_folder(folder.path()).unwrap());
    let limit = BeFiles::new(layout, &CgroupDir::new(BE).unwrap()).real_limit(&Arc::new(tree));
    row.compare(limit.map(|limit| json!({ "realLimit_m": limit.map(|limit| limit.0) })))
}

/// A row's pods have names alone; a table needs ids.
fn be_request(row: &Row) -> Verdict {
    let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
    let pods = row.input["pods"].as_array().unwrap().iter().map(|pod| {
        let mut pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        pod.metadata.uid = pod.metadata.name.clone();
        pod
    });
    let (table, problems) = PodTable::build(pods, &naming, &PodTable::default());
    assert!(problems.is_empty(), "{problems:?}");
    row.compare(Ok::<_, String>(json!({ "request_m": request(&table).0 })))
}

/// Recorded memory is a fraction of bytes: eighths here.
const EIGHTHS: f64 = 8.0;

/// When the rows' samples were taken: long enough after the clock's start.
const NOW: Nanos = Nanos(1_000_000_000_000);
const OUTDATED: Nanos = Nanos(10_000_000_000);

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positive numbers")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn at(age: &Value) -> Nanos {
    NOW - Nanos(whole(age.as_f64().unwrap() * 1e9))
}

fn cpu(age: &Value, cores: &Value) -> Sampled<NanoCpu> {
    Sampled { at: at(age), value: NanoCpu::from_cores(cores.as_f64().unwrap()) }
}

fn memory(age: &Value, bytes: &Value) -> Sampled<Bytes> {
    Sampled { at: at(age), value: Bytes(whole(bytes.as_f64().unwrap() * EIGHTHS)) }
}

/// The sum of several collectors: as old as its oldest part, unknown without any.
fn sum(parts: &[&Value]) -> UseSum {
    let of = |part: &Value| UseSum {
        cpu: Some(cpu(&part["age"], &part["cpu"])),
        memory: Some(memory(&part["age"], &part["memory"])),
    };
    let both = |a: UseSum, b: UseSum| UseSum {
        cpu: a
            .cpu
            .zip(b.cpu)
            .map(|(a, b)| Sampled { at: a.at.min(b.at), value: NanoCpu(a.value.0 + b.value.0) }),
        memory: a.memory.zip(b.memory).map(|(a, b)| Sampled { at: a.at.min(b.at), value: a.value + b.value }),
    };
    parts.iter().map(|part| of(part)).reduce(both).unwrap_or_default()
}

/// `{node: [age, value]}`
fn by_node<T>(nodes: &Value, figure: fn(&Value, &Value) -> Sampled<T>) -> BTreeMap<u32, Sampled<T>> {
    let nodes = nodes.as_object().unwrap().iter();
    nodes.map(|(node, pair)| (node.parse().unwrap(), figure(&pair[0], &pair[1]))).collect()
}

fn inputs(row: &Row) -> SystemInputs {
    let node = sum(&[&row.input["node"]]);
    let apps: Vec<&Value> = [&row.input["hostApps"]].into_iter().filter(|apps| !apps.is_null()).collect();
    let pods: Vec<&Value> = row.input["podCollectors"].as_array().unwrap().iter().collect();
    let pods_numa = by_node(&row.input["podsNumaMemory"], memory);
    let oldest = pods_numa.values().map(|memory| memory.at).min();
    SystemInputs {
        node_cpu: node.cpu,
        node_memory: node.memory,
        pods: sum(&pods),
        host_apps: sum(&apps),
        numa_cpu: by_node(&row.input["nodeNumaCPU"], cpu),
        numa_memory: by_node(&row.input["nodeNumaMemory"], memory),
        pods_numa_memory: oldest.map(|at| Sampled {
            at,
            value: pods_numa.iter().map(|(node, memory)| (*node, memory.value)).collect(),
        }),
    }
}

fn system_usage(row: &Row) -> Verdict {
    let usage = inputs(row).usage(NOW, OUTDATED);
    let bytes = |memory: Bytes| memory.0 as f64 / EIGHTHS;
    let nodes = |figures: Vec<(u32, f64)>| -> Map<String, Value> {
        figures.into_iter().map(|(node, figure)| (node.to_string(), json!(figure))).collect()
    };
    row.compare(Ok::<_, String>(json!({
        "sys_cpu_usage": usage.cpu.map(NanoCpu::cores),
        "sys_memory_usage": usage.memory.map(bytes),
        "sys_numa_cpu_usage": nodes(usage.numa_cpu.iter().map(|(node, cpu)| (*node, cpu.cores())).collect()),
        "sys_numa_memory_usage": nodes(usage.numa_memory.iter().map(|(n, memory)| (*n, bytes(*memory))).collect()),
    })))
}
