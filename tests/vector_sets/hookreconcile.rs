//! Set `hookreconcile`: what one reconcile changes in the files of one pod, and of the class directories, with four
//! rules that were fed from `hook-rules.json` (hooks.md 6). Compared by what the plan would make each file hold, where
//! that is not what it held before.

use std::collections::BTreeMap;
use std::sync::Arc;

use koordlet::api::node::Node;
use koordlet::api::node_slo::NodeSloSpec;
use koordlet::api::pod::Pod;
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::Resource;
use koordlet::claims::combine::{PlanInput, plan};
use koordlet::claims::plan::{Decision, Plan};
use koordlet::claims::target::CgroupTarget;
use koordlet::cpuset::CpuSet;
use koordlet::rules::{PluginKind, RuleSettings, Rules};
use koordlet::state::kernel::KernelFacts;
use koordlet::state::node_dirs::NodeDirs;
use koordlet::state::pods::{PodEntry, PodTable};
use koordlet::state::slo::SloMerger;
use koordlet::state::snapshot::Snapshot;
use koordlet::state::topology::{CpuInfo, Topology};
use koordlet::state::tree::{CgroupTree, DirKind};
use serde_json::{Map, Value, json};

use crate::set::{self, Row, Verdict};

const CLASSES: [KubeQos; 3] = [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort];

/// Files of the set, and what they hold before: v1 name, v2 name, v1 text, v2 text.
const FILES: [(Resource, [&str; 2], [&str; 2]); 5] = [
    (Resource::CpuShares, ["cpu.shares", "cpu.weight"], ["777", "100"]),
    (Resource::CfsQuota, ["cpu.cfs_quota_us", "cpu.max"], ["77700", "77700"]),
    (Resource::MemoryLimit, ["memory.limit_in_bytes", "memory.max"], ["777", "777"]),
    (Resource::Cpus, ["cpuset.cpus"; 2], ["99"; 2]),
    (Resource::BvtWarpNs, ["cpu.bvt_warp_ns"; 2], ["0"; 2]),
];

fn naming() -> Naming {
    Naming::new(CgroupDriver::Systemd, "").unwrap()
}

/// The rules' inputs of a row, without pods. An object that the row does not name was not seen.
fn inputs(row: &Row) -> Snapshot {
    let all: Value = serde_json::from_str(&set::file("hook-rules.json")).unwrap();
    let given = &all[row.text("rules")];
    let naming = naming();
    let dirs = CLASSES.map(|class| (class, naming.qos_dir(class).clone())).to_vec();
    let mut snapshot = Snapshot {
        dirs: Arc::new(NodeDirs { classes: dirs, ..NodeDirs::default() }),
        kernel: Arc::new(KernelFacts {
            bvt: true,
            files: [Resource::BvtWarpNs].into_iter().collect(),
            ..KernelFacts::default()
        }),
        ..Snapshot::default()
    };
    if let Some(annotations) = given.get("nodeAnnotations") {
        let node: Node = serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap();
        snapshot.node = Some(Arc::new(node));
    }
    if let Some(spec) = given.get("nodeSLO") {
        let spec: NodeSloSpec = serde_json::from_value(spec.clone()).unwrap();
        let mut merger = SloMerger::default();
        merger.apply(&spec);
        snapshot.slo = Arc::new(merger.slo().clone());
    }
    if let Some(annotations) = given.get("nrtAnnotations") {
        let cpus = (0..24).map(|cpu| CpuInfo { cpu, core: cpu, socket: cpu / 12, node: cpu / 12 }).collect();
        let object = serde_json::from_value(annotations.clone()).unwrap();
        snapshot.topology = Some(Arc::new(Topology { cpus, object: Some(object), ..Topology::default() }));
    }
    snapshot
}

fn planned(row: &Row, snapshot: &Snapshot) -> Plan {
    let plugins = [
        PluginKind::GroupIdentity,
        PluginKind::CpuSetAllocator,
        PluginKind::BatchResource,
        PluginKind::CpuNormalization,
    ];
    let settings = RuleSettings { plugins: plugins.into_iter().collect(), ..RuleSettings::default() };
    let mut rules = Rules::new(&settings);
    rules.observe(snapshot);
    plan(PlanInput {
        pods: &snapshot.pods,
        topology: None,
        tree: &snapshot.tree,
        semantics: set::layout(row.text("cgroup")).semantics(),
        claims: rules.claims(snapshot),
        synced: rules.synced(snapshot).collect(),
    })
}

/// The files of a directory that the plan changes, by name.
fn changed(row: &Row, plan: &Plan, dir: &CgroupDir, files: &[Resource]) -> Value {
    let layout = set::layout(row.text("cgroup"));
    let version = usize::from(row.text("cgroup") == "v2");
    let mut found = Map::new();
    for (resource, names, before) in FILES.iter().filter(|(resource, ..)| files.contains(resource)) {
        let Some(desired) = plan.entries.get(&CgroupTarget::new(dir, *resource)) else { continue };
        let Decision::Hold(value) = &desired.decision else { continue };
        let text = layout.format(*resource, value).unwrap();
        if text != before[version] {
            found.insert(names[version].to_owned(), json!(text));
        }
    }
    Value::Object(found)
}

