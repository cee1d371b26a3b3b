//! Counters of the executor, read by the metrics page while the worker runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::tasks::stats::TaskStats;

/// Counters since start. All only grow.
#[derive(Debug, Default)]
pub struct ExecutorStats {
    /// Writes that the kernel took.
    pub written: AtomicU64,
    /// Writes that the kernel refused, or whose value it did not keep.
    pub refused: AtomicU64,
    /// Writes that met a cgroup that is not there (any more).
    pub gone: AtomicU64,
    /// Values that others put into a file which we hold, outside of a directory's birth.
    pub foreign: AtomicU64,
    /// Values that a runtime put over ours while a directory was being born.
    pub birth: AtomicU64,
    /// Foreign values that were put right.
    pub repaired: AtomicU64,
    /// Files read by the periodic re-check.
    pub rechecked: AtomicU64,
    /// Values put back after their claim was withdrawn.
    pub restored: AtomicU64,
    /// Directories that could not be watched (inotify limits).
    pub unwatched: AtomicU64,
    /// Times that the event queue overflowed and everything was read again.
    pub overflows: AtomicU64,
    /// Memory writes that outlasted their deadline in the kernel.
    pub overdue: AtomicU64,
    /// Damaged pieces of the ledger that were set aside.
    pub ledger_damage: AtomicU64,
    /// Notices that nobody took in time.
    pub notices_dropped: AtomicU64,
    /// How long writes to cgroup files took.
    pub write_times: WriteTimes,
    /// What tasks were given.
    pub tasks: TaskStats,
    /// How long writes of lines of resctrl groups took.
    pub resctrl_times: WriteTimes,
}

/// Upper bounds in milliseconds of the reference's histogram of writes, collection.md 12: `0.01 * 4^i`.
pub const WRITE_TIME_BOUNDS_MS: [f64; 8] = [0.01, 0.04, 0.16, 0.64, 2.56, 10.24, 40.96, 163.84];

/// How often writes took how long, taken and refused ones apart.
#[derive(Debug, Default)]
pub struct WriteTimes {
    taken: Times,
    refused: Times,
}

#[derive(Debug, Default)]
struct Times {
    sum_us: AtomicU64,
    /// One for each bound, and one above all.
    counts: [AtomicU64; WRITE_TIME_BOUNDS_MS.len() + 1],
}

impl WriteTimes {
    /// Notes one write.
    pub fn note(&self, taken: bool, took: Duration) {
        let times = self.of(taken);
        let ms = took.as_secs_f64() * 1000.0;
        let place = WRITE_TIME_BOUNDS_MS.iter().take_while(|bound| ms > **bound).count();
        if let Some(bucket) = times.counts.get(place) {
            count(bucket);
        }
        times.sum_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Milliseconds in all, and the number of writes up to each bound that were above the one before; the last
    /// bound is infinite.
    pub fn histogram(&self, taken: bool) -> (f64, Vec<(f64, u64)>) {
        let times = self.of(taken);
        let bounds = WRITE_TIME_BOUNDS_MS.into_iter().chain([f64::INFINITY]);
        let counts = times.counts.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        (times.sum_us.load(Ordering::Relaxed) as f64 / 1000.0, bounds.zip(counts).collect())
    }

    fn of(&self, taken: bool) -> &Times {
        if taken { &self.taken } else { &self.refused }
    }
}

impl ExecutorStats {
    /// The counters by name, for the metrics page and tests.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        let Self {
            written,
            refused,
            gone,
            foreign,
            birth,
            repaired,
            rechecked,
            restored,
            unwatched,
            overflows,
            overdue,
            ledger_damage,
            notices_dropped,
            write_times: _,
            tasks: _,
            resctrl_times: _,
        } = self;
        [
            ("written", written),
            ("refused", refused),
            ("gone", gone),
            ("foreign", foreign),
            ("birth", birth),
            ("repaired", repaired),
            ("rechecked", rechecked),
            ("restored", restored),
            ("unwatched", unwatched),
            ("overflows", overflows),
            ("overdue", overdue),
            ("ledger_damage", ledger_damage),
            ("notices_dropped", notices_dropped),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
        .into()
    }
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    count_many(counter, 1);
}

/// Adds several.
pub(super) fn count_many(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
