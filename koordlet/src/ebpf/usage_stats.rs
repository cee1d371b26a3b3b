//! What the CPU accounts count about themselves, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter or gauge.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Slots in use (gauge).
    SlotsUsed,
    /// Slots there are (gauge).
    SlotCapacity,
    /// Directories whose CPU time comes from files since the map is full (gauge).
    DirsOnFiles,
    /// Walks of the whole tree, the one at start included.
    Rescans,
    /// Dead groups whose slot was given back.
    Buried,
    /// Directories whose figure differed from their file.
    Drifts,
    /// Nanoseconds by which figures were too low.
    DriftMissing,
    /// Nanoseconds by which figures were too high.
    DriftExcess,
}

const COUNTS: usize = Count::DriftExcess as usize + 1;

/// All of them; shared with whoever shows them.
#[derive(Debug, Default)]
pub struct UsageStats([AtomicU64; COUNTS]);

impl UsageStats {
    /// The present value.
    pub fn get(&self, count: Count) -> u64 {
        self.0.get(count as usize).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, count: Count) {
        self.add_many(count, 1);
    }

    pub(super) fn set(&self, count: Count, value: usize) {
        if let Some(place) = self.0.get(count as usize) {
            place.store(value as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn drifted(&self, correction: i128) {
        self.add(Count::Drifts);
        let side = if correction > 0 { Count::DriftMissing } else { Count::DriftExcess };
        self.add_many(side, u64::try_from(correction.unsigned_abs()).unwrap_or(u64::MAX));
    }

    fn add_many(&self, count: Count, more: u64) {
        if let Some(place) = self.0.get(count as usize) {
            place.fetch_add(more, Ordering::Relaxed);
        }
    }
}
