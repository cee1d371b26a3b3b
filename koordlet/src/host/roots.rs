//! Host roots, collection.md 1.1: every path of the host starts at one of these.

use std::path::PathBuf;

/// Where the host's file systems are seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `--cgroup-root-dir`
    pub cgroup: PathBuf,
    /// `--proc-root-dir`
    pub proc: PathBuf,
    /// `--sys-root-dir`
    pub sys: PathBuf,
    /// `--sys-fs-root-dir`
    pub sys_fs: PathBuf,
    /// `--var-run-root-dir`
    pub var_run: PathBuf,
    /// `--run-root-dir`
    pub run: PathBuf,
    /// `--var-lib-kubelet-dir`
    pub var_lib_kubelet: PathBuf,
    /// Where Terway's daemon looks for network QoS (hooks.md 11.4); no flag.
    pub terway_qos: PathBuf,
}

impl Roots {
    /// The roots of `agent_mode=hostMode`.
    pub fn host() -> Self {
        Self {
            cgroup: "/sys/fs/cgroup".into(),
            proc: "/proc".into(),
            sys: "/sys".into(),
            sys_fs: "/sys/fs".into(),
            var_run: "/var/run".into(),
            run: "/run".into(),
            var_lib_kubelet: "/var/lib/kubelet".into(),
            terway_qos: "/var/lib/terway/qos".into(),
        }
    }

    /// The roots of a DaemonSet pod (`dsMode`).
    pub fn daemon_set() -> Self {
        Self {
            cgroup: "/host-cgroup".into(),
            sys: "/host-sys".into(),
            sys_fs: "/host-sys-fs".into(),
            var_run: "/host-var-run".into(),
            run: "/host-run".into(),
            terway_qos: "/host-var-lib/terway/qos".into(),
            ..Self::host()
        }
    }
}
