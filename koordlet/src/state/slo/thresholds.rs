//! `resourceUsedThresholdWithBE`, qos.md 1.1: when best-effort work is held down, and when it is evicted.

use serde::Serialize;
use serde_json::Value;

use super::fields::{Faults, Fields};
use super::{CpuSuppressPolicy, SuppressPolicy};
use crate::units::Percent;

/// Path of the section.
pub(super) const THRESHOLDS: &str = "spec.resourceUsedThresholdWithBE";

/// Which limit of BE the satisfaction ratio is taken of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum CpuEvictPolicy {
    /// What BE may really use; also what an unknown text means.
    #[default]
    #[serde(rename = "evictByRealLimit")]
    RealLimit,
    /// The node's allocatable batch CPU.
    #[serde(rename = "evictByAllocatable")]
    Allocatable,
}

/// The eviction thresholds. Where a field is absent its consumer has a default or does without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EvictThresholds {
    /// Master switch, the same as of CPU suppression; default false.
    pub enable: bool,
    /// Use of memory that starts eviction; default 70.
    #[serde(rename = "memoryEvictThresholdPercent")]
    pub memory: Percent,
    /// Use of memory that it ends at.
    #[serde(rename = "memoryEvictLowerPercent", skip_serializing_if = "Option::is_none")]
    pub memory_lower: Option<Percent>,
    /// Memory asked for, of what is allocatable, that starts eviction; may be above 100.
    #[serde(rename = "memoryAllocatableEvictThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub memory_allocatable: Option<Percent>,
    /// The same that it ends at.
    #[serde(rename = "memoryAllocatableEvictLowerPercent", skip_serializing_if = "Option::is_none")]
    pub memory_allocatable_lower: Option<Percent>,
    /// CPU that BE can have, of what it asks for, at or under which eviction starts. Any number: checked at use.
    #[serde(rename = "cpuEvictBESatisfactionLowerPercent", skip_serializing_if = "Option::is_none")]
    pub be_satisfaction_lower: Option<Percent>,
    /// The same that it ends at. Any number.
    #[serde(rename = "cpuEvictBESatisfactionUpperPercent", skip_serializing_if = "Option::is_none")]
    pub be_satisfaction_upper: Option<Percent>,
    /// CPU that BE uses, of its limit, without which it is not evicted. Any number.
    #[serde(rename = "cpuEvictBEUsageThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub be_usage: Option<Percent>,
    /// Seconds that CPU use is averaged over. Any number.
    #[serde(rename = "cpuEvictTimeWindowSeconds", skip_serializing_if = "Option::is_none")]
    pub cpu_window_seconds: Option<i64>,
    /// Use of CPU that starts eviction.
    #[serde(rename = "cpuEvictThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Percent>,
    /// Use of CPU that it ends at.
    #[serde(rename = "cpuEvictLowerPercent", skip_serializing_if = "Option::is_none")]
    pub cpu_lower: Option<Percent>,
    /// CPU asked for, of what is allocatable, that starts eviction; may be above 100.
    #[serde(rename = "cpuAllocatableEvictThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub cpu_allocatable: Option<Percent>,
    /// The same that it ends at.
    #[serde(rename = "cpuAllocatableEvictLowerPercent", skip_serializing_if = "Option::is_none")]
    pub cpu_allocatable_lower: Option<Percent>,
    /// Limit in the satisfaction ratio; default the real one.
    #[serde(rename = "cpuEvictPolicy")]
    pub cpu_policy: CpuEvictPolicy,
    /// Highest priority that eviction by use may hit. Any number.
    #[serde(rename = "evictEnabledPriorityThreshold", skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<i32>,
    /// Highest priority that eviction by what is allocatable may hit. Any number.
    #[serde(rename = "allocatableEvictPriorityThreshold", skip_serializing_if = "Option::is_none")]
    pub max_priority_allocatable: Option<i32>,
}

impl Default for EvictThresholds {
    fn default() -> Self {
        read(None, &mut Faults::default()).1
    }
}

/// The section over its defaults.
pub(super) fn read(section: Option<&Value>, faults: &mut Faults) -> (CpuSuppressPolicy, EvictThresholds) {
    Fields::read(THRESHOLDS.to_owned(), section, faults, |fields| {
        let default = CpuSuppressPolicy::default();
        let suppress = CpuSuppressPolicy {
            enable: fields.boolean("enable").unwrap_or(default.enable),
            threshold: fields.percent("cpuSuppressThresholdPercent").unwrap_or(default.threshold),
            min: fields.percent("cpuSuppressMinPercent").or(default.min),
            policy: fields
                .word_or_first(
                    "cpuSuppressPolicy",
                    &[("cpuset", SuppressPolicy::Cpuset), ("cfsQuota", SuppressPolicy::CfsQuota)],
                )
                .unwrap_or(default.policy),
        };
        let evict = read_evict(suppress.enable, fields);
        (suppress, evict)
    })
}

fn read_evict(enable: bool, fields: &mut Fields<'_, '_>) -> EvictThresholds {
    let policies = [
        ("evictByRealLimit", CpuEvictPolicy::RealLimit),
        ("evictByAllocatable", CpuEvictPolicy::Allocatable),
    ];
    EvictThresholds {
        enable,
        memory: fields.percent("memoryEvictThresholdPercent").unwrap_or(Percent(70)),
        memory_lower: fields.percent("memoryEvictLowerPercent"),
        memory_allocatable: fields.large_percent("memoryAllocatableEvictThresholdPercent"),
        memory_allocatable_lower: fields.large_percent("memoryAllocatableEvictLowerPercent"),
        be_satisfaction_lower: fields.any_whole("cpuEvictBESatisfactionLowerPercent").map(Percent),
        be_satisfaction_upper: fields.any_whole("cpuEvictBESatisfactionUpperPercent").map(Percent),
        be_usage: fields.any_whole("cpuEvictBEUsageThresholdPercent").map(Percent),
        cpu_window_seconds: fields.any_whole("cpuEvictTimeWindowSeconds"),
        cpu: fields.percent("cpuEvictThresholdPercent"),
        cpu_lower: fields.percent("cpuEvictLowerPercent"),
        cpu_allocatable: fields.large_percent("cpuAllocatableEvictThresholdPercent"),
        cpu_allocatable_lower: fields.large_percent("cpuAllocatableEvictLowerPercent"),
        cpu_policy: fields.word_or_first("cpuEvictPolicy", &policies).unwrap_or_default(),
        max_priority: priority(fields, "evictEnabledPriorityThreshold"),
        max_priority_allocatable: priority(fields, "allocatableEvictPriorityThreshold"),
    }
}

fn priority(fields: &mut Fields<'_, '_>, name: &'static str) -> Option<i32> {
    let range = i64::from(i32::MIN)..=i64::from(i32::MAX);
    fields.whole(name, range).and_then(|number| i32::try_from(number).ok())
}
