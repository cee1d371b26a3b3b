//! `suppresstick.jsonl`: whole ticks one after another, compared by what the files mean after each.

use std::collections::BTreeMap;

use koordlet::cpuset::CpuSet;
use koordlet::state::slo::SuppressPolicy;
use koordlet::state::topology::KubeletCpuPolicy;
use koordlet::units::{CfsQuota, Percent};
use serde_json::Value;

use crate::set::{Row, Verdict, check};
use crate::suppress_node::{SuppressNode, quota};

#[test]
fn vector_suppresstick() {
    check("suppresstick", &[("suppress_ticks", 30, suppress_ticks)]);
}

/// Files after one tick.
#[derive(Debug, PartialEq)]
struct Files {
    cpusets: BTreeMap<String, CpuSet>,
    quota: CfsQuota,
}

/// Q7: containers get what they would get without the static policy, where the growth limit works. Q6, in any
/// row: containers of a pod with CPUs of its own hold those.
fn suppress_ticks(row: &Row) -> Verdict {
    let got = run(row, |_| {});
    let plain = run(row, |node| node.topology().kubelet_policy = KubeletCpuPolicy::None);
    let own = SuppressNode::new(row).allocations();
    let recorded = row.out.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    if got.len() != recorded.len() {
        return Verdict::Wrong(format!("gives {} ticks", got.len()));
    }
    for (tick, ((recorded, got), plain)) in recorded.iter().zip(got).zip(plain).enumerate() {
        let mut want = files(recorded);
        if row.defect.as_deref() == Some("Q7") {
            want.cpusets.extend(plain.cpusets.into_iter().filter(|(dir, _)| is_container(dir)));
        }
        if !near(got.quota, want.quota) || !cpusets_right(&want.cpusets, &got.cpusets, &own) {
            return Verdict::Wrong(format!("tick {tick} gives {got:?}, should give {want:?}"));
        }
    }
    Verdict::Right
}

fn is_container(dir: &str) -> bool {
    dir.contains('/')
}

/// Recorded sums are floats, so an amount may differ by 1 m and a quota by 100 us (Q40).
fn near(got: CfsQuota, want: CfsQuota) -> bool {
    match (got.micros(), want.micros()) {
        (Some(got), Some(want)) => (got - want).abs() <= 100,
        (got, want) => got == want,
    }
}

/// Whether all lists are as wanted, but for pods with CPUs of their own (Q6): their containers hold those,
/// and the directories above may have them in addition.
fn cpusets_right(
    want: &BTreeMap<String, CpuSet>,
    got: &BTreeMap<String, CpuSet>,
    own: &BTreeMap<String, CpuSet>,
) -> bool {
    let all_own = own.values().fold(CpuSet::new(), |all, cpus| all.union(cpus));
    let right = |(dir, want): (&String, &CpuSet)| {
        let Some(got) = got.get(dir) else { return false };
        let pods_own =
            if dir == "." { Some(&all_own) } else { own.get(dir.split('/').next().unwrap_or_default()) };
        match pods_own {
            Some(own) if is_container(dir) => got == own,
            Some(own) => want.difference(own).is_subset(got) && got.is_subset(&want.union(own)),
            None => got == want,
        }
    };
    want.len() == got.len() && want.iter().all(right)
}

fn run(row: &Row, prepare: impl FnOnce(&mut SuppressNode)) -> Vec<Files> {
    let mut node = SuppressNode::new(row);
    prepare(&mut node);
    if row.input.get("gateBECPUManager") == Some(&Value::Bool(true)) {
        disown_numa_pods(row, &mut node);
    }
    let ticks = row.input.get("ticks").and_then(Value::as_array).cloned().unwrap_or_default();
    let files = |tick: &Value| {
        set_policy(&mut node, tick);
        node.step();
        Files { cpusets: node.cpusets(), quota: node.quota() }
    };
    ticks.iter().map(files).collect()
}

/// With gate BECPUManager the containers of pods with `numaNodeResources` belong to another part
/// (CPUSetAllocator), so suppression never wrote them.
fn disown_numa_pods(row: &Row, node: &mut SuppressNode) {
    for pod in row.input.get("pods").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| pod.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("resourceStatus").contains("numaNodeResources") {
            node.disown_cpus(&format!("kubepods-besteffort-pod{}.slice/ctr", text("uid")));
        }
    }
}

fn set_policy(node: &mut SuppressNode, tick: &Value) {
    let percent = |key: &str| tick.get(key).and_then(Value::as_i64).map(Percent);
    let suppress = &mut node.slo().suppress;
    suppress.enable = tick.get("enable") == Some(&Value::Bool(true));
    suppress.threshold = percent("cpuSuppressThresholdPercent").unwrap_or(Percent(65));
    suppress.min = percent("cpuSuppressMinPercent");
    suppress.policy = match tick.get("cpuSuppressPolicy").and_then(Value::as_str) {
        Some("cfsQuota") => SuppressPolicy::CfsQuota,
        _ => SuppressPolicy::Cpuset,
    };
}

fn files(recorded: &Value) -> Files {
    let list = |(dir, text): (&String, &Value)| (dir.clone(), text.as_str().unwrap().parse().unwrap());
    let cpusets = recorded.get("cpusets").and_then(Value::as_object).into_iter().flatten();
    Files {
        cpusets: cpusets.map(list).collect(),
        quota: quota(recorded.get("quota").and_then(Value::as_str).unwrap_or_default()),
    }
}
