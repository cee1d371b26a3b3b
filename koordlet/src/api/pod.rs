//! The slim pod: the fields of a Kubernetes Pod that the agent uses, nothing else.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::null_default;
use super::quantity::Quantity;

/// Resource name -> quantity.
pub type ResourceList = BTreeMap<String, Quantity>;

/// A pod, in the field names of the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Name, namespace, UID, labels, annotations.
    #[serde(deserialize_with = "null_default")]
    pub metadata: ObjectMeta,
    /// What was asked for.
    #[serde(deserialize_with = "null_default")]
    pub spec: PodSpec,
    /// What the kubelet reports.
    #[serde(deserialize_with = "null_default")]
    pub status: PodStatus,
}

/// Metadata of any object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    /// Object name.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// Namespace; empty for cluster-scoped objects.
    #[serde(deserialize_with = "null_default")]
    pub namespace: String,
    /// UID as the kubelet reports it: the one in the cgroup name, also for static pods.
    #[serde(deserialize_with = "null_default")]
    pub uid: String,
    /// Labels.
    #[serde(deserialize_with = "null_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(deserialize_with = "null_default")]
    pub annotations: BTreeMap<String, String>,
    /// RFC 3339 time at which the object was made; the kubelet shows none of a static pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<String>,
    /// RFC 3339 time of the delete request, when there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
}

/// The part of a pod's spec that decides its resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Node that the pod is bound to; empty when it is not.
    #[serde(deserialize_with = "null_default")]
    pub node_name: String,
    /// Numeric priority.
    pub priority: Option<i32>,
    /// App containers.
    #[serde(deserialize_with = "null_default")]
    pub containers: Vec<Container>,
    /// Init containers; those with `restartPolicy: Always` are sidecars.
    #[serde(deserialize_with = "null_default")]
    pub init_containers: Vec<Container>,
    /// Pod overhead of its runtime class.
    #[serde(deserialize_with = "null_default")]
    pub overhead: ResourceList,
    /// Pod-level resources; they replace the sum of the containers.
    pub resources: Option<ResourceRequirements>,
    /// Runtime class, e.g. `kata`.
    pub runtime_class_name: Option<String>,
    /// Whether it uses the node's network and so has the node's address.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
}

/// A container of a pod's spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name, unique in the pod.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// Requests and limits.
    #[serde(deserialize_with = "null_default")]
    pub resources: ResourceRequirements,
    /// `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<String>,
}

impl Container {
    /// Whether an *init* container runs beside the app containers (a sidecar).
    pub fn is_restartable(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// Requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRequirements {
    /// Requests by resource name.
    #[serde(deserialize_with = "null_default")]
    pub requests: ResourceList,
    /// Limits by resource name.
    #[serde(deserialize_with = "null_default")]
    pub limits: ResourceList,
}

/// The part of a pod's status that the agent uses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown` or empty.
    #[serde(deserialize_with = "null_default")]
    pub phase: String,
    /// `Guaranteed`, `Burstable`, `BestEffort` or empty (then it is computed from the spec).
    #[serde(deserialize_with = "null_default")]
    pub qos_class: String,
    /// Its address; empty while it has none.
    #[serde(rename = "podIP", deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub pod_ip: String,
    /// All its addresses, one of each family.
    #[serde(rename = "podIPs", deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub pod_ips: Vec<PodIp>,
    /// App containers.
    #[serde(deserialize_with = "null_default")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Init containers.
    #[serde(deserialize_with = "null_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// One of a pod's addresses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// The address.
    #[serde(deserialize_with = "null_default")]
    pub ip: String,
}

impl PodStatus {
    /// Its IPv4 address.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        let all = self.pod_ips.iter().map(|address| &address.ip);
        std::iter::once(&self.pod_ip).chain(all).find_map(|text| text.parse().ok())
    }
}

/// Status of one container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Name as in the spec.
    #[serde(deserialize_with = "null_default")]
    pub name: String,
    /// `<runtime>://<id>`; empty when not started.
    #[serde(rename = "containerID", deserialize_with = "null_default")]
    pub container_id: String,
    /// What the kubelet has really applied (in-place resize), where it says so.
    pub resources: Option<ResourceRequirements>,
    /// What it does at present, where that is told.
    pub state: Option<ContainerState>,
}

impl ContainerStatus {
    /// Whether it has started and, as far as anybody tells, not ended.
    pub fn runs(&self) -> bool {
        !self.container_id.is_empty() && self.state.as_ref().is_none_or(|state| state.running.is_some())
    }
}

/// What a container does: it runs, waits or has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Set while it runs.
    pub running: Option<Running>,
}

/// That a container runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {}
