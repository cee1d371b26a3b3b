//! Where the snapshots live: one writer of each kind, any number of cheap readers.
//!
//! A writer publishes a whole new value; readers hold the last one and can wait for the next. Nothing here
//! waits for anything: [`Readers::readiness`] says what has not been seen yet.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

use super::kernel::KernelFacts;
use super::node_dirs::NodeDirs;
use super::pods::PodTable;
use super::slo::Slo;
use super::snapshot::Snapshot;
use super::topology::Topology;
use super::tree::CgroupTree;
use super::troubles::Troubles;
use super::usage::Usage;
use crate::api::node::Node;

/// The only one who may change a kind.
#[derive(Debug)]
pub struct Writer<T>(watch::Sender<T>);

impl<T: PartialEq> Writer<T> {
    /// Publishes `value`; readers are woken only if it differs. Whether it did.
    pub fn set(&self, value: T) -> bool {
        self.0.send_if_modified(|held| {
            let differs = *held != value;
            if differs {
                *held = value;
            }
            differs
        })
    }
}

impl<T: Clone> Writer<T> {
    /// The value held.
    pub fn get(&self) -> T {
        self.0.borrow().clone()
    }
}

/// The writers, to be handed to the sources, one each.
#[derive(Debug)]
pub struct Writers {
    /// The Node object.
    pub node: Writer<Option<Arc<Node>>>,
    /// Pods.
    pub pods: Writer<Arc<PodTable>>,
    /// Policy.
    pub slo: Writer<Arc<Slo>>,
    /// CPUs.
    pub topology: Writer<Option<Arc<Topology>>>,
    /// Cgroup directories.
    pub tree: Writer<Arc<CgroupTree>>,
    /// Directories beside those of pods.
    pub dirs: Writer<Arc<NodeDirs>>,
    /// What the kernel offers.
    pub kernel: Writer<Arc<KernelFacts>>,
    /// Usage.
    pub usage: Writer<Arc<Usage>>,
    /// What keeps one of them from being written.
    pub troubles: Troubles,
}

/// The readers. Clone freely.
#[derive(Clone, Debug)]
pub struct Readers {
    /// The Node object.
    pub node: watch::Receiver<Option<Arc<Node>>>,
    /// Pods.
    pub pods: watch::Receiver<Arc<PodTable>>,
    /// Policy.
    pub slo: watch::Receiver<Arc<Slo>>,
    /// CPUs.
    pub topology: watch::Receiver<Option<Arc<Topology>>>,
    /// Cgroup directories.
    pub tree: watch::Receiver<Arc<CgroupTree>>,
    /// Directories beside those of pods.
    pub dirs: watch::Receiver<Arc<NodeDirs>>,
    /// What the kernel offers.
    pub kernel: watch::Receiver<Arc<KernelFacts>>,
    /// Usage.
    pub usage: watch::Receiver<Arc<Usage>>,
    /// What keeps one of them from being seen.
    pub troubles: Troubles,
}

/// A hub where nothing has been seen.
pub fn hub() -> (Writers, Readers) {
    let (node, node_reader) = watch::channel(None);
    let (pods, pods_reader) = watch::channel(Arc::default());
    let (slo, slo_reader) = watch::channel(Arc::default());
    let (topology, topology_reader) = watch::channel(None);
    let (tree, tree_reader) = watch::channel(Arc::default());
    let (dirs, dirs_reader) = watch::channel(Arc::default());
    let (kernel, kernel_reader) = watch::channel(Arc::default());
    let (usage, usage_reader) = watch::channel(Arc::default());
    let troubles = Troubles::default();
    let writers = Writers {
        node: Writer(node),
        pods: Writer(pods),
        slo: Writer(slo),
        topology: Writer(topology),
        tree: Writer(tree),
        dirs: Writer(dirs),
        kernel: Writer(kernel),
        usage: Writer(usage),
        troubles: troubles.clone(),
    };
    let readers = Readers {
        node: node_reader,
        pods: pods_reader,
        slo: slo_reader,
        topology: topology_reader,
        tree: tree_reader,
        dirs: dirs_reader,
        kernel: kernel_reader,
        usage: usage_reader,
        troubles,
    };
    (writers, readers)
}

