//! What the sources say -> the snapshots of the hub: objects joined with cgroup names, the tree of directories,
//! CPUs and who may use them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::joined::Joined;
use super::once::Once;
use super::policy::PolicyIntake;
use crate::api::node::Node;
use crate::api::node_slo::HostApplication;
use crate::api::qos::KubeQos;
use crate::cgroup::layout::Layout;
use crate::cgroup::naming::Naming;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::place::DirKind;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::ebpf::events::{CgroupEvent, WatchedDirs};
use crate::error_chain::chain;
use crate::host::roots::Roots;
use crate::host::text_file;
use crate::host::topology::{NodeCpuInfo, ProcessorInfo};
use crate::node::kernel_facts;
use crate::node::tree_scan::scan;
use crate::report::metrics::{Metrics, Update};
use crate::state::groups::HostAppDir;
use crate::state::hub::Writers;
use crate::state::node_dirs::NodeDirs;
use crate::state::pods::PodTable;
use crate::state::topology::{CpuInfo, KubeletCpuPolicy, KubeletFacts, Topology, TopologyInput};
use crate::state::tree::{TreeChange, TreeKeeper};
use crate::units::Nanos;

type Classify = Box<dyn Fn(&CgroupDir) -> Option<DirKind> + Send>;

/// The writer of all snapshots but usage.
pub(super) struct World {
    writers: Writers,
    layout: Arc<Layout>,
    roots: Roots,
    naming: Naming,
    watched: WatchedDirs,
    metrics: Arc<Metrics>,
    policy: PolicyIntake,
    tree: TreeKeeper<Classify>,
    tree_changed: bool,
    cpus: Vec<CpuInfo>,
    kubelet: KubeletFacts,
    overrides: Option<BTreeMap<String, String>>,
    said: Said,
}

/// What was said, by source.
#[derive(Default)]
struct Said {
    pods: Once,
    topology: Once,
    cpus: Once,
    host_apps: Once,
    replaced: Once,
}

impl World {
    /// Nothing known yet but the directories and CPUs that exist.
    pub(super) fn new(
        writers: Writers,
        layout: Arc<Layout>,
        roots: Roots,
        naming: Naming,
        watched: WatchedDirs,
        metrics: Arc<Metrics>,
        policy: PolicyIntake,
    ) -> Self {
        let classify: Classify = {
            let naming = naming.clone();
            Box::new(move |dir| naming.classify(dir).map(|place| place.kind))
        };
        let mut world = Self {
            writers,
            layout,
            roots,
            naming,
            watched,
            metrics,
            policy,
            tree: TreeKeeper::new(classify),
            tree_changed: true,
            cpus: Vec::new(),
            kubelet: KubeletFacts::default(),
            overrides: None,
            said: Said::default(),
        };
        world.rescan();
        world.publish_dirs();
        world.refresh_host();
        world
    }

    /// How directories are named here.
    pub(super) fn naming(&self) -> &Naming {
        &self.naming
    }

    /// Container directories beneath `dir` that exist.
    pub(super) fn containers(&self, dir: &CgroupDir) -> impl Iterator<Item = &CgroupDir> {
        let dirs = self.tree.tree().dirs.iter();
        dirs.filter(move |(each, kind)| **kind == DirKind::Container && dir.contains(each))
            .map(|(each, _)| each)
    }

    /// What the kernel holds for a resource of `dir` right now; `None` if that cannot be read.
    pub(super) fn kernel_value(&self, dir: &CgroupDir, resource: Resource) -> Option<Value> {
        let path = self.layout.path(&self.layout.effective_file(dir, resource)?)?;
        self.layout.parse(resource, &text_file::read(&path).ok()?).ok()
    }

    /// The usage snapshot's writer is the collector's.
    pub(super) fn writers(&self) -> &Writers {
        &self.writers
    }

    /// Takes all objects in force, as of `now`. What is equal to what is known already is no update.
    pub(super) fn set_objects(&mut self, joined: &Joined, now: Nanos) {
        for news in self.said.replaced.news(joined.replaced()) {
            tracing::info!(object = news, "a manifest takes the place of this object");
        }
        self.set_node(joined);
        let taken = self.policy.take(joined, now);
        self.metrics.slo_refused(taken.refused);
        if taken.changed {
            self.metrics.updated(Update::NodeSlo);
            self.writers.slo.set(Arc::new(self.policy.slo().clone()));
        }
        self.publish_dirs();
        self.overrides = joined.overrides().cloned();
        self.set_pods(joined, now);
        self.publish_topology();
    }

    /// What the kubelet says of its CPU manager; without it the state file speaks for itself.
    pub(super) fn set_kubelet_policy(&mut self, policy: Option<KubeletCpuPolicy>) {
        if self.kubelet.policy != policy {
            self.kubelet.policy = policy;
            self.publish_topology();
        }
    }

    /// Tells again what is wrong with the policy, now and then.
    pub(super) fn remind(&mut self, now: Nanos) {
        self.policy.remind(now);
    }

