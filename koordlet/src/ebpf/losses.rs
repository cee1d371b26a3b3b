//! What the programs lost, by reason: read from mapped memory, no system call.

use std::sync::atomic::Ordering;

use koordlet_common::loss::Loss;

use crate::sys::MappedWords;

/// The counters of all CPUs.
#[derive(Debug)]
pub struct Losses(MappedWords);

impl Losses {
    pub(super) fn new(words: MappedWords) -> Self {
        Self(words)
    }

    /// How many were lost for `reason` since the programs were loaded.
    pub fn count(&self, reason: Loss) -> u64 {
        let mut rows = self.0.words().chunks_exact(Loss::ALL.len());
        let column = Loss::ALL.iter().position(|r| *r == reason).unwrap_or(0);
        rows.by_ref()
            .filter_map(|row| row.get(column))
            .fold(0, |sum, c| sum.wrapping_add(c.load(Ordering::Relaxed)))
    }

    /// Births and deaths that were not sent.
    pub fn events(&self) -> u64 {
        self.count(Loss::RingFull).wrapping_add(self.count(Loss::PathUnreadable))
    }
}