impl Readers {
    /// Everything as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            node: self.node.borrow().clone(),
            pods: self.pods.borrow().clone(),
            slo: self.slo.borrow().clone(),
            topology: self.topology.borrow().clone(),
            tree: self.tree.borrow().clone(),
            dirs: self.dirs.borrow().clone(),
            kernel: self.kernel.borrow().clone(),
            usage: self.usage.borrow().clone(),
        }
    }

    /// Waits until a source has published something new; that kind counts as seen then. An error means that
    /// a writer is gone: the agent is stopping.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        tokio::select! {
            result = self.node.changed() => result,
            result = self.pods.changed() => result,
            result = self.slo.changed() => result,
            result = self.topology.changed() => result,
            result = self.tree.changed() => result,
            result = self.dirs.changed() => result,
            result = self.kernel.changed() => result,
            result = self.usage.changed() => result,
        }
    }

    /// What is still missing.
    pub fn readiness(&self) -> Readiness {
        Readiness { troubles: self.troubles.lines(), ..Readiness::of(&self.snapshot()) }
    }
}

/// What has been seen. Each consumer is gated on its own inputs, so this informs and gates nothing
/// (collection.md 15 row 1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Inputs that were not seen yet, each with what it holds back.
    pub missing: Vec<&'static str>,
    /// What is absent but needs no waiting for.
    pub notes: Vec<&'static str>,
    /// Why something is missing or old, by the name of the input.
    pub troubles: Vec<String>,
}

impl Readiness {
    /// Judges a snapshot.
    pub fn of(snapshot: &Snapshot) -> Self {
        let Snapshot { node, pods, slo, topology, tree: _, dirs: _, kernel: _, usage } = snapshot;
        let mut missing = Vec::new();
        let inputs = [
            (node.is_some(), "node: no Node object seen, so no capacity and no normalization ratio"),
            (pods.synced, "pods: no source of pods has delivered"),
            (slo.synced, "nodeslo: not asked for yet, defaults apply"),
            (topology.is_some(), "topology: CPUs not read yet"),
            (usage.node_cpu.is_some(), "usage: no sample yet"),
        ];
        missing.extend(inputs.iter().filter(|(seen, _)| !seen).map(|(_, what)| *what));
        let no_object = slo.synced && *slo.spec == crate::api::node_slo::NodeSloSpec::default();
        let notes = no_object.then_some("nodeslo: none, defaults apply").into_iter().collect();
        Self { missing, notes, troubles: Vec::new() }
    }

    /// Whether nothing is missing.
    pub fn is_ready(&self) -> bool {
        self.missing.is_empty()
    }
}

impl fmt::Display for Readiness {
    /// One line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", if self.is_ready() { "ready" } else { "not ready" })?;
        for what in &self.missing {
            writeln!(f, "missing {what}")?;
        }
        for why in &self.troubles {
            writeln!(f, "because {why}")?;
        }
        for what in &self.notes {
            writeln!(f, "note {what}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_wake_nobody() {
        let (writers, mut readers) = hub();
        assert!(!writers.slo.set(Arc::default()));
        assert!(!readers.slo.has_changed().unwrap());
        assert!(writers.slo.set(Arc::new(Slo { synced: true, ..Slo::default() })));
        assert!(readers.slo.has_changed().unwrap());
        assert!(readers.slo.borrow_and_update().synced);
    }

    #[test]
    fn c132_nothing_is_ready_before_its_data_is_there() {
        let (writers, readers) = hub();
        let missing = readers.readiness().missing;
        assert_eq!(missing.len(), 5, "{missing:?}");
        writers.pods.set(Arc::new(PodTable { synced: true, ..PodTable::default() }));
        let readiness = readers.readiness();
        assert!(!readiness.is_ready());
        assert!(readiness.to_string().contains("missing node"), "{readiness}");
        assert!(!readiness.to_string().contains("missing pods"), "{readiness}");
        assert!(readers.snapshot().node.is_none());
        writers.troubles.set("usage", Some("cannot read /proc/stat".to_owned()));
        let text = readers.readiness().to_string();
        assert!(text.contains("because usage: cannot read /proc/stat\n"), "{text}");
    }

    #[test]
    fn c208_a_missing_nodeslo_is_named_and_defaults_apply() {
        let (writers, readers) = hub();
        assert!(readers.readiness().to_string().contains("nodeslo"));
        writers.slo.set(Arc::new(Slo { synced: true, ..Slo::default() }));
        let readiness = readers.readiness();
        assert!(!readiness.missing.iter().any(|what| what.contains("nodeslo")));
        assert!(readiness.to_string().contains("nodeslo: none, defaults apply"), "{readiness}");
    }
}
