//! A node in memory on which CPU suppression runs: a row's objects in, files out. Steps go the whole way:
//! step, claims, plan, file values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use koordlet::api::keys;
use koordlet::api::node::Node;
use koordlet::api::node_slo::{HostApplication, HostCgroupPath};
use koordlet::api::pod::Pod;
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::Resource;
use koordlet::cgroup::semantics::Semantics;
use koordlet::cgroup::value::Value as Setting;
use koordlet::claims::claim::{Claims, Owner};
use koordlet::claims::combine::{PlanInput, plan};
use koordlet::claims::plan::Decision;
use koordlet::claims::target::CgroupTarget;
use koordlet::cpuset::CpuSet;
use koordlet::state::groups::{Group, GroupKind};
use koordlet::state::pods::PodTable;
use koordlet::state::slo::Slo;
use koordlet::state::snapshot::Snapshot;
use koordlet::state::topology::{CpuInfo, KubeletFacts, Topology, TopologyInput};
use koordlet::state::tree::{CgroupTree, DirKind};
use koordlet::state::usage::{GroupUsage, NanoCpu, Usage};
use koordlet::strategies::cpu_suppress::state::{Condition, SuppressState};
use koordlet::strategies::cpu_suppress::{SuppressInput, SuppressSettings, step};
use koordlet::units::{CfsQuota, MilliCpu, Nanos};
use serde_json::Value;

use crate::set::Row;

const SECOND: u64 = 1_000_000_000;

/// The CPUs of a row: `[[cpu, core, socket, NUMA node], ...]`.
pub(crate) fn cpu_infos(rows: &Value) -> Vec<CpuInfo> {
    let number = |row: &Value, index: usize| {
        row.get(index).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or_default()
    };
    let info = |row: &Value| CpuInfo {
        cpu: number(row, 0),
        core: number(row, 1),
        socket: number(row, 2),
        node: number(row, 3),
    };
    rows.as_array().map(|rows| rows.iter().map(info).collect()).unwrap_or_default()
}

/// A quota file's first field.
pub(crate) fn quota(text: &str) -> CfsQuota {
    let first = text.split_whitespace().next().unwrap_or_default();
    if first == "max" { CfsQuota::Unlimited } else { CfsQuota::from_raw(first.parse().unwrap()) }
}

/// The names under which a row gives the annotations of the topology object.
const TOPOLOGY_ANNOTATIONS: [(&str, &str); 3] = [
    ("reservation", keys::NODE_RESERVATION),
    ("systemQOS", keys::SYSTEM_QOS_RESOURCE),
    ("cpuManagerPolicy", keys::CPU_MANAGER_POLICY),
];

/// The node.
pub(crate) struct SuppressNode {
    pub(crate) snapshot: Snapshot,
    pub(crate) usage: Usage,
    be_dir: CgroupDir,
    semantics: Semantics,
    settings: SuppressSettings,
    pub(crate) state: SuppressState,
    files: BTreeMap<CgroupTarget, Setting>,
    /// Files whose value is known to be ours: at first all, since rows begin with what an agent before us left.
    ours: BTreeSet<CgroupTarget>,
    now: Nanos,
}

impl SuppressNode {
    /// The objects of a row: `cpus`, `capacity_m`, `allocatable_m`, `pods`, `hostApps`, `nrtAnnotations`, ...
    pub(crate) fn new(row: &Row) -> Self {
        let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
        let v1 = row.text("cgroup") != "v2";
        let input = &row.input;
        let mut node = Self {
            snapshot: Snapshot {
                node: Some(Arc::new(node_object(row))),
                pods: Arc::new(pods(input, &naming)),
                slo: Arc::new(Slo { synced: true, host_applications: host_apps(input), ..Slo::default() }),
                ..Snapshot::default()
            },
            usage: usage(input),
            be_dir: naming.qos_dir(KubeQos::BestEffort).clone(),
            semantics: Semantics {
                child_quota_bounded_by_parent: v1,
                child_cpuset_bounded_by_parent: v1,
                empty_cpuset_inherits: !v1,
                cpuset_forgets_offline_cpus: v1,
                memory_limit_below_use_is_refused: v1,
                memsw_counts_memory: v1,
            },
            settings: SuppressSettings {
                enabled: true,
                be_cpu_manager: input.get("gateBECPUManager") == Some(&Value::Bool(true)),
                interval: Nanos(SECOND),
                collect_interval: Nanos(SECOND),
            },
            state: SuppressState::default(),
            files: BTreeMap::new(),
            ours: BTreeSet::new(),
            now: Nanos(SECOND),
        };
        let cpus = cpu_infos(input.get("cpus").unwrap_or(&Value::Null));
        node.compute_topology(&cpus, input.get("nrtAnnotations"));
        node.make_files(row);
        node
    }

