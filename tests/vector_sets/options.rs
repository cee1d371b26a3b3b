//! Set `options`: defaults of flags and gates, parsing of gates, metric families (collection.md 12 and 14,
//! hooks.md 2, qos.md 3 and 8.3).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use koordlet::api::node::Node;
use koordlet::api::node_slo::HostApplication;
use koordlet::api::pod::Pod;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::path::CgroupDir;
use koordlet::config::flags::default_text;
use koordlet::config::gates::{Gate, Gates, Stage};
use koordlet::executor::ExecutorStats;
use koordlet::host::roots::Roots;
use koordlet::report::metrics::{Metrics, NodeFacts, Scope};
use koordlet::state::groups::{Group, GroupKind, PerGroup};
use koordlet::state::hub::hub;
use koordlet::state::pods::PodTable;
use koordlet::state::slo::Slo;
use koordlet::state::usage::{GroupUsage, NanoCpu, Usage};
use koordlet::units::{Bytes, MilliCpu};
use serde_json::{Value, json};

use crate::set::{self, Row, Verdict};

/// Defaults by mode stand in the roots, not in the flag.
fn root_default(flag: &str) -> Option<PathBuf> {
    let roots = Roots::daemon_set();
    Some(match flag {
        "cgroup-root-dir" => roots.cgroup,
        "proc-root-dir" => roots.proc,
        "sys-root-dir" => roots.sys,
        "sys-fs-root-dir" => roots.sys_fs,
        "var-run-root-dir" => roots.var_run,
        "run-root-dir" => roots.run,
        "var-lib-kubelet-dir" => roots.var_lib_kubelet,
        _ => return None,
    })
}

fn flag_default(row: &Row) -> Verdict {
    let flag = row.text("flag");
    if let Some(root) = root_default(flag) {
        let recorded = row.out.as_ref().and_then(|out| out["default"].as_str()).unwrap_or_default();
        let same = root == Path::new(recorded);
        return if same { Verdict::Right } else { Verdict::Wrong(format!("gives {}", root.display())) };
    }
    let default = default_text(flag).ok_or_else(|| format!("no flag {flag}"));
    row.compare(default.map(|default| json!({ "default": default })))
}

fn gate_named(name: &str) -> Result<Gate, String> {
    Gate::ALL.iter().find(|gate| gate.name() == name).copied().ok_or_else(|| format!("no gate {name}"))
}

fn gate_default(row: &Row) -> Verdict {
    let shown = gate_named(row.text("gate")).map(|gate| {
        let stage = match gate.stage() {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
        };
        // No gate is locked here.
        json!({"default": Gates::default().is_on(gate), "locked": false, "stage": stage})
    });
    row.compare(shown)
}

fn gates_parse(row: &Row) -> Verdict {
    let shown = Gates::parse([row.text("text")]).map_err(|errors| format!("{errors:?}")).and_then(|gates| {
        let recorded = row.out.as_ref().and_then(Value::as_object).into_iter().flatten();
        let names = recorded.map(|(name, _)| name.as_str()).filter(|name| *name != "error");
        let pairs = names.map(|name| Ok((name.to_owned(), gates.is_on(gate_named(name)?).into())));
        pairs.collect::<Result<serde_json::Map<_, _>, String>>().map(Value::Object)
    });
    row.compare(shown)
}

/// Families whose part of the agent is not built, by the beginning of their name.
const NOT_BUILT: [(&str, &str); 12] = [
    ("koordlet_collect_node_local_storage", "no storage collector yet"),
    ("koordlet_container_core_sched", "no core scheduling yet"),
    ("koordlet_core_sched", "no core scheduling yet"),
    ("koordlet_container_cpi", "no CPI collector yet"),
    ("koordlet_container_oom", "no OOM score rule yet"),
    ("koordlet_container_scaled", "no CPU burst yet"),
    ("koordlet_cpuset", "no cpuset rule yet"),
    ("koordlet_kubelet", "no kubelet client yet"),
    ("koordlet_node_metric", "no NodeMetric report yet"),
    ("koordlet_pod_eviction", "no eviction yet"),
    ("koordlet_resctrl", "no resctrl collector yet"),
    ("koordlet_runtime_hook", "no hooks yet"),
];

