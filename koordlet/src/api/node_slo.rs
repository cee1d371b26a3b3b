//! NodeSLO (`slo.koordinator.sh/v1alpha1`) as far as it is used here, qos.md 1.

use serde::{Deserialize, Serialize};

use super::null_default;

/// An application outside Kubernetes with its cgroup, qos.md 1.5.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostApplication {
    /// Name, the key of its usage series.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// `koord-*` priority class.
    #[serde(deserialize_with = "null_default")]
    pub priority: String,
    /// `LSE`, `LSR`, `LS`, `BE`, `SYSTEM`.
    #[serde(deserialize_with = "null_default")]
    pub qos: String,
    /// Where its cgroup is; derived from the name and QoS when absent.
    pub cgroup_path: Option<HostCgroupPath>,
}

/// Where a host application's cgroup is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostCgroupPath {
    /// `CgroupRoot`, `Kubepods`, `KubepodsBurstable`, `KubepodsBesteffort`.
    #[serde(deserialize_with = "null_default")]
    pub base: String,
    /// Directory beneath the base.
    #[serde(deserialize_with = "null_default")]
    pub parent_dir: String,
    /// Directory beneath the parent.
    #[serde(deserialize_with = "null_default")]
    pub relative_path: String,
}
