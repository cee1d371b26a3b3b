//! A claim: (target, wish, owner, reason).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::network::NetworkTarget;
use super::own_file::OwnFile;
use super::resctrl::ResctrlTarget;
use super::target::{CgroupTarget, HostFile, Target, TaskTarget};
use crate::cgroup::value::Value;

/// Who wishes a value. The order is the precedence where two owners claim one target and the table in
/// `combine` says nothing else: the first wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// The kubelet's exclusive CPUs (`cpu_manager_state`): leave cpuset and quota alone.
    KubeletExclusive,
    /// `rules/cpuset_allocator`
    CpuSetAllocator,
    /// `rules/group_identity`
    GroupIdentity,
    /// `rules/core_sched`
    CoreSched,
    /// `rules/oom_score_adj`
    OomScoreAdj,
    /// `rules/pod_resctrl`
    PodResctrl,
    /// `rules/terway_qos`
    TerwayQos,
    /// `rules/tc_network_qos`
    TcNetworkQos,
    /// `rules/batch_resource`.
    BatchResource,
    /// `rules/cpu_normalization`.
    CpuNormalization,
    /// `strategies/cpu_suppress`.
    CpuSuppress,
    /// `strategies/cpu_share_pools`: BE CPUs by NUMA node (gate `BECPUManager`).
    CpuSharePools,
    /// `strategies/cpu_burst`
    CpuBurst,
    /// `strategies/memory_qos`
    MemoryQos,
    /// `strategies/class_resctrl`
    ClassResctrl,
    /// `strategies/blkio`
    BlkIo,
    /// `strategies/system_config`
    SystemConfig,
    /// What the pod's own spec asks for: written only to undo a withdrawn claim.
    PodSpec,
    /// The BE pool of CPUs: written only to undo a withdrawn claim.
    BePool,
    /// An unlimited quota of the BE directory: asserted once at start, and to undo a withdrawn claim.
    BeUnlimited,
}

impl Owner {
    /// Its name in texts for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeletExclusive => "kubelet exclusive CPUs",
            Self::CpuSetAllocator => "cpuset allocator",
            Self::GroupIdentity => "group identity",
            Self::CoreSched => "core scheduling",
            Self::OomScoreAdj => "OOM score",
            Self::PodResctrl => "pod resctrl",
            Self::TerwayQos => "Terway QoS",
            Self::TcNetworkQos => "tc network QoS",
            Self::BatchResource => "batch resource",
            Self::CpuNormalization => "CPU normalization",
            Self::CpuSuppress => "CPU suppress",
            Self::CpuSharePools => "CPU share pools",
            Self::CpuBurst => "CPU burst",
            Self::MemoryQos => "memory QoS",
            Self::ClassResctrl => "class resctrl",
            Self::BlkIo => "block I/O",
            Self::SystemConfig => "system config",
            Self::PodSpec => "pod spec",
            Self::BePool => "BE pool",
            Self::BeUnlimited => "BE unlimited",
        }
    }

    /// Whether claims of this owner are only what a withdrawn claim falls back to.
    pub fn is_baseline(self) -> bool {
        matches!(self, Self::PodSpec | Self::BePool | Self::BeUnlimited)
    }
}

/// Why a value is wished: one sentence, the inputs with their figures, and the section of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// One sentence with the formula filled in, e.g. `ceil(200000 / 1.5)`.
    pub text: String,
    /// Inputs by name.
    pub inputs: BTreeMap<&'static str, String>,
}

/// What is wished for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish<V = Value> {
    /// Hold this value.
    Hold(V),
    /// Not ours: keep what others put there.
    Leave,
}

/// One part's wish for one target.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim<T: Target = CgroupTarget> {
    /// What.
    pub target: T,
    /// Which value.
    pub wish: Wish<T::Value>,
    /// Who.
    pub owner: Owner,
    /// Why.
    pub reason: Arc<Reason>,
}

impl<T: Target> Claim<T> {
    /// A claim that a target hold `value`.
    pub fn hold(target: T, value: T::Value, owner: Owner, reason: Arc<Reason>) -> Self {
        Self { target, wish: Wish::Hold(value), owner, reason }
    }
}

/// The claims of each known pod, by UID, shared with whoever keeps them.
pub type PodClaims = BTreeMap<Arc<str>, Arc<Claims>>;

/// Claims of all kinds, in any order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims {
    /// On cgroup files.
    pub cgroup: Vec<Claim>,
    /// On settings of the host.
    pub host_files: Vec<Claim<HostFile>>,
    /// On tasks.
    pub tasks: Vec<Claim<TaskTarget>>,
    /// On resctrl.
    pub resctrl: Vec<Claim<ResctrlTarget>>,
    /// On objects of the node's network.
    pub network: Vec<Claim<NetworkTarget>>,
    /// On files of our own making.
    pub own_files: Vec<Claim<OwnFile>>,
}

impl Claims {
    /// Adds those of `other` that are not on cgroup files.
    pub(super) fn append_beside_cgroup(&mut self, other: &Self) {
        let Self { cgroup: _, host_files, tasks, resctrl, network, own_files } = other;
        self.host_files.extend_from_slice(host_files);
        self.tasks.extend_from_slice(tasks);
        self.resctrl.extend_from_slice(resctrl);
        self.network.extend_from_slice(network);
        self.own_files.extend_from_slice(own_files);
    }

    /// Adds those of `other`.
    pub fn append(&mut self, other: Self) {
        let Self { cgroup, host_files, tasks, resctrl, network, own_files } = other;
        self.cgroup.extend(cgroup);
        self.host_files.extend(host_files);
        self.tasks.extend(tasks);
        self.resctrl.extend(resctrl);
        self.network.extend(network);
        self.own_files.extend(own_files);
    }
}
