//! NodeResourceTopology (`topology.node.k8s.io/v1alpha1`), collection.md 10.1: field names and types of the API, for
//! the definition. It has no spec: its fields stand beside `metadata`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::quantity::quantity;

/// CPUs and memory of a node by NUMA node, collection.md 10.1.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "topology.node.k8s.io",
    version = "v1alpha1",
    kind = "NodeResourceTopology",
    plural = "noderesourcetopologies",
    singular = "noderesourcetopology",
    shortname = "node-res-topo",
    no_spec,
    derive = "PartialEq",
    annotation("api-approved.kubernetes.io", "https://github.com/kubernetes/enhancements/pull/1870"),
    doc = "NodeResourceTopology is the resources by NUMA node of the node that bears its name."
)]
#[serde(rename_all = "camelCase")]
pub struct TopologyFields {
    /// Policies of the kubelet's topology manager.
    pub topology_policies: Vec<String>,
    /// Each NUMA node.
    pub zones: Vec<Zone>,
}

/// A NUMA node, or another part of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Zone {
    /// Name, `node-0`.
    pub name: String,
    /// `Node`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Zone around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Distances to others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<Vec<ZoneCost>>,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<ZoneAttribute>>,
    /// What it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Vec<ZoneResource>>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// A distance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneCost {
    /// To which zone.
    pub name: String,
    /// How far.
    pub value: i64,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// One more thing about a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneAttribute {
    /// What.
    pub name: String,
    /// Value.
    pub value: String,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// A resource of a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ZoneResource {
    /// Its name.
    pub name: String,
    /// All of it.
    #[schemars(schema_with = "quantity")]
    pub capacity: IntOrString,
    /// What pods may use.
    #[schemars(schema_with = "quantity")]
    pub allocatable: IntOrString,
    /// What is free for new pods.
    #[schemars(schema_with = "quantity")]
    pub available: IntOrString,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}
