//! `memoryQOS`, qos.md 1.2: protection, throttling, watermarks, order of killing, page cache.

use serde::Serialize;

use super::{PerClass, Section, is_neutralised};
use crate::api::qos::QosClass;
use crate::state::slo::fields::{Faults, Fields};
use crate::units::{Bytes, Percent};

/// `memoryQOS` of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryQos {
    /// Switch; default false.
    pub enable: bool,
    /// `memory.min` in percent of the request; may be above 100.
    #[serde(rename = "minLimitPercent")]
    pub min_limit: Percent,
    /// `memory.low` likewise.
    #[serde(rename = "lowLimitPercent")]
    pub low_limit: Percent,
    /// `memory.high` in percent of the limit; 0 throttles nothing; may be above 100.
    #[serde(rename = "throttlingPercent")]
    pub throttling: Percent,
    /// `memory.wmark_ratio`, 0 to 100.
    pub wmark_ratio: Percent,
    /// `memory.wmark_scale_factor` in thousandths, 1 to 1000.
    pub wmark_scale_permill: i64,
    /// `memory.wmark_min_adj`, -25 to 50.
    pub wmark_min_adj: i64,
    /// `memory.use_priority_oom`. Any number: checked at use.
    pub priority_enable: i64,
    /// `memory.priority`. Any number: checked at use.
    pub priority: i64,
    /// `memory.oom.group`. Any number: checked at use.
    pub oom_kill_group: i64,
    /// Whether page cache is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_enable: Option<bool>,
    /// That limit in percent of the memory limit.
    #[serde(rename = "pageCacheLimitPercent", skip_serializing_if = "Option::is_none")]
    pub page_cache_limit: Option<Percent>,
    /// That limit in bytes; wins over the percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_limit_size: Option<Bytes>,
    /// Whether it is reclaimed by whoever exceeds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache_reclaim_sync: Option<bool>,
}

impl MemoryQos {
    /// What a class that is switched off gets, so that its files are reset.
    pub const NEUTRAL: Self = Self {
        enable: false,
        min_limit: Percent(0),
        low_limit: Percent(0),
        throttling: Percent(0),
        wmark_ratio: Percent(0),
        wmark_scale_permill: 50,
        wmark_min_adj: 0,
        priority_enable: 0,
        priority: 0,
        oom_kill_group: 0,
        page_cache_enable: None,
        page_cache_limit: None,
        page_cache_limit_size: None,
        page_cache_reclaim_sync: None,
    };

    fn default_of(class: QosClass) -> Self {
        let (ratio, wmark_scale_permill, wmark_min_adj) = match class {
            QosClass::Lse | QosClass::Lsr | QosClass::Ls => (95, 20, -25),
            QosClass::Be => (95, 20, 50),
            QosClass::System => (0, 50, 0),
        };
        Self { wmark_ratio: Percent(ratio), wmark_scale_permill, wmark_min_adj, ..Self::NEUTRAL }
    }

    pub(super) fn read_all(section: Section<'_>, faults: &mut Faults) -> PerClass<Self> {
        section.read_all("memoryQOS", faults, Self::read)
    }

    fn read(class: QosClass, fields: &mut Fields<'_, '_>) -> Self {
        let default = Self::default_of(class);
        let read = Self {
            enable: fields.boolean("enable").unwrap_or(default.enable),
            min_limit: fields.large_percent("minLimitPercent").unwrap_or(default.min_limit),
            low_limit: fields.large_percent("lowLimitPercent").unwrap_or(default.low_limit),
            throttling: fields.large_percent("throttlingPercent").unwrap_or(default.throttling),
            wmark_ratio: fields.percent("wmarkRatio").unwrap_or(default.wmark_ratio),
            wmark_scale_permill: fields
                .whole("wmarkScalePermill", 1..=1000)
                .unwrap_or(default.wmark_scale_permill),
            wmark_min_adj: fields.whole("wmarkMinAdj", -25..=50).unwrap_or(default.wmark_min_adj),
            priority_enable: fields.any_whole("priorityEnable").unwrap_or(default.priority_enable),
            priority: fields.any_whole("priority").unwrap_or(default.priority),
            oom_kill_group: fields.any_whole("oomKillGroup").unwrap_or(default.oom_kill_group),
            page_cache_enable: fields.boolean("pageCacheEnable"),
            page_cache_limit: fields.percent("pageCacheLimitPercent"),
            page_cache_limit_size: fields.unsigned("pageCacheLimitSize", 0).map(Bytes),
            page_cache_reclaim_sync: fields.boolean("pageCacheReclaimSync"),
        };
        if read.enable || !is_neutralised(class) { read } else { Self::NEUTRAL }
    }
}
