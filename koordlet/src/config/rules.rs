//! Flags of the rule plugins, and what they resolve to (hooks.md 2.1). Their gates are in `gates`.

use clap::Args;

use super::mistakes::Mistakes;

/// As typed.
#[derive(Args, Clone, Debug)]
pub struct RuleFlags {
    /// Leave the CPU quota of pods to which the scheduler gave CPUs of their own as it is, instead of lifting it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub disable_unset_cpu_quota: String,
}

/// What the plugins are told besides their gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFlagSettings {
    /// Pods with CPUs of their own keep their quota.
    pub keep_pinned_quota: bool,
}

/// Resolves the flags of the rule plugins.
pub(super) fn resolve(flags: &RuleFlags, mistakes: &mut Mistakes) -> Option<RuleFlagSettings> {
    let keep = mistakes.boolean("disable-unset-cpu-quota", &flags.disable_unset_cpu_quota);
    Some(RuleFlagSettings { keep_pinned_quota: keep? })
}
