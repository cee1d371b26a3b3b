//! `resctrlQOS`, qos.md 1.2: the part of the last-level cache and of memory bandwidth that a class may use.

use serde::Serialize;

use super::{PerClass, Section, is_neutralised};
use crate::api::qos::QosClass;
use crate::state::slo::fields::{Faults, Fields};
use crate::units::Percent;

/// `resctrlQOS` of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResctrlQos {
    /// Switch; default false.
    pub enable: bool,
    /// Where its ways of the cache begin. Not checked against their end.
    #[serde(rename = "catRangeStartPercent")]
    pub cat_range_start: Percent,
    /// Where they end.
    #[serde(rename = "catRangeEndPercent")]
    pub cat_range_end: Percent,
    /// Memory bandwidth.
    #[serde(rename = "mbaPercent")]
    pub mba: Percent,
}

impl ResctrlQos {
    /// All of it: what a class that is switched off gets.
    pub const NEUTRAL: Self =
        Self { enable: false, cat_range_start: Percent(0), cat_range_end: Percent(100), mba: Percent(100) };

    pub(super) fn read_all(section: Section<'_>, faults: &mut Faults) -> PerClass<Self> {
        section.read_all("resctrlQOS", faults, Self::read)
    }

    fn read(class: QosClass, fields: &mut Fields<'_, '_>) -> Self {
        let end = if class == QosClass::Be { Percent(30) } else { Percent(100) };
        let default = Self { cat_range_end: end, ..Self::NEUTRAL };
        let read = Self {
            enable: fields.boolean("enable").unwrap_or(default.enable),
            cat_range_start: fields.percent("catRangeStartPercent").unwrap_or(default.cat_range_start),
            cat_range_end: fields.percent("catRangeEndPercent").unwrap_or(default.cat_range_end),
            mba: fields.percent("mbaPercent").unwrap_or(default.mba),
        };
        if read.enable || !is_neutralised(class) { read } else { Self::NEUTRAL }
    }
}
