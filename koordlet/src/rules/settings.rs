//! Which plugins there are, which of them are on, and what flags tell them.

use std::collections::BTreeSet;

use super::gpu_env::HamiSettings;

/// A rule plugin, hooks.md 3, in the order of their names, which is the order in which hooks are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginKind {
    /// `BatchResource`
    BatchResource,
    /// `CPUNormalization`
    CpuNormalization,
    /// `CPUSetAllocator`
    CpuSetAllocator,
    /// `CoreSched`
    CoreSched,
    /// `GroupIdentity`
    GroupIdentity,
    /// `OOMScoreAdj`
    OomScoreAdj,
    /// `Resctrl`
    PodResctrl,
    /// `TerwayQoS`
    TerwayQos,
    /// `gpu env inject`
    GpuEnv,
    /// `rdma device inject`
    RdmaDevice,
    /// `tcPlugin`
    TcNetworkQos,
}

impl PluginKind {
    /// All plugins.
    pub const ALL: &'static [Self] = &[
        Self::BatchResource,
        Self::CpuNormalization,
        Self::CpuSetAllocator,
        Self::CoreSched,
        Self::GroupIdentity,
        Self::OomScoreAdj,
        Self::PodResctrl,
        Self::TerwayQos,
        Self::GpuEnv,
        Self::RdmaDevice,
        Self::TcNetworkQos,
    ];
}

/// Gates and flags, hooks.md 2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSettings {
    /// Plugins whose gates are on.
    pub plugins: BTreeSet<PluginKind>,
    /// `--mainline-equivalents`: what stands in for settings that this kernel lacks may be claimed through them.
    pub mainline_equivalents: bool,
    /// Gate `BECPUManager`: BE pods get the BE pools of the NUMA nodes that the scheduler chose.
    pub be_cpus_by_node: bool,
    /// `--disable-unset-cpu-quota`: pods with CPUs of their own keep their quota.
    pub keep_pinned_quota: bool,
    /// Of GPUs that containers share.
    pub hami: HamiSettings,
}
