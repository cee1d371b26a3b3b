//! `cpuBurstStrategy`, qos.md 1.3: how far a container may go above its CPU limit for a while.

use serde::Serialize;
use serde_json::Value;

use super::fields::{Faults, Fields};
use crate::units::Percent;

const SECTION: &str = "spec.cpuBurstStrategy";

/// What bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BurstPolicy {
    /// Nothing.
    #[default]
    None,
    /// A budget that the kernel keeps.
    CpuBurstOnly,
    /// The quota, raised while a container is throttled.
    CfsQuotaBurstOnly,
    /// Both.
    Auto,
}

/// Policies by their words.
const POLICIES: [(&str, BurstPolicy); 4] = [
    ("none", BurstPolicy::None),
    ("cpuBurstOnly", BurstPolicy::CpuBurstOnly),
    ("cfsQuotaBurstOnly", BurstPolicy::CfsQuotaBurstOnly),
    ("auto", BurstPolicy::Auto),
];

impl BurstPolicy {
    /// The policy of that word; any other word lets nothing burst (qos.md 5.4).
    pub fn of_word(word: &str) -> Self {
        POLICIES.iter().find(|(name, _)| *name == word).map_or(Self::None, |(_, policy)| *policy)
    }

    /// Whether the kernel keeps a budget.
    pub fn has_budget(self) -> bool {
        matches!(self, Self::CpuBurstOnly | Self::Auto)
    }

    /// Whether the quota is raised.
    pub fn raises_quota(self) -> bool {
        matches!(self, Self::CfsQuotaBurstOnly | Self::Auto)
    }
}

/// The section, defaults applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuBurst {
    /// What bursts; default nothing.
    pub policy: BurstPolicy,
    /// Budget of the kernel in percent of the CPU limit, 0 to 10000; default 1000.
    #[serde(rename = "cpuBurstPercent")]
    pub cpu_burst: Percent,
    /// Highest quota in percent of the base one; default 300. Any number: checked at use.
    #[serde(rename = "cfsQuotaBurstPercent")]
    pub cfs_quota_burst: Percent,
    /// Seconds that a container may stay at the highest quota; default -1, for ever. Any number.
    pub cfs_quota_burst_period_seconds: i64,
    /// Use of the CPUs that pods share above which quotas are lowered again; default 50. Any number.
    #[serde(rename = "sharePoolThresholdPercent")]
    pub share_pool_threshold: Percent,
}

impl Default for CpuBurst {
    fn default() -> Self {
        Self {
            policy: BurstPolicy::None,
            cpu_burst: Percent(1000),
            cfs_quota_burst: Percent(300),
            cfs_quota_burst_period_seconds: -1,
            share_pool_threshold: Percent(50),
        }
    }
}

impl CpuBurst {
    /// The section over its defaults.
    pub(super) fn read(section: Option<&Value>, faults: &mut Faults) -> Self {
        let default = Self::default();
        Fields::read(SECTION.to_owned(), section, faults, |fields| {
            let mut percent = |name, default| fields.any_whole(name).map_or(default, Percent);
            let cfs_quota_burst = percent("cfsQuotaBurstPercent", default.cfs_quota_burst);
            let share_pool_threshold = percent("sharePoolThresholdPercent", default.share_pool_threshold);
            Self {
                policy: fields.word("policy", &POLICIES).unwrap_or(default.policy),
                cpu_burst: fields.whole("cpuBurstPercent", 0..=10_000).map_or(default.cpu_burst, Percent),
                cfs_quota_burst,
                cfs_quota_burst_period_seconds: fields
                    .any_whole("cfsQuotaBurstPeriodSeconds")
                    .unwrap_or(default.cfs_quota_burst_period_seconds),
                share_pool_threshold,
            }
        })
    }
}
