//! `cpusuppress.jsonl`: the parts of CPU suppression, and single applications of a CPU set.

use std::collections::BTreeMap;

use koordlet::cgroup::path::CgroupDir;
use koordlet::cpuset::CpuSet;
use koordlet::state::groups::{Group, GroupKind};
use koordlet::state::topology::{CpuInfo, KubeletCpuPolicy};
use koordlet::state::usage::GroupUsage;
use koordlet::strategies::cpu_suppress::amount::{AmountInput, full_amount};
use koordlet::strategies::cpu_suppress::choose::pick;
use koordlet::strategies::cpu_suppress::quota::choose_quota;
use koordlet::strategies::cpu_suppress::state::Condition;
use koordlet::units::{CfsQuota, MilliCpu, Percent};
use serde_json::{Value, json};

use crate::set::{Row, Verdict, check};
use crate::suppress_node::{SuppressNode, cores, cpu_infos, quota};

#[test]
fn vector_cpusuppress() {
    check(
        "cpusuppress",
        &[
            ("suppress_amount", 67, suppress_amount),
            ("be_cpuset_pick", 84, be_cpuset_pick),
            ("be_pool", 21, be_pool),
            ("be_quota_step", 40, be_quota_step),
            ("be_cpuset_step", 53, be_cpuset_step),
        ],
    );
}

fn wrong_unless(right: bool, got: impl std::fmt::Debug) -> Verdict {
    if right { Verdict::Right } else { Verdict::Wrong(format!("gives {got:?}")) }
}

/// Recorded sums are floats, so the amount may differ by 1 m (Q40).
fn suppress_amount(row: &Row) -> Verdict {
    let mut node = SuppressNode::new(row);
    node.slo().suppress.threshold = Percent(row.int("thresholdPercent").unwrap());
    node.slo().suppress.min = row.int("minPercent").map(Percent);
    let amount = full_amount(&AmountInput {
        node: node.snapshot.node.as_ref().unwrap(),
        annotation_reserved: node.snapshot.topology.as_ref().unwrap().reserved_amount,
        pods: &node.snapshot.pods,
        slo: &node.snapshot.slo,
        usage: &node.usage,
    });
    let got = amount.map(|amount| amount.amount.0);
    let want = row.out.as_ref().and_then(|out| out.get("suppress_m")).and_then(Value::as_i64);
    wrong_unless(got.zip(want).is_some_and(|(got, want)| (got - want).abs() <= 1), got)
}

/// Q3: with fewer CPUs than wanted, all of them.
fn be_cpuset_pick(row: &Row) -> Verdict {
    let cpus = cpu_infos(row.input.get("cpus").unwrap_or(&Value::Null));
    let count = row.int("count").and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let picked = pick(count, &cpus);
    if row.defect.as_deref() == Some("Q3") {
        let all: CpuSet = cpus.iter().map(|info| info.cpu).collect();
        let set: CpuSet = picked.iter().copied().collect();
        return wrong_unless(set == all && picked.len() == cpus.len(), picked);
    }
    row.compare(Ok::<_, String>(json!({ "picked": picked })))
}

fn be_pool(row: &Row) -> Verdict {
    let mut node = SuppressNode::new(row);
    let ids = row.input.get("cpuIds").and_then(Value::as_array).into_iter().flatten();
    let ids = ids.filter_map(Value::as_u64).filter_map(|id| u32::try_from(id).ok());
    let cpus: Vec<CpuInfo> = ids.map(|cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0 }).collect();
    node.compute_topology(&cpus, row.input.get("nrtAnnotations"));
    row.compare(Ok::<_, String>(json!({ "cpuset": node.topology().be_pool.to_string() })))
}

/// A step that leaves the quota is one that writes nothing. Q4: from unlimited, the target.
fn be_quota_step(row: &Row) -> Verdict {
    let present = quota(row.text("file"));
    let amount = MilliCpu(row.int("suppress_m").unwrap());
    let capacity = MilliCpu(row.int("capacity_m").unwrap());
    let got = choose_quota(amount, capacity, Some(present)).quota;
    let want = match row.out.as_ref().and_then(|out| out.get("written")).and_then(Value::as_str) {
        _ if row.defect.as_deref() == Some("Q4") => CfsQuota::Micros((amount.0 * 100).max(2000)),
        Some(text) => quota(text),
        None => present,
    };
    wrong_unless(got == want, got)
}

/// Capacity of the made-up node whose load gives the wanted amount; more than any row's amount.
const CAPACITY: MilliCpu = MilliCpu(1_000_000);

/// A node under suppression by CPU set with a load that leaves `suppress_m`.
fn cpuset_node(row: &Row) -> SuppressNode {
    let mut with_capacity = row.clone();
    if let Some(input) = with_capacity.input.as_object_mut() {
        input.insert("capacity_m".to_owned(), json!(CAPACITY.0));
        input.insert("allocatable_m".to_owned(), json!(CAPACITY.0));
        // No pod at all is a missing input; a bystander without a label is not.
        let pods = input.entry("pods").or_insert_with(|| json!([]));
        pods.as_array_mut().unwrap().push(json!({ "uid": "bystander" }));
    }
    let mut node = SuppressNode::new(&with_capacity);
    node.slo().suppress.enable = true;
    node.slo().suppress.threshold = Percent(100);
    let load = cores(CAPACITY - MilliCpu(row.int("suppress_m").unwrap()));
    node.usage.node_cpu = Some(load);
    let pod = Group::new(GroupKind::Pod, "load", CgroupDir::new("kubepods/podload").unwrap());
    node.usage.groups.set(pod, GroupUsage::of(load));
    node
}

fn recorded_files(row: &Row) -> BTreeMap<String, CpuSet> {
    let files = row.out.as_ref().and_then(|out| out.get("files")).and_then(Value::as_object);
    let list = |(dir, text): (&String, &Value)| (dir.clone(), text.as_str().unwrap().parse().unwrap());
    files.into_iter().flatten().map(list).collect()
}

/// Q2 (crash): the files stay, and it is reported. Q3: all allowed CPUs. Q7: the first step from a narrow set
/// is limited by it under the static policy as under the other one.
fn be_cpuset_step(row: &Row) -> Verdict {
    let mut node = cpuset_node(row);
    let before = node.cpusets();
    let conditions = node.step();
    let got = node.cpusets();
    match row.defect.as_deref() {
        _ if row.panic => {
            wrong_unless(got == before && conditions == [Condition::NothingAllowed], (got, conditions))
        }
        Some("Q3") => {
            let pool = node.topology().be_pool.clone();
            let right = got.iter().all(|(dir, cpus)| *cpus == pool || is_nested(dir) && cpus == &before[dir]);
            wrong_unless(right && !pool.is_empty(), got)
        }
        Some("Q7") => {
            let mut plain = cpuset_node(row);
            plain.topology().kubelet_policy = KubeletCpuPolicy::None;
            plain.step();
            let plain = plain.cpusets();
            let want: BTreeMap<String, CpuSet> = recorded_files(row)
                .into_iter()
                .map(|(dir, recorded)| {
                    let is_container = dir.matches('/').count() == 1;
                    let cpus = if is_container { plain[&dir].clone() } else { recorded };
                    (dir, cpus)
                })
                .collect();
            wrong_unless(got == want, got)
        }
        _ => wrong_unless(got == recorded_files(row), got),
    }
}

/// Whether a directory lies inside a container's.
fn is_nested(dir: &str) -> bool {
    dir.matches('/').count() > 1
}
