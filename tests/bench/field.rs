//! A node full of pods for the bench: directories, manifests, and optionally a process in each.

use anyhow::Result;
use kit::load::Work;
use kit::manifest::NODE;
use kit::{Agent, Class, Load, Manifests, NodeManifest, NodeSloManifest, PodDirs, PodManifest, Tree};

/// A tree with its pods, the manifests of them, and an agent that is not started yet. The tree goes last.
pub(crate) struct Field {
    /// The agent.
    pub(crate) agent: Agent,
    /// What it follows.
    pub(crate) manifests: Manifests,
    /// Directories of the pods, in the order of `pods`.
    pub(crate) dirs: Vec<PodDirs>,
    /// The pods.
    pub(crate) pods: Vec<PodManifest>,
    loads: Vec<Load>,
    /// The tree.
    pub(crate) tree: Tree,
}

/// Batch CPU of each best-effort container in milli-cores, and the quota that this makes.
pub(crate) const BATCH_MILLI: u32 = 500;
/// Microseconds in 100 ms.
pub(crate) const BATCH_QUOTA: i64 = 50_000;

impl Field {
    /// `pods` pods of `containers` containers; every second one is best-effort. What runs in each container is
    /// `work`, if anything. All strategies are off until another NodeSLO is written.
    pub(crate) fn with(pods: usize, containers: usize, work: Option<Work>) -> Result<Self> {
        let mut field = Self::of((0..pods).map(|index| pod(index, containers)).collect())?;
        if let Some(work) = work {
            field.loads = field.load(work, |_| true)?;
        }
        Ok(field)
    }

    /// These pods, with nothing in them.
    pub(crate) fn of(pods: Vec<PodManifest>) -> Result<Self> {
        let tree = Tree::new()?;
        let dirs = pods.iter().map(|pod| tree.make_pod(pod)).collect::<Result<Vec<_>>>()?;
        let manifests = Manifests::new()?;
        manifests.write("node", &NodeManifest::this_host(NODE))?;
        manifests.write("slo", &NodeSloManifest::off(NODE))?;
        manifests.write_pods("pods", &pods)?;
        let agent = Agent::of(&tree, &manifests)?;
        Ok(Self { agent, manifests, dirs, pods, loads: Vec::new(), tree })
    }

    /// A process that does `work` in each container whose number, in the order of the pods, is `wanted`.
    pub(crate) fn load(&self, work: Work, wanted: impl Fn(usize) -> bool) -> Result<Vec<Load>> {
        let numbered = self.containers().enumerate().filter(|(number, _)| wanted(*number));
        numbered.map(|(_, dir)| self.tree.load(&dir, work)).collect()
    }

    /// Directories of all containers, in the order of the pods.
    pub(crate) fn containers(&self) -> impl Iterator<Item = String> {
        let each = |(pod, dirs): (&PodManifest, &PodDirs)| {
            pod.container_ids().map(|(name, _)| dirs.container(name)).collect::<Vec<_>>()
        };
        self.pods.iter().zip(&self.dirs).flat_map(each)
    }
}

fn pod(index: usize, containers: usize) -> PodManifest {
    let is_batch = index % 2 == 1;
    let pod = if is_batch {
        PodManifest::new(&format!("batch-{index}"), Class::BestEffort)
            .qos("BE")
            .label("koordinator.sh/priority-class", "koord-batch")
    } else {
        PodManifest::new(&format!("service-{index}"), Class::Burstable).qos("LS")
    };
    (0..containers).fold(pod, |pod, container| {
        let id = format!("{:08x}{:08x}", index + 1, container + 1);
        pod.container(&format!("c{container}"), &id, |spec| {
            if is_batch { spec.batch(BATCH_MILLI, 64 << 20) } else { spec.request("cpu", "100m") }
        })
    })
}
