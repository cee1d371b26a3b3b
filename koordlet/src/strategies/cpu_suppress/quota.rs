//! The next CFS quota of the BE directory for an amount: steps, floor and small changes, qos.md 5.1.

use serde::{Deserialize, Serialize};

use super::amount::ceil_cores;
use crate::units::{CFS_PERIOD_US, CfsQuota, MilliCpu};

/// Least quota of the BE directory, in microseconds a period.
pub const FLOOR_US: i64 = 2_000;

/// A quota and how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaChoice {
    /// The quota to hold.
    pub quota: CfsQuota,
    /// The quota of the amount itself, at least the floor, in microseconds.
    pub target_us: i64,
    /// Why `quota` is what it is.
    pub step: QuotaStep,
}

/// How a quota was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuotaStep {
    /// The target itself.
    Target,
    /// The target is further up than one step of this many microseconds.
    Limited {
        /// A tenth of the node's CPU.
        step_us: i64,
    },
    /// The target is nearer than a hundredth of the node's CPU: the quota stays.
    Kept {
        /// That hundredth in microseconds.
        min_delta_us: i64,
    },
}

/// The smallest change worth a write: a hundredth of the node's CPU, in microseconds.
pub fn min_delta_us(capacity: MilliCpu) -> i64 {
    capacity_cores(capacity).saturating_mul(CFS_PERIOD_US / 100)
}

/// The target quota of an amount, in microseconds.
pub fn target_us(amount: MilliCpu) -> i64 {
    amount.0.saturating_mul(CFS_PERIOD_US / 1000).max(FLOOR_US)
}

/// The quota for an amount, qos.md 5.1: down at once, up by at most a tenth of the node, changes under a
/// hundredth left out. The floor is exempt from the last rule, and a present quota that is unlimited (or not
/// known, which a fresh directory's is) from the last two (Q4).
pub fn choose_quota(amount: MilliCpu, capacity: MilliCpu, present: Option<CfsQuota>) -> QuotaChoice {
    let target_us = target_us(amount);
    let choice = |us, step| QuotaChoice { quota: CfsQuota::Micros(us), target_us, step };
    let Some(present) = present.and_then(CfsQuota::micros) else {
        return choice(target_us, QuotaStep::Target);
    };
    let delta = target_us.saturating_sub(present);
    let min_delta_us = min_delta_us(capacity);
    let step_us = capacity_cores(capacity).saturating_mul(CFS_PERIOD_US / 10);
    if delta.saturating_abs() < min_delta_us && target_us != FLOOR_US {
        choice(present, QuotaStep::Kept { min_delta_us })
    } else if delta > step_us {
        choice(present.saturating_add(step_us), QuotaStep::Limited { step_us })
    } else {
        choice(target_us, QuotaStep::Target)
    }
}

/// Whole cores, rounded up.
fn capacity_cores(capacity: MilliCpu) -> i64 {
    i64::try_from(ceil_cores(capacity)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn next(amount: i64, cores: i64, present: i64) -> i64 {
        choose_quota(MilliCpu(amount), MilliCpu(cores * 1000), Some(CfsQuota::from_raw(present))).quota.raw()
    }

    #[test]
    fn w4_steps_of_sixteen_cores() {
        for (amount, present, want) in [
            (4500, -1, 450_000),
            (4500, 200_000, 360_000),
            (4500, 445_000, 445_000),
            (4500, 900_000, 450_000),
            (-200, 450_000, 2_000),
            (100, -1, 10_000), // Q4
            (160, -1, 16_000),
        ] {
            assert_eq!(next(amount, 16, present), want, "{amount} {present}");
        }
    }

    #[test]
    fn c002_no_step_limit_from_unlimited() {
        assert_eq!(next(50_000, 100, -1), 5_000_000);
    }

    #[test]
    fn c111_slow_growth_small_changes_and_fast_shrink() {
        assert_eq!(next(9000, 16, 200_000), 360_000);
        assert_eq!(next(4900, 16, 480_000), 480_000);
        assert_eq!(next(2000, 16, 900_000), 200_000);
    }

    #[test]
    fn h01_a_small_target_limits_an_unlimited_group() {
        assert_eq!(next(500, 64, -1), 50_000);
    }

    #[test]
    fn an_unknown_present_quota_is_taken_as_unlimited() {
        let choice = choose_quota(MilliCpu(500), MilliCpu(64_000), None);
        assert_eq!((choice.quota, choice.step), (CfsQuota::Micros(50_000), QuotaStep::Target));
    }

    proptest! {
        #[test]
        fn growth_is_limited_shrinking_is_not_and_a_repeat_changes_nothing(
            amount in -100_000i64..200_000,
            cores in 0i64..200,
            present in 0i64..20_000_000,
        ) {
            let quota = next(amount, cores, present);
            prop_assert!(quota >= FLOOR_US || quota == present);
            prop_assert!(quota - present <= cores * 10_000);
            let target = target_us(MilliCpu(amount));
            if target + cores * 1_000 <= present {
                prop_assert_eq!(quota, target);
            }
            if quota == target || quota == present {
                prop_assert_eq!(next(amount, cores, quota), quota);
            }
        }

        #[test]
        fn nothing_overflows(amount: i64, capacity: i64, present: i64) {
            choose_quota(MilliCpu(amount), MilliCpu(capacity), Some(CfsQuota::from_raw(present)));
        }
    }
}
