//! What the sources say -> the snapshots of the hub: objects joined with cgroup names, the tree of directories,
//! CPUs and who may use them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::once::Once;
use crate::api::pod::Pod;
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
use crate::manifests::{Object, Objects};
use crate::node::tree_scan::scan;
use crate::report::metrics::Metrics;
use crate::state::groups::HostAppDir;
use crate::state::hub::Writers;
use crate::state::pods::PodTable;
use crate::state::slo::SloMerger;
use crate::state::topology::{CpuInfo, KubeletFacts, Topology, TopologyInput};
use crate::state::tree::{TreeChange, TreeKeeper};

type Classify = Box<dyn Fn(&CgroupDir) -> Option<DirKind> + Send>;

/// The writer of all snapshots but usage.
pub(super) struct World {
    writers: Writers,
    layout: Arc<Layout>,
    roots: Roots,
    naming: Naming,
    watched: WatchedDirs,
    metrics: Arc<Metrics>,
    slo: SloMerger,
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
            slo: SloMerger::default(),
            tree: TreeKeeper::new(classify),
            tree_changed: true,
            cpus: Vec::new(),
            kubelet: KubeletFacts::default(),
            overrides: None,
            said: Said::default(),
        };
        world.rescan();
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

    /// Takes all objects in force.
    pub(super) fn set_objects(&mut self, objects: &Objects) {
        self.writers.node.set(objects.node.clone());
        self.set_slo(objects);
        self.overrides = objects.topology.as_ref().map(|object| object.metadata.annotations.clone());
        self.set_pods(objects.pods.values().cloned());
        self.publish_topology();
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
        let state = self.roots.var_lib_kubelet.join("cpu_manager_state");
        self.kubelet.cpu_manager_state = text_file::read(&state).ok();
        self.publish_topology();
    }

    /// Cgroup directories of the policy's host applications.
    pub(super) fn host_apps(&mut self) -> Vec<HostAppDir> {
        let (mut dirs, mut refused) = (Vec::new(), Vec::new());
        for app in &self.slo.slo().host_applications {
            match self.naming.host_app_dir(app) {
                Ok(dir) => {
                    self.watched.add(dir.clone());
                    dirs.push(HostAppDir { name: app.name.clone(), dir });
                }
                Err(error) => refused.push(format!("{}: {error}", app.name)),
            }
        }
        for news in self.said.host_apps.news(refused) {
            tracing::warn!(what = news, "host application refused");
        }
        dirs
    }

    fn set_slo(&mut self, objects: &Objects) {
        let Some(located) = &objects.node_slo else {
            self.slo.absent();
            self.writers.slo.set(Arc::new(self.slo.slo().clone()));
            return;
        };
        let Object::NodeSlo(object) = &located.object else { return };
        let Some(notices) = self.slo.apply(&object.spec) else { return };
        self.metrics.slo_refused(notices.len());
        for notice in notices {
            let at = format!("{}:{}", located.file.display(), located.line_of(&notice.field));
            tracing::warn!(at, "NodeSLO: {notice}");
        }
        self.writers.slo.set(Arc::new(self.slo.slo().clone()));
    }

    fn set_pods(&mut self, pods: impl Iterator<Item = Arc<Pod>>) {
        let (table, problems) = PodTable::build(pods, &self.naming, &self.writers.pods.get());
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
        self.writers.topology.set(Some(Arc::new(topology)));
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
