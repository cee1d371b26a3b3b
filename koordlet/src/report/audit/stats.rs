//! Counters of the audit log, read by the metrics page at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since start. All only grow.
#[derive(Debug, Default)]
pub struct AuditStats {
    /// Events that were taken in at the set verbosity.
    pub events: AtomicU64,
    /// Events that were lost, since too many waited.
    pub dropped: AtomicU64,
    /// Events that are in the file.
    pub written: AtomicU64,
    /// Bytes that are in the file.
    pub bytes: AtomicU64,
    /// Attempts to write, rotate or remove files that failed.
    pub failed_writes: AtomicU64,
    /// Files that were rotated.
    pub rotations: AtomicU64,
    /// Files that were no log and were set aside, and lines that were cut short and ended.
    pub damage: AtomicU64,
}

impl AuditStats {
    /// The counters by name, for the metrics page and tests.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        let Self { events, dropped, written, bytes, failed_writes, rotations, damage } = self;
        [
            ("events", events),
            ("dropped", dropped),
            ("written", written),
            ("bytes", bytes),
            ("failed_writes", failed_writes),
            ("rotations", rotations),
            ("damage", damage),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
        .into()
    }
}

/// Adds to a counter.
pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