    /// Takes one event of a cgroup directory; whether the tree is another one now.
    pub(super) fn cgroup_event(&mut self, event: &CgroupEvent) -> bool {
        let changed = match self.tree.apply(event) {
            TreeChange::None => false,
            TreeChange::Appeared | TreeChange::Vanished => true,
            TreeChange::Rescan => self.rescan(),
        };
        self.tree_changed |= changed;
        changed
    }

    /// Hands the tree to the readers, if it is another one than the last time.
    pub(super) fn publish_tree(&mut self) {
        if std::mem::take(&mut self.tree_changed) {
            self.writers.tree.set(Arc::new(self.tree.tree().clone()));
        }
    }

    /// Reads again what nobody reports: CPUs that come and go, the kubelet's CPU manager.
    pub(super) fn refresh_host(&mut self) {
        match NodeCpuInfo::read(&self.roots) {
            Ok(info) => {
                self.cpus = cpus(&info);
                self.writers.troubles.set("topology", None);
            }
            Err(error) => {
                self.writers.troubles.set("topology", Some(chain(&error)));
                for news in self.said.cpus.news([chain(&error)]) {
                    tracing::warn!(error = news, "CPUs cannot be read; the last ones stay");
                }
            }
        }
        let facts = kernel_facts::read(&self.roots, &self.layout, self.naming.kubepods());
        self.writers.kernel.set(Arc::new(facts));
        let state = self.roots.var_lib_kubelet.join("cpu_manager_state");
        self.kubelet.cpu_manager_state = text_file::read(&state).ok();
        self.publish_topology();
    }

    /// Cgroup directories of the policy's host applications.
    pub(super) fn host_apps(&self) -> Vec<HostAppDir> {
        let dirs = self.writers.dirs.get();
        let dir = |(app, dir): &(HostApplication, CgroupDir)| HostAppDir {
            name: app.name.clone(),
            dir: dir.clone(),
        };
        dirs.host_apps.iter().map(dir).collect()
    }

    fn publish_dirs(&mut self) {
        let (mut host_apps, mut refused) = (Vec::new(), Vec::new());
        for app in &self.policy.slo().host_applications {
            match self.naming.host_app_dir(app) {
                Ok(dir) => {
                    self.watched.add(dir.clone());
                    host_apps.push((app.clone(), dir));
                }
                Err(error) => refused.push(format!("{}: {error}", app.name)),
            }
        }
        for news in self.said.host_apps.news(refused) {
            tracing::warn!(what = news, "host application refused");
        }
        let class = |class| (class, self.naming.qos_dir(class).clone());
        let classes = [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort].map(class).to_vec();
        self.writers.dirs.set(Arc::new(NodeDirs { classes, host_apps }));
    }

    /// Labels and annotations are what others are told of, collection.md 7.3.
    fn set_node(&mut self, joined: &Joined) {
        let (last, node) = (self.writers.node.get(), joined.node().cloned());
        let metadata = |node: &Option<Arc<Node>>| {
            node.as_ref().map(|node| (node.metadata.labels.clone(), node.metadata.annotations.clone()))
        };
        if metadata(&last) != metadata(&node) {
            self.metrics.updated(Update::NodeMetadata);
        }
        self.writers.node.set(node);
    }

    fn set_pods(&mut self, joined: &Joined, now: Nanos) {
        let last = self.writers.pods.get();
        let (mut table, problems) = PodTable::build(joined.pods().map(Arc::clone), &self.naming, &last);
        table.synced = last.synced || joined.has_all_pods(now);
        for news in self.said.pods.news(problems.iter().map(|problem| chain(problem))) {
            tracing::warn!(what = news, "pod");
        }
        self.writers.pods.set(Arc::new(table));
    }

    fn publish_topology(&mut self) {
        if self.cpus.is_empty() {
            return;
        }
        let (node, pods) = (self.writers.node.get(), self.writers.pods.get());
        let previous = self.writers.topology.get();
        let (topology, notices) = Topology::compute(&TopologyInput {
            cpus: &self.cpus,
            node: node.as_deref(),
            pods: &pods,
            kubelet: &self.kubelet,
            overrides: self.overrides.as_ref(),
            previous: previous.as_deref(),
        });
        for news in self.said.topology.news(notices.iter().map(ToString::to_string)) {
            tracing::warn!(what = news, "topology");
        }
        if self.writers.topology.set(Some(Arc::new(topology))) {
            self.metrics.updated(Update::NodeTopology);
        }
    }

    fn rescan(&mut self) -> bool {
        self.tree.replace(scan(&self.layout, self.naming.kubepods()))
    }
}

/// The online CPUs as decisions see them.
fn cpus(info: &NodeCpuInfo) -> Vec<CpuInfo> {
    let cpu = |each: &ProcessorInfo| {
        let ProcessorInfo { cpu, core, socket, node, .. } = *each;
        CpuInfo { cpu, core, socket, node }
    };
    info.processor_infos.iter().map(cpu).collect()
}
