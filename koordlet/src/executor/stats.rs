//! Counters of the executor, read by the metrics page while the worker runs.

use std::sync::atomic::{AtomicU64, Ordering};

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
    counter.fetch_add(1, Ordering::Relaxed);
}
