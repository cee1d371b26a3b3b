//! The node's CPU normalization ratio: how many normalized CPUs one physical CPU is worth (hooks.md 9.1),
//! its rule state with change detection (9.2), and the division of a quota by it (9.4). Two plugins hold
//! one each: they differ only in what the very first parse reports.

use std::fmt;

use super::go_float;
use super::rule_set::RuleNotice;
use crate::api::keys::CPU_NORMALIZATION_RATIO;
use crate::api::node::Node;
use crate::units::{CfsQuota, MIN_QUOTA_US};

/// A finite ratio above 0. Only above 1 does it scale.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct NormalizationRatio(f64);

/// Why a text is not a ratio. The last good ratio stays in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RatioError {
    /// Not in Go's float syntax, infinite, or not a number.
    #[error("annotation {CPU_NORMALIZATION_RATIO}: {0:?} is not a finite number")]
    NotANumber(String),
    /// Zero or negative.
    #[error("annotation {CPU_NORMALIZATION_RATIO}: {0:?} is not above 0")]
    NotPositive(String),
}

impl NormalizationRatio {
    /// Reads the annotation's text, hooks.md 9.1. Infinities and not-a-number are refused (17, row 24).
    pub fn parse(text: &str) -> Result<Self, RatioError> {
        let shown = || text.chars().take(80).collect();
        match go_float::parse(text) {
            None => Err(RatioError::NotANumber(shown())),
            Some(ratio) if ratio <= 0.0 => Err(RatioError::NotPositive(shown())),
            Some(ratio) => Ok(Self(ratio)),
        }
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// `ceil(quota / ratio)` in doubles where the ratio is above 1, at least the kernel's 1000 us,
    /// hooks.md 9.4 and 9.5. An unlimited quota stays unlimited.
    #[expect(clippy::cast_possible_truncation, reason = "the quotient is below the quota, an i64")]
    pub fn scale(self, quota: CfsQuota) -> CfsQuota {
        match quota {
            CfsQuota::Micros(us) if self.0 > 1.0 => {
                CfsQuota::Micros(((us as f64 / self.0).ceil() as i64).max(MIN_QUOTA_US))
            }
            unscaled => unscaled,
        }
    }

    /// Whether the two are a hundredth or more apart. A step of exactly 0.01, such as 2.00 to 2.01, may come
    /// out of the subtraction a few units in the last place short, hence the margin (hooks.md 17, row 24).
    fn differs_from(self, other: Self) -> bool {
        const MARGIN: f64 = 1e-9;
        (self.0 - other.0).abs() >= 0.01 - MARGIN
    }
}

impl fmt::Display for NormalizationRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The ratio in force, hooks.md 9.2.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RatioRule {
    ratio: Option<NormalizationRatio>,
}

impl RatioRule {
    /// Takes the node's annotation (`None` when absent). Returns whether the rule changed; on an error the
    /// last good ratio stays.
    pub fn update(&mut self, annotation: Option<&str>) -> Result<bool, RatioError> {
        let new = annotation.map(NormalizationRatio::parse).transpose()?;
        let changed = match (self.ratio, new) {
            (Some(old), Some(new)) => new.differs_from(old),
            (old, new) => old.is_some() != new.is_some(),
        };
        if changed {
            self.ratio = new;
        }
        Ok(changed)
    }

    /// The ratio; `None` when the node has none.
    pub fn ratio(&self) -> Option<NormalizationRatio> {
        self.ratio
    }

    /// `quota` divided by the ratio, or as it is without one.
    pub fn scale(&self, quota: CfsQuota) -> CfsQuota {
        self.ratio.map_or(quota, |ratio| ratio.scale(quota))
    }
}

impl fmt::Display for RatioRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ratio {
            Some(ratio) => write!(f, "ratio {ratio}"),
            None => f.write_str("no ratio"),
        }
    }
}

/// The node's annotation.
pub(super) fn annotation(node: &Node) -> Option<&str> {
    node.metadata.annotations.get(CPU_NORMALIZATION_RATIO).map(String::as_str)
}

/// What became of a new annotation, for a rule that says `now`.
pub(super) fn notice(
    rule: &'static str,
    result: Result<bool, RatioError>,
    now: &impl fmt::Display,
) -> Option<RuleNotice> {
    match result {
        Ok(true) => Some(RuleNotice::Changed { rule, now: now.to_string() }),
        Ok(false) => None,
        Err(error) => Some(RuleNotice::Refused { rule, object: "node".to_owned(), error: error.into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(quota: i64, ratio: &str) -> i64 {
        NormalizationRatio::parse(ratio).unwrap().scale(CfsQuota::from_raw(quota)).raw()
    }

    #[test]
    fn quotas_are_divided_as_in_the_worked_examples() {
        for (quota, ratio, want) in [
            (200_000, "1.25", 160_000),
            (200_000, "1.2", 166_667),
            (100_000, "1.2", 83_334),
            (300_000, "1.5", 200_000),
            (50_000, "3.33", 15_016),
            (110_000, "1.1", 100_000),
            (115_000, "1.15", 100_001),
            (226_000, "1.13", 200_001),
            (1000, "1.2", 1000),
            (200_000, "1.00", 200_000),
            (200_000, "0.80", 200_000),
            (200_000, "1e300", 1000),
            (-1, "1.25", -1),
        ] {
            assert_eq!(scaled(quota, ratio), want, "{quota} at {ratio}");
        }
    }

    /// One run of annotations; `+` changed, `-` unchanged, `E` refused.
    fn marks(rule: &mut RatioRule, annotations: &[Option<&str>]) -> String {
        let mark = |text: Option<&str>| match rule.update(text) {
            Ok(true) => '+',
            Ok(false) => '-',
            Err(_) => 'E',
        };
        annotations.iter().copied().map(mark).collect()
    }

    #[test]
    fn changes_are_seen_from_a_hundredth_on() {
        let run = |annotations: &[Option<&str>]| marks(&mut RatioRule::default(), annotations);
        let long = [
            None,
            Some("1.00"),
            Some("1.00"),
            Some("1.20"),
            Some("1.205"),
            Some("1.21"),
            Some("abc"),
            Some("0"),
            Some("-1"),
            None,
        ];
        assert_eq!(run(&long), "-+-+-+EEE+");
        // The reference loses these steps in double arithmetic.
        assert_eq!(run(&[Some("1.12"), Some("1.13")]), "++");
        assert_eq!(run(&[Some("2.00"), Some("2.01")]), "++");
        assert_eq!(run(&[Some("NaN"), Some("Inf"), Some("-Inf")]), "EEE");
    }

    #[test]
    fn a_refused_text_keeps_the_last_good_ratio_and_names_the_annotation() {
        let mut rule = RatioRule::default();
        rule.update(Some("1.5")).unwrap();
        let error = rule.update(Some("fast")).unwrap_err();
        assert_eq!(rule.ratio().unwrap().to_string(), "1.5");
        assert_eq!(
            error.to_string(),
            "annotation node.koordinator.sh/cpu-normalization-ratio: \"fast\" is not a finite number"
        );
    }

    #[test]
    fn every_hundredth_step_of_the_managers_range_is_seen() {
        for hundredths in 100..500 {
            let text = |h: i32| format!("{}.{:02}", h / 100, h % 100);
            let mut rule = RatioRule::default();
            assert_eq!(marks(&mut rule, &[Some(&text(hundredths)), Some(&text(hundredths + 1))]), "++");
            assert_eq!(marks(&mut rule, &[Some(&text(hundredths))]), "+", "and back from {hundredths}");
        }
    }
}
