//! Annotations of Node and NodeResourceTopology that say who may use which CPUs, qos.md 2.2.

use serde::{Deserialize, Serialize};

use super::null_default;

/// A NodeResourceTopology (`topology.node.k8s.io`) as far as it is read here: its annotations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeResourceTopology {
    /// The node's name, and the annotations of qos.md 2.2.
    #[serde(deserialize_with = "null_default")]
    pub metadata: super::pod::ObjectMeta,
}

/// `node.koordinator.sh/reservation`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeReservation {
    /// Amounts kept back, by resource name.
    #[serde(deserialize_with = "null_default")]
    pub resources: super::pod::ResourceList,
    /// CPU list kept back; wins over an amount.
    #[serde(rename = "reservedCPUs", deserialize_with = "null_default")]
    pub reserved_cpus: String,
    /// `Default` or `ReservedCPUsOnly`; not used by suppression.
    #[serde(deserialize_with = "null_default")]
    pub apply_policy: String,
}

/// `node.koordinator.sh/system-qos-resource`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SystemQosResource {
    /// CPU list of the SYSTEM class.
    #[serde(deserialize_with = "null_default")]
    pub cpuset: String,
    /// Whether others must stay off; absent means true.
    pub cpuset_exclusive: Option<bool>,
}

/// An entry of `node.koordinator.sh/cpu-shared-pools` or `node.koordinator.sh/be-cpu-shared-pools`: the part of a pool
/// that is on one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SharedPool {
    /// Socket id.
    #[serde(deserialize_with = "null_default")]
    pub socket: u32,
    /// NUMA node id.
    #[serde(deserialize_with = "null_default")]
    pub node: u32,
    /// CPU list; empty where all CPUs of the node are taken.
    #[serde(deserialize_with = "null_default")]
    pub cpuset: String,
}

/// `kubelet.koordinator.sh/cpu-manager-policy`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuManagerPolicy {
    /// `static` or `none`.
    #[serde(deserialize_with = "null_default")]
    pub policy: String,
    /// CPUs that the kubelet keeps for itself.
    #[serde(rename = "reservedCPUs", deserialize_with = "null_default")]
    pub reserved_cpus: String,
}
