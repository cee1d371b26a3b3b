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
    /// HAMi's library on the host, for containers that share a GPU (gate GPUEnvInject)
    #[arg(long, value_name = "FILE", default_value = "/usr/local/vgpu/libvgpu.so")]
    pub hami_core_library_directory_path: String,
}

/// What the plugins are told besides their gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFlagSettings {
    /// Pods with CPUs of their own keep their quota.
    pub keep_pinned_quota: bool,
    /// HAMi's library on the host.
    pub hami_core_library: String,
}

/// Resolves the flags of the rule plugins.
pub(super) fn resolve(flags: &RuleFlags, mistakes: &mut Mistakes) -> Option<RuleFlagSettings> {
    let keep = mistakes.boolean("disable-unset-cpu-quota", &flags.disable_unset_cpu_quota);
    let library = absolute(&flags.hami_core_library_directory_path);
    let library = mistakes.take("hami-core-library-directory-path", library);
    Some(RuleFlagSettings { keep_pinned_quota: keep?, hami_core_library: library? })
}

/// A path of the host that containers will be given.
fn absolute(text: &str) -> Result<String, String> {
    let good = text.starts_with('/') && !text.split('/').any(|part| part == "..");
    if good { Ok(text.to_owned()) } else { Err(format!("{text:?} is no absolute path")) }
}