const ALL: [Resource; 5] =
    [Resource::CpuShares, Resource::CfsQuota, Resource::MemoryLimit, Resource::Cpus, Resource::BvtWarpNs];

/// The reconciler writes the identity of pods; that of the directories beneath them is the rule pass's (hooks.md 8.1).
const BENEATH: [Resource; 4] =
    [Resource::CpuShares, Resource::CfsQuota, Resource::MemoryLimit, Resource::Cpus];

fn hook_reconcile_kubeqos(row: &Row) -> Verdict {
    let plan = planned(row, &inputs(row));
    let naming = naming();
    let dirs = CLASSES.map(|class| naming.qos_dir(class));
    let got: BTreeMap<String, Value> =
        dirs.into_iter().map(|dir| (dir.to_string(), changed(row, &plan, dir, &ALL))).collect();
    row.compare(Ok::<_, String>(json!(got)))
}

fn hook_reconcile_pod(row: &Row) -> Verdict {
    let pod: Pod = serde_json::from_value(row.input["pod"].clone()).unwrap();
    let mut entry = PodEntry::new(pod.clone(), &naming()).unwrap();
    entry.hooks_live = true;
    let sandbox = entry.dir.join("cri-containerd-sandbox.scope").unwrap();
    let mut tree = CgroupTree::default();
    tree.dirs.insert(entry.dir.clone(), DirKind::Pod);
    tree.dirs.insert(sandbox.clone(), DirKind::Container);
    // A container without a status has its directory, too.
    let names: Vec<String> = entry.containers.iter().map(|container| container.name.clone()).collect();
    for name in &names {
        let dir = entry.dir.join(&format!("cri-containerd-{}{name}.scope", entry.uid)).unwrap();
        tree.dirs.insert(dir, DirKind::Container);
    }
    let pods = [(Arc::clone(&entry.uid), Arc::new(entry.clone()))].into_iter().collect();
    let snapshot =
        Snapshot { pods: Arc::new(PodTable { pods, synced: true }), tree: Arc::new(tree), ..inputs(row) };
    let plan = planned(row, &snapshot);
    let of_container = |name: &String| {
        let container = entry.containers.iter().find(|container| container.name == *name)?;
        Some(changed(row, &plan, container.dir.as_ref()?, &BENEATH))
    };
    let containers: Map<String, Value> =
        names.iter().map(|name| (name.clone(), of_container(name).unwrap_or_else(|| json!({})))).collect();
    let got = json!({
        "pod": changed(row, &plan, &entry.dir, &ALL),
        "containers": containers,
        "sandbox": changed(row, &plan, &sandbox, &BENEATH),
    });
    row.compare_with(&normal(&Due::of(row, &pod).answer()), &normal(&got))
}

/// What is due where the recorded answer is a defect, worked out from the recorded one and the pod alone.
struct Due<'a> {
    row: &'a Row,
    pod: &'a Pod,
    label: &'a str,
    /// The pod's own CPUs.
    pinned: bool,
    best_effort: bool,
}

impl<'a> Due<'a> {
    fn of(row: &'a Row, pod: &'a Pod) -> Self {
        let label = pod.metadata.labels.get("koordinator.sh/qosClass").map_or("", String::as_str);
        let known = ["LSE", "LSR", "LS", "BE", "SYSTEM"].contains(&label);
        let status = pod.metadata.annotations.get("scheduling.koordinator.sh/resource-status");
        let status: Option<Value> = status.and_then(|text| serde_json::from_str(text).ok());
        let cpuset = status.as_ref().and_then(|status| status["cpuset"].as_str()).unwrap_or("");
        Self {
            row,
            pod,
            label: if known { label } else { "" },
            pinned: !cpuset.is_empty(),
            best_effort: pod.status.qos_class == "BestEffort",
        }
    }

    fn answer(&self) -> Value {
        let mut due = self.row.out.clone().unwrap();
        let quota_file = if self.row.text("cgroup") == "v2" { "cpu.max" } else { "cpu.cfs_quota_us" };
        let unlimited = if self.row.text("cgroup") == "v2" { "max" } else { "-1" };
        // H1: a container without a limit leaves the pod without one.
        let has_limit =
            |resources: &koordlet::api::pod::ResourceRequirements| resources.limits.contains_key("cpu");
        let all_limited = self.pod.spec.containers.iter().all(|container| has_limit(&container.resources));
        if matches!(self.label, "LS" | "") && !all_limited {
            due["pod"].as_object_mut().unwrap().remove(quota_file);
        }
        // H20: a container without batch resources has no limit, and so its pod has none.
        if self.label == "BE" && self.has_container_without_batch() {
            let memory_file =
                if self.row.text("cgroup") == "v2" { "memory.max" } else { "memory.limit_in_bytes" };
            let files = due["pod"].as_object_mut().unwrap();
            for file in [quota_file, memory_file] {
                if files.contains_key(file) {
                    files.insert(file.to_owned(), json!(unlimited));
                }
            }
        }
        let dirs = Self::dirs(&due);
        for pointer in &dirs {
            let Some(files) = due.pointer_mut(pointer).and_then(Value::as_object_mut) else { continue };
            // H3: the least quota that the kernel takes, and none for a pod with CPUs of its own.
            if let Some(us) = files.get(quota_file).and_then(|text| text.as_str()?.parse::<i64>().ok())
                && (1..1000).contains(&us)
            {
                files.insert(quota_file.to_owned(), json!("1000"));
            }
            let is_listed = files.contains_key("cpuset.cpus") || pointer == "/pod";
            if self.label == "LS" && self.pinned && is_listed {
                files.insert(quota_file.to_owned(), json!(unlimited));
            }
            // H26: never the LS pools for BE.
            if self.label == "BE" && !self.pinned {
                files.remove("cpuset.cpus");
            }
        }
        self.without_stray_commas(due, &dirs)
    }

