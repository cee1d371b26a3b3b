//! The executor's series: the reference's histogram of writes, and own counters.

use super::exposition::Exposition;
use super::families::Family;
use crate::executor::ExecutorStats;

pub(super) fn show(page: &mut Exposition<'_>, stats: &ExecutorStats) {
    page.family(Family::ResourceUpdateDuration, |series| {
        for (kind, times) in [("cgroup", &stats.write_times), ("resctrl-schema", &stats.resctrl_times)] {
            for (status, taken) in [("success", true), ("failed", false)] {
                let (sum, buckets) = times.histogram(taken);
                if buckets.iter().any(|(_, count)| *count > 0) {
                    series.histogram(&[status, kind], sum, &buckets);
                }
            }
        }
    });
    page.family(Family::ExecutorActions, |series| {
        for (action, count) in stats.figures() {
            series.count(&[action], count);
        }
    });
}
