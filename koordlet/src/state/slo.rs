//! The policy in force: NodeSLO laid over the defaults (by `merge`), last good value of each strategy kept.

pub mod burst;
pub mod config_map;
pub mod extensions;
mod fields;
mod host_applications;
pub mod merge;
mod overlay;
pub mod qos;
mod selector;
pub mod system;
pub mod thresholds;

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::api::node_slo::{HostApplication, NodeSloSpec};
use crate::units::Percent;

use burst::CpuBurst;
use extensions::Extensions;
use qos::QosStrategy;
use system::SystemStrategy;
use thresholds::EvictThresholds;

pub use fields::SloNotice;
pub use merge::SloMerger;

/// How suppression limits BE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SuppressPolicy {
    /// By `cpuset.cpus`; also what an unknown text means.
    #[default]
    Cpuset,
    /// By the BE directory's CFS quota.
    CfsQuota,
}

/// `resourceUsedThresholdWithBE` as far as CPU suppression uses it, qos.md 1.1, defaults applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuSuppressPolicy {
    /// Master switch; default false.
    pub enable: bool,
    /// Node CPU share that LS, BE and system may use together; default 65.
    #[serde(rename = "cpuSuppressThresholdPercent")]
    pub threshold: Percent,
    /// Floor of the BE amount as percent of capacity.
    #[serde(rename = "cpuSuppressMinPercent", skip_serializing_if = "Option::is_none")]
    pub min: Option<Percent>,
    /// How BE is limited; default `cpuset`.
    #[serde(rename = "cpuSuppressPolicy")]
    pub policy: SuppressPolicy,
}

impl Default for CpuSuppressPolicy {
    fn default() -> Self {
        Self { enable: false, threshold: Percent(65), min: None, policy: SuppressPolicy::Cpuset }
    }
}

impl fmt::Display for SuppressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpuset => "cpuset",
            Self::CfsQuota => "cfsQuota",
        })
    }
}

impl fmt::Display for CpuSuppressPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { enable, threshold, min, policy } = self;
        write!(f, "enable {enable}, threshold {threshold} %, policy {policy}")?;
        min.map_or(Ok(()), |min| write!(f, ", min {min} %"))
    }
}

/// The policy in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slo {
    /// Whether a NodeSLO was ever seen, or its source said that there is none.
    pub synced: bool,
    /// CPU suppression.
    pub suppress: CpuSuppressPolicy,
    /// Eviction of BE.
    pub evict: EvictThresholds,
    /// QoS of the classes.
    pub qos: QosStrategy,
    /// CPU burst.
    pub burst: CpuBurst,
    /// Kernel settings of the node.
    pub system: SystemStrategy,
    /// Host applications.
    pub host_applications: Vec<HostApplication>,
    /// Parts that are built in beside the stock ones.
    pub extensions: Extensions,
    /// The spec as last seen, unchecked.
    pub spec: Arc<NodeSloSpec>,
}