    fn has_container_without_batch(&self) -> bool {
        let names_batch = |resources: &Value| {
            let lists = ["requests", "limits"].map(|list| resources[list].as_object());
            let mut keys = lists.into_iter().flatten().flat_map(Map::keys);
            keys.any(|key| key.starts_with("kubernetes.io/batch-"))
        };
        let specs = &self.row.input["pod"]["spec"]["containers"];
        let specs = specs.as_array().unwrap();
        if specs.iter().any(|spec| names_batch(&spec["resources"])) {
            return specs.iter().any(|spec| !names_batch(&spec["resources"]));
        }
        let annotation = self.pod.metadata.annotations.get("node.koordinator.sh/extended-resource-spec");
        let annotation: Value =
            annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        specs.iter().any(|spec| annotation["containers"].get(spec["name"].as_str().unwrap()).is_none())
    }

    fn dirs(due: &Value) -> Vec<String> {
        let containers = due["containers"].as_object().unwrap().keys();
        let containers = containers.map(|name| format!("/containers/{name}"));
        ["/pod".to_owned(), "/sandbox".to_owned()].into_iter().chain(containers).collect()
    }

    /// H26: a pool of which one node has no CPUs left gives `0-7,`, which the reference then fails to write. These
    /// rows are not marked as such; the specification says what is due (hooks.md 8.2).
    fn without_stray_commas(&self, mut due: Value, dirs: &[String]) -> Value {
        let shares_all = match self.label {
            "LS" => true,
            "BE" => false,
            _ => !self.best_effort,
        };
        let status = self.pod.metadata.annotations.get("scheduling.koordinator.sh/resource-status");
        let readable = status.is_none_or(|text| serde_json::from_str::<Value>(text).is_ok());
        if self.row.text("rules") != "R4" || self.pinned || !readable {
            return due;
        }
        let nodes = status.map(|text| numa_nodes(text)).unwrap_or_default();
        let due_list = match nodes[..] {
            [] => shares_all,
            _ => self.label != "BE" && nodes.contains(&0) && nodes.contains(&1),
        };
        if !due_list {
            return due;
        }
        let started = |name: &str| self.pod.container_status(name).is_some();
        let names: Vec<&str> =
            self.pod.spec.containers.iter().chain(&self.pod.spec.init_containers).map(|c| &*c.name).collect();
        let in_vm = self.pod.spec.runtime_class_name.as_deref() == Some("kata");
        let has_sandbox = names.iter().all(|name| started(name));
        for pointer in dirs.iter().filter(|pointer| *pointer != "/pod") {
            let is_there = match pointer.strip_prefix("/containers/") {
                Some(name) => started(name) && !in_vm,
                None => has_sandbox,
            };
            if is_there && let Some(files) = due.pointer_mut(pointer).and_then(Value::as_object_mut) {
                files.insert("cpuset.cpus".to_owned(), json!("0-7"));
            }
        }
        due
    }
}

/// The NUMA nodes of an allocation with CPUs.
fn numa_nodes(status: &str) -> Vec<u64> {
    let status: Value = serde_json::from_str(status).unwrap();
    let entries = status["numaNodeResources"].as_array().cloned().unwrap_or_default();
    let has_cpu = entries.iter().any(|entry| {
        entry["resources"].get("cpu").is_some() || entry["resources"].get("kubernetes.io/batch-cpu").is_some()
    });
    if has_cpu { entries.iter().filter_map(|entry| entry["node"].as_u64()).collect() } else { Vec::new() }
}

/// CPU lists as sets: the order of pools in a text means nothing.
fn normal(answer: &Value) -> Value {
    match answer {
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| match value.as_str() {
                Some(text) if key == "cpuset.cpus" => {
                    let cpus =
                        text.parse::<CpuSet>().map_or_else(|_| text.to_owned(), |cpus| cpus.to_string());
                    (key.clone(), json!(cpus))
                }
                _ => (key.clone(), normal(value)),
            };
            Value::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn vector_hookreconcile() {
    set::check(
        "hookreconcile",
        &[
            ("hook_reconcile_kubeqos", 6, hook_reconcile_kubeqos),
            ("hook_reconcile_pod", 54, hook_reconcile_pod),
        ],
    );
}
