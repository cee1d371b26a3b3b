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
    /// Capacity and allocatable.
    #[serde(deserialize_with = "null_default")]
    pub status: NodeStatus,
}

/// Resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// All of the node.
    #[serde(deserialize_with = "null_default")]
    pub capacity: ResourceList,
    /// What pods may use.
    #[serde(deserialize_with = "null_default")]
    pub allocatable: ResourceList,
}
