//! NodeSLO (`slo.koordinator.sh/v1alpha1`), qos.md 1: field names, types and ranges of the API, for the definition.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::qos_strategy::QosStrategy;
use super::quantity::quantity;

/// The policy of a node, qos.md 1.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "slo.koordinator.sh",
    version = "v1alpha1",
    kind = "NodeSLO",
    root = "NodeSlo",
    plural = "nodeslos",
    singular = "nodeslo",
    status = "NodeSloStatus",
    derive = "PartialEq",
    doc = "NodeSLO is the QoS policy of the node that bears its name."
)]
#[serde(rename_all = "camelCase")]
pub struct NodeSloSpec {
    /// Suppression and eviction.
    #[serde(rename = "resourceUsedThresholdWithBE", skip_serializing_if = "Option::is_none")]
    pub resource_used_threshold_with_be: Option<ThresholdStrategy>,
    /// QoS of the classes.
    #[serde(rename = "resourceQOSStrategy", skip_serializing_if = "Option::is_none")]
    pub resource_qos_strategy: Option<QosStrategy>,
    /// CPU burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_burst_strategy: Option<CpuBurstStrategy>,
    /// Kernel settings of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_strategy: Option<SystemStrategy>,
    /// Applications outside Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_applications: Option<Vec<HostApplication>>,
    /// For third parties.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Extensions>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Anything, for third parties, qos.md 1.6.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Extensions {
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Nothing is reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSloStatus {}

/// When best effort gives way, qos.md 1.1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.memoryEvictLowerPercent) || !has(self.memoryEvictThresholdPercent) || self.memoryEvictLowerPercent < self.memoryEvictThresholdPercent", "message": "memoryEvictLowerPercent must be below memoryEvictThresholdPercent"},
    {"rule": "!has(self.memoryAllocatableEvictLowerPercent) || !has(self.memoryAllocatableEvictThresholdPercent) || self.memoryAllocatableEvictLowerPercent < self.memoryAllocatableEvictThresholdPercent", "message": "memoryAllocatableEvictLowerPercent must be below memoryAllocatableEvictThresholdPercent"},
    {"rule": "!has(self.cpuEvictLowerPercent) || !has(self.cpuEvictThresholdPercent) || self.cpuEvictLowerPercent < self.cpuEvictThresholdPercent", "message": "cpuEvictLowerPercent must be below cpuEvictThresholdPercent"},
    {"rule": "!has(self.cpuAllocatableEvictLowerPercent) || !has(self.cpuAllocatableEvictThresholdPercent) || self.cpuAllocatableEvictLowerPercent < self.cpuAllocatableEvictThresholdPercent", "message": "cpuAllocatableEvictLowerPercent must be below cpuAllocatableEvictThresholdPercent"},
    {"rule": "!has(self.cpuEvictBESatisfactionLowerPercent) || !has(self.cpuEvictBESatisfactionUpperPercent) || self.cpuEvictBESatisfactionLowerPercent < self.cpuEvictBESatisfactionUpperPercent", "message": "cpuEvictBESatisfactionLowerPercent must be below cpuEvictBESatisfactionUpperPercent"},
]))]
pub struct ThresholdStrategy {
    /// Master switch of suppression and all eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Share of the CPUs that all together may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_suppress_threshold_percent: Option<i64>,
    /// What best effort keeps at least, of all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_suppress_min_percent: Option<i64>,
    /// `cpuset` or `cfsQuota`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_suppress_policy: Option<String>,
    /// Memory use that starts eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub memory_evict_threshold_percent: Option<i64>,
    /// Memory use at which eviction ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub memory_evict_lower_percent: Option<i64>,
    /// Requests over allocatable memory that start eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_allocatable_evict_threshold_percent: Option<i64>,
    /// Requests over allocatable memory at which eviction ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub memory_allocatable_evict_lower_percent: Option<i64>,
    /// Satisfaction of best effort at which eviction starts.
    #[serde(rename = "cpuEvictBESatisfactionLowerPercent", skip_serializing_if = "Option::is_none")]
    pub cpu_evict_be_satisfaction_lower_percent: Option<i64>,
    /// Satisfaction of best effort at which eviction ends.
    #[serde(rename = "cpuEvictBESatisfactionUpperPercent", skip_serializing_if = "Option::is_none")]
    pub cpu_evict_be_satisfaction_upper_percent: Option<i64>,
    /// Use of its limit that best effort must show before eviction.
    #[serde(rename = "cpuEvictBEUsageThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub cpu_evict_be_usage_threshold_percent: Option<i64>,
    /// Window of the CPU figures, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_evict_time_window_seconds: Option<i64>,
    /// CPU use that starts eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_evict_threshold_percent: Option<i64>,
    /// CPU use at which eviction ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_evict_lower_percent: Option<i64>,
    /// Requests over allocatable CPU that start eviction.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cpu_allocatable_evict_threshold_percent: Option<i64>,
    /// Requests over allocatable CPU at which eviction ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cpu_allocatable_evict_lower_percent: Option<i64>,
    /// `evictByRealLimit` or `evictByAllocatable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_evict_policy: Option<String>,
    /// Highest priority that may be evicted for use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evict_enabled_priority_threshold: Option<i32>,
    /// Highest priority that may be evicted for requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocatable_evict_priority_threshold: Option<i32>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// CPU burst, qos.md 1.3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuBurstStrategy {
    /// `none`, `cpuBurstOnly`, `cfsQuotaBurstOnly` or `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Burst budget in percent of the CPU limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10000))]
    pub cpu_burst_percent: Option<i64>,
    /// Highest quota in percent of the base quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfs_quota_burst_percent: Option<i64>,
    /// How long a container may be at its highest quota; -1 is for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cfs_quota_burst_period_seconds: Option<i64>,
    /// Use of the shared CPUs above which quotas shrink again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_pool_threshold_percent: Option<i64>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Kernel settings of the node, qos.md 1.4.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemStrategy {
    /// `min_free_kbytes`, in ten-thousandths of the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_free_kbytes_factor: Option<i64>,
    /// `watermark_scale_factor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark_scale_factor: Option<i64>,
    /// Whether dead memory cgroups are reaped in the background, 0 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memcg_reap_back_ground: Option<i64>,
    /// `sched_group_identity_enabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_group_identity_enabled: Option<i64>,
    /// `sched_idle_saver_wmark`, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_idle_saver_wmark: Option<i64>,
    /// Scheduler features, on or off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_features: Option<BTreeMap<String, bool>>,
    /// Whether page cache limits work, 0 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_limit_enabled: Option<i64>,
    /// Bandwidth of the node, a quantity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "quantity")]
    pub total_network_bandwidth: Option<IntOrString>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// An application outside Kubernetes, qos.md 1.5.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostApplication {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Priority class, `koord-*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// QoS class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos: Option<String>,
    /// Where its cgroup is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_path: Option<HostCgroupPath>,
    /// Settings of its own; none so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<HostStrategy>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Where a host application's cgroup is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostCgroupPath {
    /// `CgroupRoot`, `Kubepods`, `KubepodsBurstable` or `KubepodsBesteffort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Directory beneath the base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_dir: Option<String>,
    /// Directory beneath the parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_path: Option<String>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Settings of a host application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostStrategy {
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}
