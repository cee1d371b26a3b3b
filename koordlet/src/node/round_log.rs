//! How rounds of a collector went: counted for the metrics, timed, and a failure told once until one succeeds again.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::error_chain::chain;

/// What came of a round. An error is told to the operator; such a round has published nothing.
pub type RoundResult = Result<(), Box<dyn Error + Send + Sync>>;

/// How rounds went. Shared with the metrics.
#[derive(Debug, Default)]
pub struct RoundStats {
    /// Rounds that succeeded.
    pub succeeded: AtomicU64,
    /// Rounds that failed.
    pub failed: AtomicU64,
    /// Time that all rounds took, nanoseconds.
    pub took: AtomicU64,
}

/// Keeps the stats of one collector.
#[derive(Debug)]
pub(super) struct RoundLog {
    name: &'static str,
    stats: Arc<RoundStats>,
    failing: bool,
}

impl RoundLog {
    /// Of the collector `name`, which has had no round yet.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, stats: Arc::default(), failing: false }
    }

    /// The collector's name and how its rounds went.
    pub(super) fn stats(&self) -> (&'static str, Arc<RoundStats>) {
        (self.name, Arc::clone(&self.stats))
    }

    /// Notes a round.
    pub(super) fn note(&mut self, round: impl FnOnce() -> RoundResult) {
        let started = Instant::now();
        let result = round();
        let took = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.stats.took.fetch_add(took, Ordering::Relaxed);
        let count = if result.is_ok() { &self.stats.succeeded } else { &self.stats.failed };
        count.fetch_add(1, Ordering::Relaxed);
        let failed_before = std::mem::replace(&mut self.failing, result.is_err());
        if let Err(error) = result
            && !failed_before
        {
            tracing::warn!(collector = self.name, error = chain(&*error), "round failed");
        }
    }
}
