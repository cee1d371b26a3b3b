//! CPUs of the node and who may use them, computed locally from sysfs, Node and pods (collection.md 10.3,
//! qos.md 2.2), so that nothing waits for a NodeResourceTopology object.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cpuset::CpuSet;
use crate::host::topology::ProcessorInfo;

/// One online logical CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuInfo {
    /// Logical CPU number.
    pub cpu: u32,
    /// Core id, unique in the machine (lscpu's logical numbering).
    pub core: u32,
    /// Socket id.
    pub socket: u32,
    /// NUMA node id; 0 where there is no NUMA.
    pub node: u32,
}

impl From<&ProcessorInfo> for CpuInfo {
    fn from(info: &ProcessorInfo) -> Self {
        Self { cpu: info.cpu, core: info.core, socket: info.socket, node: info.node }
    }
}

/// The kubelet's CPU manager policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubeletCpuPolicy {
    /// No exclusive CPUs.
    #[default]
    None,
    /// Exclusive CPUs for guaranteed pods with whole CPUs.
    Static,
}

/// Who may use which CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Online CPUs by number.
    pub cpus: Vec<CpuInfo>,
    /// CPUs reserved by the node annotation (an amount is turned into CPUs).
    pub reserved: CpuSet,
    /// CPUs of the SYSTEM class when exclusive; else empty.
    pub system_exclusive: CpuSet,
    /// The kubelet's policy.
    pub kubelet_policy: KubeletCpuPolicy,
    /// CPUs that the kubelet gave to one container: (pod UID, container name) -> CPUs.
    pub kubelet_exclusive: BTreeMap<(Arc<str>, String), CpuSet>,
}
