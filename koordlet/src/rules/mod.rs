//! Rule plugins: from target and parsed rule to claims. Pure. One function each, for the reconciler, the
//! callbacks and the hook server alike.
//!
//! A rule is parsed from an object (Node, NodeSLO); a text that cannot be parsed leaves the last good rule in
//! force and is told once (hooks.md 5). What a rule wishes for a pod or container depends on the rule and the
//! pod alone, so that the hook server gets, for a container that has no directory yet, the very values that
//! the reconciler claims for it afterwards.

pub mod bandwidth;
pub mod batch_resource;
mod batch_spec;
pub mod core_sched;
pub mod cpu_normalization;
pub mod cpuset_allocator;
mod go_float;
pub mod gpu_env;
pub mod group_identity;
pub mod injection;
mod kept;
pub mod oom_score_adj;
pub mod plugin;
pub mod pod_resctrl;
pub mod ratio;
pub mod rdma_device;
pub mod rule_pod;
pub mod rule_set;
pub mod settings;
pub mod tc_network_qos;
pub mod terway_qos;
#[cfg(test)]
mod tests;
pub mod wishes;

pub use rule_pod::{RuleGroup, RulePod, RuleTarget};
pub use rule_set::{RuleNotice, Rules};
pub use settings::{PluginKind, RuleSettings};
