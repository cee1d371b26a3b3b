//! The NodeResourceTopology of this node, collection.md 10: what it should hold, and the patch that makes an existing
//! object hold it. Nothing here speaks to the API server; an object is JSON, so that fields of others survive.

mod annotations;
mod kubelet;
pub mod merge_patch;
mod object;
mod pools;
mod reserved;
mod wanted;
mod zones;

use crate::api::kubelet_config::KubeletConfig;
use crate::api::node::Node;
use crate::host::numa::NodeNumaInfo;
use crate::host::topology::NodeCpuInfo;
use crate::state::pods::PodTable;

pub use object::{NrtPatch, new_object, patch};
pub use wanted::{NrtError, WantedNrt};
pub use zones::{WantedResource, WantedZone};

#[cfg(test)]
mod tests;

/// What the topology is computed from.
#[derive(Clone, Copy, Debug)]
pub struct NrtInput<'a> {
    /// CPUs of the node.
    pub cpus: &'a NodeCpuInfo,
    /// NUMA nodes with their memory.
    pub numa: &'a NodeNumaInfo,
    /// The Node object.
    pub node: &'a Node,
    /// Pods, also finished ones.
    pub pods: &'a PodTable,
    /// The kubelet's configuration; `None` where it is not to be asked.
    pub kubelet: Option<&'a KubeletConfig>,
    /// Text of the kubelet's `cpu_manager_state` file; `None` without a file.
    pub cpu_manager_state: Option<&'a str>,
    /// Whether hugepages are told apart from other memory (gate `HugePageReport`).
    pub hugepages: bool,
}
