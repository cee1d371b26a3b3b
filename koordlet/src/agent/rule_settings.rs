//! Gates and flags as the rules take them.

use crate::config::Config;
use crate::config::gates::Gate;
use crate::rules::gpu_env::HamiSettings;
use crate::rules::{PluginKind, RuleSettings};

/// What `config` says to the rules.
pub(super) fn rule_settings(config: &Config) -> RuleSettings {
    let is_on = |kind: &PluginKind| config.gates.is_on(gate(*kind));
    RuleSettings {
        plugins: PluginKind::ALL.iter().copied().filter(is_on).collect(),
        mainline_equivalents: config.mainline_equivalents,
        be_cpus_by_node: config.gates.is_on(Gate::BeCpuManager),
        keep_pinned_quota: config.rules.keep_pinned_quota,
        hami: HamiSettings {
            library: config.rules.hami_core_library.clone(),
            monitor: config.gates.is_on(Gate::HamiCoreVgpuMonitor),
        },
    }
}

/// The gate of a plugin, hooks.md 2.2.
fn gate(kind: PluginKind) -> Gate {
    match kind {
        PluginKind::BatchResource => Gate::BatchResource,
        PluginKind::CpuNormalization => Gate::CpuNormalization,
        PluginKind::CpuSetAllocator => Gate::CpuSetAllocator,
        PluginKind::CoreSched => Gate::CoreSched,
        PluginKind::GroupIdentity => Gate::GroupIdentity,
        PluginKind::OomScoreAdj => Gate::OomScoreAdj,
        PluginKind::PodResctrl => Gate::Resctrl,
        PluginKind::GpuEnv => Gate::GpuEnvInject,
        PluginKind::RdmaDevice => Gate::RdmaDeviceInject,
        PluginKind::TerwayQos => Gate::TerwayQos,
        PluginKind::TcNetworkQos => Gate::TcNetworkQos,
    }
}
