//! NodeMetric (`slo.koordinator.sh/v1alpha1`), collection.md 9.1: field names and types of the API, for the definition.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::node_slo::Extensions;
use super::quantity::quantities;

/// What is reported of a node, collection.md 9.1.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slo.koordinator.sh",
    version = "v1alpha1",
    kind = "NodeMetric",
    plural = "nodemetrics",
    singular = "nodemetric",
    status = "NodeMetricStatus",
    derive = "PartialEq",
    doc = "NodeMetric is the resource use of the node that bears its name."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeMetricSpec {
    /// How it is collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_collect_policy: Option<MetricCollectPolicy>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// How use is collected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricCollectPolicy {
    /// Window of the averages, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_duration_seconds: Option<i64>,
    /// Time between two reports, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_interval_seconds: Option<i64>,
    /// Windows of the percentiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_aggregate_policy: Option<AggregatePolicy>,
    /// What counts as used memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_memory_collect_policy: Option<MemoryPolicy>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Windows of the percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatePolicy {
    /// Durations such as `5m0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durations: Option<Vec<String>>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// What counts as used memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum MemoryPolicy {
    /// All but page cache.
    UsageWithoutPageCache,
    /// And page cache that is in use.
    UsageWithHotPageCache,
    /// And all page cache.
    UsageWithPageCache,
}

/// The last report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeMetricStatus {
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Time>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_metric: Option<NodeUsages>,
    /// Each pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_metric: Option<Vec<PodUsage>>,
    /// Each host application.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_application_metric: Option<Vec<HostApplicationUsage>>,
    /// What prod pods are not expected to use of their requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prod_reclaimable_metric: Option<Predicted>,
    /// What prod pods are expected to use at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prod_peak_metric: Option<Predicted>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Use of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeUsages {
    /// Average of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_usage: Option<Usage>,
    /// Percentiles of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregated_node_usages: Option<Vec<Aggregated>>,
    /// Average of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_usage: Option<Usage>,
    /// Percentiles of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregated_system_usages: Option<Vec<Aggregated>>,
    /// Averages of each NUMA node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_usages: Option<Vec<NumaUsage>>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Use of resources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Amounts by resource name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantities")]
    pub resources: Option<BTreeMap<String, IntOrString>>,
    /// Each device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<DeviceUsage>>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Percentiles over one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aggregated {
    /// By `avg`, `p50`, `p90`, `p95`, `p99`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<BTreeMap<String, Usage>>,
    /// The window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<String>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Use of one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NumaUsage {
    /// Its number.
    #[serde(rename = "numaNodeID")]
    pub numa_node_id: i32,
    /// All of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_usage: Option<Usage>,
    /// What the system uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_usage: Option<Usage>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Use of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodUsage {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_usage: Option<Usage>,
    /// Priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// QoS class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// For third parties.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Extensions>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Use of a host application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostApplicationUsage {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// QoS class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// A prediction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Predicted {
    /// Amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Usage>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Use of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceUsage {
    /// Such as `gpu`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its properties.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Its UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<i32>,
    /// Its place.
    #[serde(rename = "moduleID", skip_serializing_if = "Option::is_none")]
    pub module_id: Option<i32>,
    /// Whether it works.
    #[schemars(extend("default" = false))]
    pub health: bool,
    /// Amounts by resource name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantities")]
    pub resources: Option<BTreeMap<String, IntOrString>>,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<DeviceTopology>,
    /// Its virtual functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vf_groups: Option<Vec<VirtualFunctionGroup>>,
    /// Its conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Where a device is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceTopology {
    /// CPU socket.
    #[serde(rename = "socketID")]
    pub socket_id: i32,
    /// NUMA node.
    #[serde(rename = "nodeID")]
    pub node_id: i32,
    /// PCIe switch.
    #[serde(rename = "pcieID")]
    pub pcie_id: String,
    /// Address on the bus.
    #[serde(rename = "busID", skip_serializing_if = "Option::is_none")]
    pub bus_id: Option<String>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Virtual functions of one sort.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualFunctionGroup {
    /// Their properties.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vfs: Option<Vec<VirtualFunction>>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// A virtual function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VirtualFunction {
    /// Its number.
    pub minor: i32,
    /// Address on the bus.
    #[serde(rename = "busID", skip_serializing_if = "Option::is_none")]
    pub bus_id: Option<String>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}
