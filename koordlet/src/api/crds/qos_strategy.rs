//! `resourceQOSStrategy` of a NodeSLO, qos.md 1.2: field names, types and ranges of the API, for the definition.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::quantity::{limit, request};

/// QoS of the classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QosStrategy {
    /// Which mechanisms drive it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<QosPolicies>,
    /// LSR and LSE pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsr_class: Option<ResourceQos>,
    /// LS pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ls_class: Option<ResourceQos>,
    /// BE pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub be_class: Option<ResourceQos>,
    /// SYSTEM pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_class: Option<ResourceQos>,
    /// The root cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_root: Option<ResourceQos>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Which mechanisms drive QoS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QosPolicies {
    /// `groupIdentity` or `coreSched`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_policy: Option<String>,
    /// `tc` or `terway-qos`.
    #[serde(rename = "netQOSPolicy", skip_serializing_if = "Option::is_none")]
    pub net_qos_policy: Option<String>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// QoS of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQos {
    /// CPU.
    #[serde(rename = "cpuQOS", skip_serializing_if = "Option::is_none")]
    pub cpu_qos: Option<CpuQos>,
    /// Memory.
    #[serde(rename = "memoryQOS", skip_serializing_if = "Option::is_none")]
    pub memory_qos: Option<MemoryQos>,
    /// Disks.
    #[serde(rename = "blkioQOS", skip_serializing_if = "Option::is_none")]
    pub blkio_qos: Option<BlkioQos>,
    /// Cache and memory bandwidth.
    #[serde(rename = "resctrlQOS", skip_serializing_if = "Option::is_none")]
    pub resctrl_qos: Option<ResctrlQos>,
    /// Network.
    #[serde(rename = "networkQOS", skip_serializing_if = "Option::is_none")]
    pub network_qos: Option<NetworkQos>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// CPU of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CpuQos {
    /// Whether the rest counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// `cpu.bvt_warp_ns`, -1 to 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_identity: Option<i64>,
    /// `cpu.idle`, 0 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sched_idle: Option<i64>,
    /// Whether it keeps others off its core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_expeller: Option<bool>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Memory of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryQos {
    /// Whether the rest counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// `memory.min` in percent of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_limit_percent: Option<i64>,
    /// `memory.low` in percent of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub low_limit_percent: Option<i64>,
    /// `memory.high` in percent of the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub throttling_percent: Option<i64>,
    /// `memory.wmark_ratio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub wmark_ratio: Option<i64>,
    /// `memory.wmark_scale_factor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub wmark_scale_permill: Option<i64>,
    /// `memory.wmark_min_adj`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -25, max = 50))]
    pub wmark_min_adj: Option<i64>,
    /// `memory.use_priority_oom`, 0 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_enable: Option<i64>,
    /// `memory.priority`, 0 to 12.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// `memory.oom.group`, 0 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kill_group: Option<i64>,
    /// Whether page cache is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_enable: Option<bool>,
    /// Page cache in percent of the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub page_cache_limit_percent: Option<i64>,
    /// Page cache in bytes; wins over the percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_limit_size: Option<i64>,
    /// Whether page cache is reclaimed at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_reclaim_sync: Option<bool>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Cache and memory bandwidth of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.catRangeStartPercent) || !has(self.catRangeEndPercent) || self.catRangeStartPercent < self.catRangeEndPercent", "message": "catRangeStartPercent must be below catRangeEndPercent"},
]))]
pub struct ResctrlQos {
    /// Whether the rest counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Start of its part of the last-level cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cat_range_start_percent: Option<i64>,
    /// End of its part of the last-level cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub cat_range_end_percent: Option<i64>,
    /// Share of the memory bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub mba_percent: Option<i64>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Disks of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlkioQos {
    /// Whether the rest counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Each disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<BlockCfg>>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// One disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockCfg {
    /// Device, volume group or volume of a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `device`, `volumegroup` or `podvolume`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_cfg: Option<IoCfg>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Limits of one disk; those after the weight are for the root cgroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IoCfg {
    /// Reads a second; 0 is no limit.
    #[serde(rename = "readIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub read_iops: Option<i64>,
    /// Writes a second; 0 is no limit.
    #[serde(rename = "writeIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub write_iops: Option<i64>,
    /// Bytes read a second; 0 is no limit.
    #[serde(rename = "readBPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub read_bps: Option<i64>,
    /// Bytes written a second; 0 is no limit.
    #[serde(rename = "writeBPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub write_bps: Option<i64>,
    /// Weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub io_weight_percent: Option<i64>,
    /// Wanted latency of reads, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_latency: Option<i64>,
    /// Wanted latency of writes, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_latency: Option<i64>,
    /// Reads that must meet it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub read_latency_percent: Option<i64>,
    /// Writes that must meet it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub write_latency_percent: Option<i64>,
    /// Whether the model below counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_user_model: Option<bool>,
    /// Bytes read a second.
    #[serde(rename = "modelReadBPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_read_bps: Option<i64>,
    /// Bytes written a second.
    #[serde(rename = "modelWriteBPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_write_bps: Option<i64>,
    /// Sequential reads a second.
    #[serde(rename = "modelReadSeqIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_read_seq_iops: Option<i64>,
    /// Sequential writes a second.
    #[serde(rename = "modelWriteSeqIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_write_seq_iops: Option<i64>,
    /// Random reads a second.
    #[serde(rename = "modelReadRandIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_read_rand_iops: Option<i64>,
    /// Random writes a second.
    #[serde(rename = "modelWriteRandIOPS", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub model_write_rand_iops: Option<i64>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}

/// Network of one class: whole numbers are percent of the bandwidth, texts are quantities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQos {
    /// Whether the rest counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// Bandwidth in that is kept for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "request")]
    pub ingress_request: Option<IntOrString>,
    /// Bandwidth in that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "limit")]
    pub ingress_limit: Option<IntOrString>,
    /// Bandwidth out that is kept for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "request")]
    pub egress_request: Option<IntOrString>,
    /// Bandwidth out that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "limit")]
    pub egress_limit: Option<IntOrString>,
    /// Fields that this version does not know; they survive.
    #[serde(flatten)]
    pub unknown: BTreeMap<String, Value>,
}
