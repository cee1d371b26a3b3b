//! The slim Node: capacity, allocatable, labels and annotations.

use serde::{Deserialize, Serialize};

use super::null_default;
use super::pod::{ObjectMeta, ResourceList};

/// A Kubernetes Node, in the field names of its API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Name, labels, annotations.
    #[serde(deserialize_with = "null_default")]
    pub metadata: ObjectMeta,
    /// Resources and where the kubelet listens.
    #[serde(deserialize_with = "null_default")]
    pub status: NodeStatus,
}

/// Resources of a node, and where its kubelet listens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// All of the node.
    #[serde(deserialize_with = "null_default")]
    pub capacity: ResourceList,
    /// What pods may use.
    #[serde(deserialize_with = "null_default")]
    pub allocatable: ResourceList,
    /// Addresses by type.
    #[serde(deserialize_with = "null_default")]
    pub addresses: Vec<NodeAddress>,
    /// Ports.
    #[serde(deserialize_with = "null_default")]
    pub daemon_endpoints: DaemonEndpoints,
}

/// An address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname`, `InternalDNS` or `ExternalDNS`.
    #[serde(rename = "type", deserialize_with = "null_default")]
    pub kind: String,
    /// Address or name.
    #[serde(deserialize_with = "null_default")]
    pub address: String,
}

/// Ports of the node's daemons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonEndpoints {
    /// The kubelet's.
    #[serde(deserialize_with = "null_default")]
    pub kubelet_endpoint: DaemonEndpoint,
}

/// A port; the API spells it with a capital letter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DaemonEndpoint {
    /// 0: not known.
    #[serde(deserialize_with = "null_default")]
    pub port: i32,
}
