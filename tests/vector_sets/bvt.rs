//! `bvt.jsonl`: a NodeSLO arrives, and what group identity makes of directories and switches (hooks.md 8.1). Compared
//! by what the plan would make the files hold: each recorded write is a file that we hold, and no other is.

use std::collections::BTreeMap;
use std::sync::Arc;

use koordlet::api::node_slo::{HostApplication, NodeSloSpec};
use koordlet::api::pod::Pod;
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::Resource;
use koordlet::claims::combine::{PlanInput, plan};
use koordlet::claims::plan::{Decision, Plan};
use koordlet::claims::target::HostFile;
use koordlet::rules::{PluginKind, RuleNotice, RuleSettings, Rules};
use koordlet::state::kernel::{KernelFacts, Switch};
use koordlet::state::node_dirs::NodeDirs;
use koordlet::state::pods::PodTable;
use koordlet::state::slo::SloMerger;
use koordlet::state::snapshot::Snapshot;
use koordlet::state::tree::{CgroupTree, DirKind};
use serde_json::{Map, Value, json};

use crate::set::{self, Row, Verdict, check};

#[test]
fn vector_bvt() {
    check("bvt", &[("bvt_rule_update", 35, bvt_rule_update)]);
}

const CLASSES: [KubeQos; 3] = [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort];

/// The switches by the names under which rows give them.
const SWITCHES: [(&str, &str); 2] = [
    ("schedCore", "kernel/sched_core"),
    ("schedGroupIdentityEnabled", "kernel/sched_group_identity_enabled"),
];

fn bvt_rule_update(row: &Row) -> Verdict {
    let snapshot = snapshot(row);
    let plugins = [PluginKind::GroupIdentity].into_iter().collect();
    let mut rules = Rules::new(&RuleSettings { plugins, ..RuleSettings::default() });
    let notices = rules.observe(&snapshot);
    let plan = plan(PlanInput {
        pods: &snapshot.pods,
        topology: None,
        tree: &snapshot.tree,
        semantics: set::layout("v1").semantics(),
        claims: rules.claims(&snapshot),
        synced: rules.synced(&snapshot).collect(),
    });
    let bvt = identities(&plan);
    let of_pod = |pod: &Value| {
        let uid = pod["uid"].as_str().unwrap();
        bvt.get(snapshot.pods.pods[uid].dir.as_str()).map(|text| text.parse::<i64>().unwrap())
    };
    let pods: Vec<_> = row.input["pods"].as_array().unwrap().iter().map(of_pod).collect();
    let mut got = json!({
        "bvt": bvt,
        "changed": notices.iter().any(|notice| matches!(notice, RuleNotice::Changed { .. })),
        "parseError": notices.iter().any(|notice| matches!(notice, RuleNotice::Refused { .. })),
        "podReconcile": pods,
    });
    for (key, name) in SWITCHES {
        if row.text(key) != "absent" {
            got[key] = json!(switch_after(&plan, name).unwrap_or_else(|| row.text(key).to_owned()));
        }
    }
    row.compare(Ok::<_, String>(got))
}

/// What the plan holds of `cpu.bvt_warp_ns`, by directory.
fn identities(plan: &Plan) -> BTreeMap<String, String> {
    let entries = plan.entries.iter().filter(|(target, _)| target.resource == Resource::BvtWarpNs);
    let held = entries.map(|(target, desired)| match &desired.decision {
        Decision::Hold(value) => (target.dir.to_string(), value.to_string()),
        other => panic!("{target}: {other:?}"),
    });
    held.collect()
}

fn switch_after(plan: &Plan, name: &str) -> Option<String> {
    match &plan.host_files.get(&HostFile::sysctl(name))?.decision {
        Decision::Hold(text) => Some(text.clone()),
        Decision::Leave | Decision::Release(_) => None,
    }
}

fn snapshot(row: &Row) -> Snapshot {
    let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
    let spec: NodeSloSpec = serde_json::from_value(row.input["nodeSLO"].clone()).unwrap();
    let mut slo = SloMerger::default();
    slo.apply(&spec);
    let pods = row.input["pods"].as_array().unwrap().iter().map(pod);
    let (pods, problems) = PodTable::build(pods, &naming, &PodTable::default());
    assert!(problems.is_empty(), "{problems:?}");
    let app = |app: &Value| {
        let app: HostApplication = serde_json::from_value(app.clone()).unwrap();
        let dir = naming.host_app_dir(&app).unwrap();
        (app, dir)
    };
    let dirs = NodeDirs {
        classes: CLASSES.map(|class| (class, naming.qos_dir(class).clone())).to_vec(),
        host_apps: row.input["hostApps"].as_array().unwrap().iter().map(app).collect(),
    };
    let [sched_core, group_identity] = SWITCHES.map(|(key, _)| switch(row.text(key)));
    Snapshot {
        slo: Arc::new(slo.slo().clone()),
        tree: Arc::new(tree(row, &naming, &pods)),
        pods: Arc::new(pods),
        dirs: Arc::new(dirs),
        kernel: Arc::new(KernelFacts { bvt: true, group_identity, sched_core, ..KernelFacts::default() }),
        ..Snapshot::default()
    }
}

fn switch(text: &str) -> Switch {
    match text {
        "absent" => Switch::Absent,
        text => text.parse().map_or(Switch::Unreadable, Switch::Reads),
    }
}

fn pod(row: &Value) -> Pod {
    let labelled = |key: &str, text: &Value| {
        let text = text.as_str().unwrap();
        let pairs = (!text.is_empty()).then(|| (key.to_owned(), json!(text)));
        Value::Object(pairs.into_iter().collect::<Map<_, _>>())
    };
    serde_json::from_value(json!({
        "metadata": {
            "name": row["uid"], "namespace": "ns", "uid": row["uid"],
            "labels": labelled("koordinator.sh/qosClass", &row["qosLabel"]),
            "annotations": labelled("koordinator.sh/cpuQOS", &row["cpuQOS"]),
        },
        "spec": {"containers": [{"name": "c"}]},
        "status": {
            "phase": "Running", "qosClass": row["kubeQOS"],
            "containerStatuses": [{"name": "c", "containerID": "containerd://c"}],
        },
    }))
    .unwrap()
}

/// Each pod has one container directory, each dangling pod's a child `x`.
fn tree(row: &Row, naming: &Naming, pods: &PodTable) -> CgroupTree {
    let mut tree = CgroupTree::default();
    tree.dirs.insert(naming.kubepods().clone(), DirKind::Kubepods);
    for class in [KubeQos::Burstable, KubeQos::BestEffort] {
        tree.dirs.insert(naming.qos_dir(class).clone(), DirKind::QosClass);
    }
    for pod in pods.pods.values() {
        tree.dirs.insert(pod.dir.clone(), DirKind::Pod);
        let containers = pod.containers.iter().filter_map(|container| container.dir.clone());
        tree.dirs.extend(containers.map(|dir| (dir, DirKind::Container)));
    }
    for dangling in row.input["danglingPodDirs"].as_array().unwrap() {
        let dir = CgroupDir::new(dangling.as_str().unwrap()).unwrap();
        tree.dirs.insert(dir.join("x").unwrap(), DirKind::Container);
        tree.dirs.insert(dir, DirKind::Pod);
    }
    tree
}