/// The rest of them: no PSI collector, no prediction.
fn not_built(name: &str) -> Option<&'static str> {
    let listed = NOT_BUILT.iter().find(|(start, _)| name.starts_with(start)).map(|(_, why)| *why);
    listed.or(match name {
        _ if name.contains("_psi") => Some("no PSI collector yet"),
        _ if name.contains("predicted") || name.contains("priority") => Some("no prediction yet"),
        _ => None,
    })
}

/// A page on which every family that is built has a series.
fn page() -> (String, String) {
    let (writers, readers) = hub();
    let metrics = Metrics::new("n1", &readers);
    let stats = Arc::new(ExecutorStats::default());
    stats.write_times.note(true, Duration::from_millis(1));
    metrics.add_executor(&stats);
    metrics.suppressed("cpuset", Some(MilliCpu(1000)), MilliCpu(500));
    metrics.node_facts_read::<(), ()>(NodeFacts::Cpu, &Ok(()));
    metrics.node_facts_read::<(), ()>(NodeFacts::Numa, &Ok(()));
    writers.node.set(Some(Arc::new(Node::default())));
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"containers": [{"name": "c", "resources": {
            "requests": {"kubernetes.io/batch-cpu": "1000"}, "limits": {"kubernetes.io/batch-cpu": "1000"}}}]},
        "status": {"containerStatuses": [{"name": "c", "containerID": "containerd://abc"}]},
    }))
    .unwrap();
    let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
    writers.pods.set(Arc::new(PodTable::build([pod], &naming, &PodTable::default()).0));
    let app = HostApplication { name: "a".into(), ..HostApplication::default() };
    writers.slo.set(Arc::new(Slo { host_applications: vec![app], ..Slo::default() }));
    let mut groups = PerGroup::default();
    let app = Group::new(GroupKind::HostApp, "a", CgroupDir::new("a").unwrap());
    groups.set(app, GroupUsage::of(NanoCpu(1)));
    writers.usage.set(Arc::new(Usage {
        node_cpu: Some(NanoCpu(1)),
        node_memory: Some(Bytes(1)),
        groups,
        ..Usage::default()
    }));
    (metrics.encode(Scope::Internal).unwrap(), metrics.encode(Scope::External).unwrap())
}

/// Type and label names of a family on a page of the exposition.
fn family(page: &str, name: &str) -> Option<(String, BTreeSet<String>)> {
    let kind = page.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} ")))?;
    let series = page.lines().find(|line| {
        line.starts_with(&format!("{name}{{")) || line.starts_with(&format!("{name}_bucket{{"))
    })?;
    let labels = series.split_once('{')?.1.rsplit_once('}')?.0;
    let names =
        labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
    Some((kind.to_owned(), names.filter(|name| name != "le").collect()))
}

fn metric_family(row: &Row) -> Verdict {
    let name = row.text("name");
    if let Some(reason) = not_built(name) {
        return Verdict::NotApplicable(reason);
    }
    let (internal, external) = page();
    let found = family(&internal, name)
        .map(|found| ("internal", found))
        .or_else(|| family(&external, name).map(|found| ("external", found)));
    row.compare(
        found
            .map(|(registry, (kind, labels))| json!({"labels": labels, "registry": registry, "type": kind}))
            .ok_or_else(|| format!("no family {name}")),
    )
}

#[test]
fn vector_options() {
    set::check(
        "options",
        &[
            ("flag_default", 49, flag_default),
            ("gate_default", 22, gate_default),
            ("gates_parse", 10, gates_parse),
            ("metric_family", 19, metric_family),
        ],
    );
}

/// Every family of the reference is either shown with its type and labels or listed as not built.
#[test]
fn vector_options_the_page_shows_all_families_that_are_built() {
    let (internal, external) = page();
    for name in [
        "start_time",
        "node_used_cpu_cores",
        "node_used_memory_bytes",
        "be_suppress_cpu_cores",
        "be_suppress_ls_used_cpu_cores",
        "be_suppress_be_used_cpu_cores",
        "collect_node_cpu_info_status",
        "collect_node_numa_info_status",
        "host_application_resource_usage",
        "resource_update_duration_milliseconds",
    ] {
        assert!(family(&internal, &format!("koordlet_{name}")).is_some(), "{name}");
    }
    for name in ["node_resource_allocatable", "container_resource_requests", "container_resource_limits"] {
        assert!(family(&external, &format!("koordlet_{name}")).is_some(), "{name}");
    }
}
