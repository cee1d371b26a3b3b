//! The budget that the kernel keeps for a container: what it did not use of its quota, it may use later, up to this
//! much. Above the quota mainline kernels refuse it (qos.md 12, Q16); the executor cuts it there.

use crate::units::{CFS_PERIOD_US, MilliCpu, Percent};

/// Largest quota plus burst that the kernel takes, in microseconds (`MAX_BW` of kernel/sched/core.c). The reference
/// refuses what is above 100 s (qos.md 12, Q17).
const MAX_BURST_US: i64 = (1 << 44) - 1;

/// `cpu.cfs_burst_us` of a container, qos.md 5.4: its CPU limit times `percent`, in microseconds a period, rounded
/// down; 0 without a limit. At most what a kernel can take beside a quota of the same limit.
pub fn budget_us(limit: MilliCpu, percent: Percent) -> i64 {
    let (limit, percent) = (limit.0.max(0), percent.0.max(0));
    // In doubles and in this order, as the reference does it.
    let budget = limit as f64 / 1000.0 * (percent as f64 / 100.0) * CFS_PERIOD_US as f64;
    let room = MAX_BURST_US.saturating_sub(limit.saturating_mul(CFS_PERIOD_US / 1000)).max(0);
    whole(budget).min(room)
}

/// The budget of a pod's directory: the sum of its containers'.
pub fn pod_budget_us(containers: impl IntoIterator<Item = i64>) -> i64 {
    containers.into_iter().fold(0, i64::saturating_add).min(MAX_BURST_US)
}

#[expect(clippy::cast_possible_truncation, reason = "rounds down, and saturates by definition")]
fn whole(figure: f64) -> i64 {
    figure as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: i64, percent: i64) -> i64 {
        budget_us(MilliCpu(limit), Percent(percent))
    }

    /// Rows W9 and H1 of the specification.
    #[test]
    fn budgets_are_those_of_the_worked_examples() {
        let rows = [(2000, 1000), (1500, 1000), (250, 333), (5000, 1000), (3000, 500), (70, 110), (333, 333)];
        let found = rows.map(|(limit, percent)| budget(limit, percent));
        assert_eq!(found, [2_000_000, 1_500_000, 83_250, 5_000_000, 1_500_000, 7_700, 110_889]);
        assert_eq!([budget(1, 1), budget(0, 1000), budget(-5, 1000), budget(1000, 0)], [1, 0, 0, 0]);
        assert_eq!(pod_budget_us([2_000_000, 1_500_000]), 3_500_000);
    }

    #[test]
    fn q17_a_budget_is_cut_to_what_the_kernel_takes_and_not_refused() {
        assert_eq!(budget(128_000, 1000), 128_000_000, "the reference stops at 100000000");
        let most = budget(i64::MAX, 10_000);
        assert_eq!(most, 0, "no room is left beside such a quota");
        let large = budget(10_000_000_000, 10_000);
        assert_eq!(large + 1_000_000_000_000, MAX_BURST_US);
        assert_eq!(pod_budget_us([i64::MAX, i64::MAX]), MAX_BURST_US);
    }
}