    pub(crate) fn compute_topology(&mut self, cpus: &[CpuInfo], annotations: Option<&Value>) {
        let overrides = annotations.map(|annotations| {
            let given = TOPOLOGY_ANNOTATIONS.iter().filter_map(|(name, key)| {
                Some(((*key).to_owned(), annotations.get(name)?.as_str()?.to_owned()))
            });
            given.collect::<BTreeMap<String, String>>()
        });
        let (topology, _) = Topology::compute(&TopologyInput {
            cpus,
            node: self.snapshot.node.as_deref(),
            pods: &self.snapshot.pods,
            kubelet: &KubeletFacts::default(),
            overrides: overrides.as_ref(),
            previous: None,
        });
        self.snapshot.topology = Some(Arc::new(topology));
    }

    fn make_files(&mut self, row: &Row) {
        let mut tree = CgroupTree::default();
        let cpus: CpuSet = row.text("beCpusNow").parse().unwrap();
        for relative in row.input.get("beDirs").and_then(Value::as_array).into_iter().flatten() {
            let dir = self.dir(relative.as_str().unwrap());
            let kind = match dir.depth() - self.be_dir.depth() {
                0 => DirKind::QosClass,
                1 => DirKind::Pod,
                2 => DirKind::Container,
                _ => DirKind::Nested,
            };
            self.files.insert(CgroupTarget::new(&dir, Resource::Cpus), Setting::Cpus(cpus.clone()));
            tree.dirs.insert(dir, kind);
        }
        self.snapshot.tree = Arc::new(tree);
        let now = row.input.get("beQuotaNow").and_then(Value::as_str).map(quota);
        let be_quota = CgroupTarget::new(&self.be_dir, Resource::CfsQuota);
        self.files.insert(be_quota, Setting::Quota(now.unwrap_or(CfsQuota::Unlimited)));
        self.ours = self.files.keys().cloned().collect();
        self.state = SuppressState::new(now, Some(cpus));
    }

    /// A directory of the best-effort tree; `.` is its root.
    fn dir(&self, relative: &str) -> CgroupDir {
        if relative == "." { self.be_dir.clone() } else { self.be_dir.join(relative).unwrap() }
    }

    /// Takes a directory's CPU list out of what this agent is known to have written.
    pub(crate) fn disown_cpus(&mut self, relative: &str) {
        self.ours.remove(&CgroupTarget::new(&self.dir(relative), Resource::Cpus));
    }

    /// Pods with an allocation, by the name of their directory.
    pub(crate) fn allocations(&self) -> BTreeMap<String, CpuSet> {
        let pods = self.snapshot.pods.pods.values();
        pods.filter_map(|pod| {
            let cpus = koordlet::state::cpu_sources::allocated_cpus(pod).ok()?;
            (self.be_dir.contains(&pod.dir) && !cpus.is_empty()).then(|| (pod.dir.name().to_owned(), cpus))
        })
        .collect()
    }

    pub(crate) fn topology(&mut self) -> &mut Topology {
        Arc::make_mut(self.snapshot.topology.as_mut().unwrap())
    }

    pub(crate) fn slo(&mut self) -> &mut Slo {
        Arc::make_mut(&mut self.snapshot.slo)
    }

    /// One step and what it makes of the files; the conditions that began.
    pub(crate) fn step(&mut self) -> Vec<Condition> {
        self.now = self.now + Nanos(SECOND);
        self.usage.at = self.now;
        let input = SuppressInput {
            snapshot: &self.snapshot,
            usage: &self.usage,
            be_dir: &self.be_dir,
            settings: self.settings,
        };
        let outcome = step(&input, &self.state, self.now);
        self.state = outcome.state;
        let synced = [Owner::CpuSuppress].into_iter().filter(|_| self.state.decided).collect();
        let plan = plan(PlanInput {
            pods: &self.snapshot.pods,
            topology: self.snapshot.topology.as_deref(),
            tree: &self.snapshot.tree,
            semantics: self.semantics,
            claims: Claims { cgroup: outcome.claims, ..Claims::default() },
            synced,
        });
        for (target, desired) in plan.entries {
            let Some(file) = self.files.get_mut(&target) else { continue };
            match desired.decision.clone() {
                Decision::Hold(value) => {
                    *file = value;
                    self.ours.insert(target);
                }
                Decision::Release(value) if self.state.decided && self.ours.remove(&target) => *file = value,
                Decision::Release(_) | Decision::Leave => {}
            }
        }
        outcome.notices
    }

