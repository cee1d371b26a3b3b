//! Set `coresched`: the core scheduling group of a pod, and `cpu.idle` of the classes (hooks.md 10.1). The recorded
//! `cpu.idle` is that of a class directory; the agent claims the same value on the directories of the class's pods.

use koordlet::api::node_slo::NodeSloSpec;
use koordlet::api::pod::Pod;
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::rules::core_sched::CoreSched;
use koordlet::state::pods::PodEntry;
use koordlet::state::slo::SloMerger;
use serde_json::{Value, json};

use crate::set::{Row, Verdict, check};

#[test]
fn vector_coresched() {
    check("coresched", &[("coresched_group", 96, group), ("coresched_cpu_idle", 2, cpu_idle)]);
}

/// The rule after the row's NodeSLO; one that was never fed where the row has none.
fn rule(row: &Row) -> CoreSched {
    let mut rule = CoreSched::default();
    let slo = row.input.get("nodeSLO").filter(|slo| !slo.is_null());
    if let Some(slo) = slo {
        let spec: NodeSloSpec = serde_json::from_value(slo.clone()).unwrap();
        let mut merger = SloMerger::default();
        merger.apply(&spec);
        rule.update(&merger.slo().qos.cpu);
    }
    rule
}

fn group(row: &Row) -> Verdict {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": row.text("podUID"), "labels": row.input["labels"]},
        "status": {"qosClass": row.text("kubeQOS")},
    }))
    .unwrap();
    let pod = PodEntry::new(pod, &Naming::new(CgroupDriver::Cgroupfs, "").unwrap()).unwrap();
    let group = rule(row).group(&pod);
    row.compare(Ok::<_, String>(json!({"enabled": group.enabled, "group": group.name})))
}

fn cpu_idle(row: &Row) -> Verdict {
    let rule = rule(row);
    let idle = |class| rule.cpu_idle(class).map(i32::from);
    let classes = [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort];
    let values = classes.map(|class| (format!("{class:?}"), json!(idle(class))));
    row.compare(Ok::<_, String>(Value::from_iter(values)))
}
