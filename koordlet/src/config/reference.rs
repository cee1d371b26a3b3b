//! The reference agent's flags that this agent does not use yet, so that a DaemonSet's arguments can be
//! taken over unchanged: they are accepted, their values are checked, and one line says that they have no
//! effect. collection.md 14, qos.md 8.3, hooks.md 2.1.

use super::gates::parse_bool;
use crate::api::duration::parse_duration;

/// What a flag's value must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Go's boolean; given alone it means true.
    Bool,
    /// A whole number.
    Int,
    /// A decimal number.
    Float,
    /// A Go duration.
    Duration,
    /// Anything.
    Text,
}

impl Kind {
    /// What is wrong with `value`, if anything.
    pub fn check(self, value: &str) -> Result<(), String> {
        let fits = match self {
            Self::Bool => parse_bool(value).is_some(),
            Self::Int => value.parse::<i64>().is_ok(),
            Self::Float => value.parse::<f64>().is_ok(),
            Self::Duration => parse_duration(value.strip_prefix('-').unwrap_or(value)).is_ok(),
            Self::Text => true,
        };
        let wanted = match self {
            Self::Bool => "true or false",
            Self::Int => "a whole number",
            Self::Float => "a number",
            Self::Duration => "a duration like 1s or 1m30s",
            Self::Text => "text",
        };
        if fits { Ok(()) } else { Err(format!("{value:?} is not {wanted}")) }
    }
}

/// A flag of the reference agent: name, kind, default as Go prints it.
#[derive(Clone, Copy, Debug)]
pub struct ReferenceFlag {
    /// Name without dashes.
    pub name: &'static str,
    /// Kind of value.
    pub kind: Kind,
    /// Default as Go prints it.
    pub default: &'static str,
}

const fn flag(name: &'static str, kind: Kind, default: &'static str) -> ReferenceFlag {
    ReferenceFlag { name, kind, default }
}

use Kind::{Bool, Duration, Float, Int, Text};

/// Flags that are accepted and have no effect yet, by name.
pub const UNUSED_FLAGS: &[ReferenceFlag] = &[
    flag("configmap-name", Text, "koordlet-config"),
    flag("containerd-endpoint", Text, ""),
    flag("cpu-evict-cool-time-seconds", Int, "20"),
    flag("cpu-evict-interval-seconds", Int, "1"),
    flag("default-runtime-type", Text, "containerd"),
    flag("docker-endpoint", Text, ""),
    flag("enable-nri-runtime-hook", Bool, "true"),
    flag("enable-pod-taskids", Bool, "false"),
    flag("enable-pprof", Bool, "false"),
    flag("memory-evict-cool-time-seconds", Int, "4"),
    flag("memory-evict-interval-seconds", Int, "1"),
    flag("metric-expire-seconds", Int, "1800"),
    flag("metric-gc-interval-seconds", Int, "300"),
    flag("only-evict-by-api", Bool, "false"),
    flag("pod-resources-proxy-path", Text, "/var/run/koordlet/pod-resources"),
    flag("pouch-endpoint", Text, ""),
    flag("pprof-addr", Text, ":9317"),
    flag("qos-extension-plugins", Text, ""),
    flag("report-interval", Duration, "0s"),
    flag("runtime-hooks-addr", Text, "/host-var-run-koordlet/koordlet.sock"),
    flag("runtime-hooks-config-path", Text, "/host-etc-hookserver/"),
    flag("runtime-hooks-disable-stages", Text, ""),
    flag("runtime-hooks-failure-policy", Text, "Ignore"),
    flag("runtime-hooks-host-endpoint", Text, "/var/run/koordlet/koordlet.sock"),
    flag("runtime-hooks-network", Text, "unix"),
    flag("runtime-hooks-nri-backoff-cap", Duration, "1281023h53m38.427387903s"),
    flag("runtime-hooks-nri-backoff-duration", Duration, "1s"),
    flag("runtime-hooks-nri-backoff-factor", Float, "2"),
    flag("runtime-hooks-nri-backoff-steps", Int, "2147483647"),
    flag("runtime-hooks-nri-connect-timeout", Duration, "6s"),
    flag("runtime-hooks-nri-plugin-index", Text, "00"),
    flag("runtime-hooks-nri-plugin-name", Text, "koordlet_nri"),
    flag("runtime-hooks-nri-socket-path", Text, "nri/nri.sock"),
    flag("runtime-hooks-plugin-failure-policy", Text, "Ignore"),
    flag("runtime-hooks-reconcile-interval", Duration, "10s"),
    flag("tsdb-enable-prometheus-metric", Bool, "true"),
    flag("tsdb-head-chunks-write-buffer-size", Int, "1048576"),
    flag("tsdb-max-block-chunk-segment-size", Int, "5242880"),
    flag("tsdb-max-block-duration", Duration, "10m0s"),
    flag("tsdb-min-block-duration", Duration, "10m0s"),
    flag("tsdb-path", Text, "/metric-data/"),
    flag("tsdb-stripe-size", Int, "16384"),
    flag("tsdb-wal-segment-size", Int, "1048576"),
    flag("xpu-device-infos-dir", Text, "/var/run/koordlet/xpu-device-infos/"),
    flag("xpu-enforce-collect-from-device-infos", Bool, "false"),
    // klog's own; `v` is used.
    flag("add_dir_header", Bool, "false"),
    flag("alsologtostderr", Bool, "false"),
    flag("log_backtrace_at", Text, ":0"),
    flag("log_dir", Text, ""),
    flag("log_file", Text, ""),
    flag("log_file_max_size", Int, "1800"),
    flag("logtostderr", Bool, "true"),
    flag("one_output", Bool, "false"),
    flag("skip_headers", Bool, "false"),
    flag("skip_log_headers", Bool, "false"),
    flag("stderrthreshold", Text, "2"),
    flag("vmodule", Text, ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_kind() {
        for flag in UNUSED_FLAGS {
            assert_eq!(flag.kind.check(flag.default), Ok(()), "{}", flag.name);
        }
        assert!(Bool.check("yes").is_err());
        assert!(Duration.check("5").is_err());
    }
}
