//! What the NodeResourceTopology object should hold, collection.md 10.3 to 10.5. Computed from the sources alone,
//! never from the object, which would feed back what was published before.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::NrtInput;
use super::annotations::{CpuBasicInfo, CpuTopology, pod_cpu_allocs};
use super::kubelet::{CpuManager, is_static, topology_policy};
use super::pools::by_node;
use super::reserved::{Reservation, SystemQos};
use super::zones::{self, WantedZone};
use crate::api::annotations::{AnnotationError, resource_status};
use crate::api::keys;
use crate::cpuset::CpuSet;
use crate::state::cpu_manager::{CpuManagerState, CpuManagerStateError, pinned_by_pod};
use crate::state::cpu_pools::CpuPools;
use crate::state::cpu_sources::{Allocations, TopologyNotice};
use crate::state::topology::CpuInfo;

/// What we own of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedNrt {
    /// The one entry of `topologyPolicies`.
    pub topology_policy: &'static str,
    /// Annotations: key -> JSON text.
    pub annotations: BTreeMap<&'static str, String>,
    /// Label `enable-numa-reservation`; absent without one on the Node.
    pub reservation_label: Option<String>,
    /// Zones by name.
    pub zones: Vec<WantedZone>,
    /// What was left out because it cannot be read.
    pub notices: Vec<TopologyNotice>,
}

/// Why the topology is not known; what was published last stays.
#[derive(Debug, thiserror::Error)]
pub enum NrtError {
    /// Memory and CPUs do not belong to the same NUMA nodes.
    #[error("memory is on {memory} NUMA nodes and CPUs are on {cpus}, so there is no zone for each")]
    NodeCount {
        /// Nodes with memory.
        memory: usize,
        /// Nodes with CPUs.
        cpus: usize,
    },
    /// Which CPUs the kubelet pinned is not known.
    #[error("cannot tell which CPUs the kubelet pinned")]
    Pinned(#[source] CpuManagerStateError),
    /// Which CPUs the SYSTEM class has is not known.
    #[error("cannot tell the CPUs of the SYSTEM class")]
    SystemQos(#[source] AnnotationError),
    /// A value has no JSON text.
    #[error("cannot write annotation {key}")]
    Text {
        /// The annotation.
        key: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

impl WantedNrt {
    /// Computes it all. An error keeps the whole round; smaller faults are in the notices.
    pub fn compute(input: &NrtInput<'_>) -> Result<Self, NrtError> {
        let mut notices = Vec::new();
        let cpus: Vec<CpuInfo> = input.cpus.processor_infos.iter().map(CpuInfo::from).collect();
        let node = &input.node.metadata;
        let zones = zones::wanted(input)?;
        let reservation = Reservation::of(&node.annotations, &cpus, &mut notices);
        let system = SystemQos::of(&node.annotations, &mut notices).map_err(NrtError::SystemQos)?;
        let manager = CpuManager::of(input.kubelet, &cpus, &mut notices);
        let pinned = pinned(input, &mut notices)?;

        let all_pinned = pinned.values().fold(CpuSet::new(), |all, cpus| all.union(cpus));
        let allocations = Allocations::of_pods(input.pods, &mut notices);
        let all = cpus.iter().map(|info| info.cpu).collect();
        let before = CpuPools::new(&all, &all_pinned, &allocations);
        let exclusive = system.as_ref().map(|system| system.exclusive.clone()).unwrap_or_default();
        let after = before.without(&reservation.reserved_cpus, &exclusive);

        let annotations = BTreeMap::from([
            text(keys::CPU_BASIC_INFO, &CpuBasicInfo::from(&input.cpus.basic_info))?,
            text(keys::CPU_TOPOLOGY, &CpuTopology::of(&cpus))?,
            text(keys::CPU_SHARED_POOLS, &by_node(&cpus, &before.ls, &after.ls))?,
            text(keys::BE_CPU_SHARED_POOLS, &by_node(&cpus, &before.be, &after.be))?,
            text(keys::POD_CPU_ALLOCS, &pod_cpu_allocs(&pinned, input.pods))?,
            text(keys::CPU_MANAGER_POLICY, &manager)?,
            text(keys::NODE_RESERVATION, &reservation)?,
            text(keys::SYSTEM_QOS_RESOURCE, &system)?,
        ]);
        let label = node.labels.get(keys::ENABLE_NUMA_RESERVATION).filter(|label| !label.is_empty());
        Ok(Self {
            topology_policy: topology_policy(input.kubelet),
            annotations,
            reservation_label: label.cloned(),
            zones,
            notices,
        })
    }
}

/// CPUs that the kubelet pinned, by pod; none unless its policy is `static`.
fn pinned(
    input: &NrtInput<'_>,
    notices: &mut Vec<TopologyNotice>,
) -> Result<BTreeMap<Arc<str>, CpuSet>, NrtError> {
    if !input.kubelet.is_some_and(is_static) {
        return Ok(BTreeMap::new());
    }
    let state = CpuManagerState::parse(input.cpu_manager_state.unwrap_or("")).map_err(NrtError::Pinned)?;
    notices.extend(state.skipped.into_iter().map(|problem| TopologyNotice {
        object: "kubelet".to_owned(),
        key: "cpu_manager_state",
        problem,
    }));
    // Any list in the annotation says that the scheduler has placed the pod, also one that cannot be read.
    let is_placed = |uid: &str| {
        let pod = input.pods.pods.get(uid).map(|pod| resource_status(&pod.pod));
        matches!(pod, Some(Ok(Some(status))) if !status.cpuset.is_empty())
    };
    Ok(pinned_by_pod(&state.exclusive, input.pods, is_placed))
}

fn text<T: Serialize>(key: &'static str, value: &T) -> Result<(&'static str, String), NrtError> {
    let text = serde_json::to_string(value).map_err(|source| NrtError::Text { key, source })?;
    Ok((key, text))
}
