//! Quotas whose periods are other ones than 100 ms: others choose the period, and a quota is a whole number of
//! microseconds of it. Rounded up, which nobody minds elsewhere, it may be a microsecond too much for a kernel that
//! refuses a child's share of the CPU above its parent's.

use super::super::diff::Period;
use super::Engine;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::{Value, quota_for_period, quota_per_100ms};
use crate::claims::plan::Decision;
use crate::claims::target::CgroupTarget;
use crate::units::{CFS_PERIOD_US, CfsQuota, MIN_QUOTA_US};

impl Engine {
    /// The wish for a quota, or as much less as makes its text fit into what the directories above have. Other wishes
    /// have no period.
    pub(super) fn fitted(&mut self, dir: &CgroupDir, wish: &Value, period: Option<Period>) -> Value {
        let bounded = self.parts.files.layout().semantics().child_quota_bounded_by_parent;
        match (wish, period) {
            (Value::Quota(CfsQuota::Micros(us)), Some(period)) if bounded => {
                let above = self.effective_above(dir);
                Value::Quota(CfsQuota::Micros(above.map_or(*us, |above| within(*us, period.us, above))))
            }
            _ => wish.clone(),
        }
    }

    /// What the nearest limited directory above `dir` comes to, in microseconds per 100 ms and rounded down; `None`
    /// where nothing is limited.
    fn effective_above(&mut self, dir: &CgroupDir) -> Option<i64> {
        let mut above = dir.parent();
        while let Some(parent) = above {
            if let Some(us) = self.planned_quota(&parent) {
                let period = self.period(&parent, "").us;
                let limit = self.effective_above(&parent);
                let us = limit.map_or(us, |limit| within(us, period, limit));
                return quota_per_100ms(quota_for_period(CfsQuota::Micros(us), period), period).micros();
            }
            above = parent.parent();
        }
        None
    }

    /// The finite quota that a directory is to hold, or has where it is only to fall back to one.
    fn planned_quota(&self, dir: &CgroupDir) -> Option<i64> {
        let target = CgroupTarget::new(dir, Resource::CfsQuota);
        match &self.plan.entries.get(&target)?.decision {
            Decision::Hold(Value::Quota(quota)) | Decision::Release(Value::Quota(quota)) => quota.micros(),
            _ => None,
        }
    }
}

/// The largest quota up to `wish` whose text with `period` is no larger share of the CPU than `limit`; all in
/// microseconds, quotas per 100 ms. Never below what the kernel takes at least.
fn within(wish: i64, period: i64, limit: i64) -> i64 {
    let share = |text: i64| i128::from(text) * i128::from(CFS_PERIOD_US);
    let most = i128::from(limit) * i128::from(period);
    let fits = |us: i64| {
        quota_for_period(CfsQuota::Micros(us), period).micros().is_none_or(|text| share(text) <= most)
    };
    if fits(wish) {
        return wish;
    }
    let text = (most / i128::from(CFS_PERIOD_US)).min(i128::from(i64::MAX));
    let text = i64::try_from(text).unwrap_or(i64::MAX).max(MIN_QUOTA_US);
    quota_per_100ms(CfsQuota::Micros(text), period).micros().unwrap_or(wish).min(wish)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quota_is_rounded_down_where_rounded_up_it_would_not_fit() {
        let text = |wish, period, limit| {
            quota_for_period(CfsQuota::Micros(within(wish, period, limit)), period).raw()
        };
        assert_eq!(text(133_333, 50_000, 133_333), 66_666, "66667 would be 133334 in 100 ms");
        assert_eq!(text(133_333, 50_000, 133_334), 66_667);
        assert_eq!(text(133_333, 100_000, 133_333), 133_333);
        assert_eq!(text(50_000, 100_000, 133_333), 50_000);
        assert_eq!(
            text(1_000, 10_000, 1_000),
            1_000,
            "what the kernel takes at least, whether it fits or not"
        );
    }

    proptest! {
        #[test]
        fn what_fits_is_at_most_two_microseconds_less(
            limit in 20_000_i64..10_000_000,
            less in 0_i64..10_000,
            period in 10_000_i64..=1_000_000,
        ) {
            let wish = (limit - less).max(20_000);
            let fitted = within(wish, period, limit);
            let text = quota_for_period(CfsQuota::Micros(fitted), period).raw();
            prop_assert!(i128::from(text) * 100_000 <= i128::from(limit) * i128::from(period));
            prop_assert!(fitted <= wish && (wish - fitted) * period <= 2 * 100_000 + 2 * period, "{wish} to {fitted}");
        }
    }
}
