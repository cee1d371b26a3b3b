//! A shared pool as it is published: by NUMA node, collection.md 10.3.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cpuset::CpuSet;
use crate::state::topology::CpuInfo;

/// The part of a pool on one NUMA node.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct NodePool {
    /// Socket of any of its CPUs.
    socket: u32,
    /// NUMA node.
    node: u32,
    /// Its CPUs, none of them reserved.
    #[serde(skip_serializing_if = "CpuSet::is_empty")]
    cpuset: CpuSet,
}

/// Groups a pool by NUMA node, ordered by socket and node. A node is listed for a CPU in `before`, the pool before
/// reserved CPUs have left it, though `after` has none of it.
pub(super) fn by_node(cpus: &[CpuInfo], before: &CpuSet, after: &CpuSet) -> Vec<NodePool> {
    let mut nodes: BTreeMap<u32, NodePool> = BTreeMap::new();
    for info in cpus.iter().filter(|info| before.contains(info.cpu)) {
        let CpuInfo { cpu, socket, node, core: _ } = *info;
        let pool = nodes.entry(node).or_insert_with(|| NodePool { socket, node, cpuset: CpuSet::new() });
        if after.contains(cpu) {
            pool.cpuset.insert(cpu);
        }
    }
    let mut pools: Vec<NodePool> = nodes.into_values().collect();
    pools.sort_by_key(|pool| (pool.socket, pool.node));
    pools
}