    /// CPU lists of all directories, by their path beneath the best-effort directory.
    pub(crate) fn cpusets(&self) -> BTreeMap<String, CpuSet> {
        let mut lists = BTreeMap::new();
        for (CgroupTarget { dir, .. }, value) in &self.files {
            if let Setting::Cpus(cpus) = value {
                let relative = dir.as_str().strip_prefix(self.be_dir.as_str()).unwrap_or_default();
                let relative = relative.trim_start_matches('/');
                let name = if relative.is_empty() { "." } else { relative };
                lists.insert(name.to_owned(), cpus.clone());
            }
        }
        lists
    }

    /// The quota of the best-effort directory.
    pub(crate) fn quota(&self) -> CfsQuota {
        match self.files.get(&CgroupTarget::new(&self.be_dir, Resource::CfsQuota)) {
            Some(Setting::Quota(quota)) => *quota,
            other => panic!("no quota but {other:?}"),
        }
    }
}

fn node_object(row: &Row) -> Node {
    let mut node = Node::default();
    let mut set = |list: &str, milli: Option<i64>| {
        let Some(milli) = milli else { return };
        let list = if list == "capacity" { &mut node.status.capacity } else { &mut node.status.allocatable };
        list.insert(keys::CPU.to_owned(), format!("{milli}m").parse().unwrap());
    };
    set("capacity", row.int("capacity_m"));
    set("allocatable", row.int("allocatable_m"));
    let reservation = row.text("reservation").to_owned();
    node.metadata.annotations.insert(keys::NODE_RESERVATION.to_owned(), reservation);
    node
}

/// Pods whose object is known. Those without a Kubernetes class are put outside the best-effort tree.
fn pods(input: &Value, naming: &Naming) -> PodTable {
    let objects = input.get("pods").and_then(Value::as_array).into_iter().flatten().enumerate();
    let known = objects.filter(|(_, pod)| pod.get("known") != Some(&Value::Bool(false)));
    let pods = known.map(|(index, given)| {
        let text = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut pod = Pod::default();
        pod.metadata.uid = if text("uid").is_empty() { format!("u{index}") } else { text("uid") };
        pod.metadata.labels.insert(keys::QOS_CLASS.to_owned(), text("qosLabel"));
        pod.metadata.annotations.insert(keys::RESOURCE_STATUS.to_owned(), text("resourceStatus"));
        "Running".clone_into(&mut pod.status.phase);
        pod.status.qos_class =
            if text("kubeQOS").is_empty() { "Burstable".to_owned() } else { text("kubeQOS") };
        pod
    });
    let (table, problems) = PodTable::build(pods, naming, &PodTable::default());
    assert!(problems.is_empty(), "{problems:?}");
    table
}

fn host_apps(input: &Value) -> Vec<HostApplication> {
    let apps = input.get("hostApps").and_then(Value::as_array).into_iter().flatten();
    apps.map(|app| {
        let text = |key: &str| app.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let base = app.get("base").and_then(Value::as_str);
        HostApplication {
            name: text("name"),
            qos: text("qos"),
            cgroup_path: base
                .map(|base| HostCgroupPath { base: base.to_owned(), ..HostCgroupPath::default() }),
            ..HostApplication::default()
        }
    })
    .collect()
}

/// Newest samples; an absent one is none.
fn usage(input: &Value) -> Usage {
    let node_cpu = input.get("nodeUsage").and_then(Value::as_f64).map(NanoCpu::from_cores);
    let mut usage = Usage { node_cpu, ..Usage::default() };
    let dir = CgroupDir::new("kubepods/any").unwrap();
    for (list, key, kind) in [("pods", "uid", GroupKind::Pod), ("hostApps", "name", GroupKind::HostApp)] {
        for item in input.get(list).and_then(Value::as_array).into_iter().flatten() {
            let (cores, name) = (item.get("usage"), item.get(key).and_then(Value::as_str));
            if let (Some(cores), Some(name)) = (cores.and_then(Value::as_f64), name) {
                let figure = GroupUsage::of(NanoCpu::from_cores(cores));
                usage.groups.set(Group::new(kind, name, dir.clone()), figure);
            }
        }
    }
    usage
}

/// Whole milli-cores as cores.
pub(crate) fn cores(milli: MilliCpu) -> NanoCpu {
    NanoCpu(u64::try_from(milli.0).unwrap_or(0) * 1_000_000)
}
