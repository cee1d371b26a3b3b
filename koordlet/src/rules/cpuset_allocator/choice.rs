//! Which CPUs a container or sandbox gets: the table of hooks.md 8.2, first match wins.

use super::rule::CpuSetRule;
use crate::api::annotations::{NumaNodeResource, ResourceStatus};
use crate::api::keys::{BATCH_CPU, CPU};
use crate::api::qos::QosClass;
use crate::cpuset::CpuSet;

/// What is known of the pod.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// What the scheduler allocated to it.
    pub status: &'a ResourceStatus,
    /// Its class as labelled.
    pub qos: Option<QosClass>,
    /// Whether it lies in the best-effort directory.
    pub in_best_effort: bool,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuChoice {
    /// No value: what others say counts.
    NoValue,
    /// No list of its own: a hook's answer clears that of the request; a running group is left as it is.
    Clear,
    /// These CPUs, never none.
    Cpus(CpuSet, Why),
}

/// Why these CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The scheduler allocated them to the pod.
    Allocated,
    /// They are the shared ones of the NUMA nodes that the scheduler chose, in its order.
    Numa {
        /// The nodes.
        nodes: Vec<u32>,
        /// Of the BE pools, not of the LS pools.
        be: bool,
    },
    /// They are the SYSTEM class's.
    System,
    /// They are what LS pods share.
    Shared,
}

/// Chooses CPUs, hooks.md 8.2. `be_by_node`: gate `BECPUManager`.
///
/// A BE pod never gets the LS pools, wherever it lies (17 row 26). A list that cannot be read gives no value, and so
/// does a pool of all CPUs that was computed here: it keeps nobody off anything, and a node without any allocation or
/// reservation is left alone.
pub fn choose(rule: Option<&CpuSetRule>, subject: Subject<'_>, be_by_node: bool) -> CpuChoice {
    let Subject { status, qos, in_best_effort } = subject;
    if !status.cpuset.is_empty() {
        let cpus = status.cpus().ok().filter(|cpus| !cpus.is_empty());
        return cpus.map_or(CpuChoice::NoValue, |cpus| CpuChoice::Cpus(cpus, Why::Allocated));
    }
    let Some(rule) = rule else { return CpuChoice::NoValue };
    let is_be = qos == Some(QosClass::Be);
    let nodes = numa_nodes(status);
    if !nodes.is_empty() && (!is_be || be_by_node) {
        let pool = if is_be { rule.be_on(&nodes) } else { rule.ls_on(&nodes) };
        return readable(pool, || Why::Numa { nodes, be: is_be });
    }
    let shared = || {
        if rule.all_shared() { CpuChoice::NoValue } else { readable(rule.ls_pool(), || Why::Shared) }
    };
    match qos {
        Some(QosClass::System) if !rule.system().is_empty() => {
            CpuChoice::Cpus(rule.system().clone(), Why::System)
        }
        Some(QosClass::Ls) => shared(),
        _ if is_be || in_best_effort => CpuChoice::Clear,
        _ if rule.kubelet_static() => CpuChoice::NoValue,
        _ => shared(),
    }
}

/// The NUMA nodes from which the pod has CPUs, in the order of its allocation; all nodes of the allocation if it has
/// any CPU at all, none if it is not NUMA-aware.
fn numa_nodes(status: &ResourceStatus) -> Vec<u32> {
    let amount =
        |entry: &NumaNodeResource, name| entry.resources.get(name).map_or(0, |quantity| quantity.milli());
    let has_cpus = status
        .numa_node_resources
        .iter()
        .any(|entry| amount(entry, CPU) != 0 || amount(entry, BATCH_CPU) > 0);
    if !has_cpus {
        return Vec::new();
    }
    status.numa_node_resources.iter().map(|entry| entry.node).collect()
}

fn readable(pool: Option<CpuSet>, why: impl FnOnce() -> Why) -> CpuChoice {
    match pool {
        None => CpuChoice::NoValue,
        Some(cpus) if cpus.is_empty() => CpuChoice::Clear,
        Some(cpus) => CpuChoice::Cpus(cpus, why()),
    }
}
