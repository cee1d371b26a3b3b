//! The immutable values that decisions see.

use std::sync::Arc;

use super::kernel::KernelFacts;
use super::node_dirs::NodeDirs;
use super::pods::PodTable;
use super::slo::Slo;
use super::topology::Topology;
use super::tree::CgroupTree;
use super::usage::Usage;
use crate::api::node::Node;

/// Everything a decision may look at. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The Node object, once seen.
    pub node: Option<Arc<Node>>,
    /// Pods of this node, joined with their cgroup directories.
    pub pods: Arc<PodTable>,
    /// The merged policy; defaults where no NodeSLO was seen.
    pub slo: Arc<Slo>,
    /// CPUs and who may use them, once computed.
    pub topology: Option<Arc<Topology>>,
    /// Cgroup directories that exist.
    pub tree: Arc<CgroupTree>,
    /// Directories beside those of pods.
    pub dirs: Arc<NodeDirs>,
    /// What the kernel offers.
    pub kernel: Arc<KernelFacts>,
    /// The last full sample of usage.
    pub usage: Arc<Usage>,
}
