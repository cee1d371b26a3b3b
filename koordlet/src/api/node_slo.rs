//! NodeSLO (`slo.koordinator.sh/v1alpha1`) as far as it is used here, qos.md 1.

use serde::{Deserialize, Serialize};

use serde_json::Value;

use super::null_default;
use super::pod::ObjectMeta;

/// The object, cluster-scoped and named for its node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSlo {
    /// The node's name.
    #[serde(deserialize_with = "null_default")]
    pub metadata: ObjectMeta,
    /// The policy as written.
    #[serde(deserialize_with = "null_default")]
    pub spec: NodeSloSpec,
}

/// The sections of a NodeSLO as written. Each stays raw here, so that nonsense in one field spoils neither
/// the object nor the other sections; `state::slo` checks what is used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSloSpec {
    /// Suppression and eviction, qos.md 1.1.
    #[serde(rename = "resourceUsedThresholdWithBE", skip_serializing_if = "Option::is_none")]
    pub resource_used_threshold_with_be: Option<Value>,
    /// QoS of the classes, qos.md 1.2.
    #[serde(rename = "resourceQOSStrategy", skip_serializing_if = "Option::is_none")]
    pub resource_qos_strategy: Option<Value>,
    /// CPU burst, qos.md 1.3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_burst_strategy: Option<Value>,
    /// Kernel settings of the node, qos.md 1.4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_strategy: Option<Value>,
    /// Applications outside Kubernetes, qos.md 1.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_applications: Option<Value>,
    /// For third parties, qos.md 1.6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Value>,
}

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
