//! Counters of what is asked of the kubelet, read by the metrics page while requests run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::kubelet_error::KubeletError;

/// Upper bounds in seconds of the reference's histogram of requests, collection.md 12: `0.001 * 4^i`.
pub const REQUEST_BOUNDS: [f64; 7] = [0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096];
/// Most pairs of path and status code that are kept apart; a server could make up hundreds of codes.
const MAX_CODES: usize = 32;

/// How a list ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncResult {
    /// Some pod is another one.
    Changed,
    /// All pods are as they were.
    Unchanged,
    /// It had no pods, and was not believed yet.
    Withheld,
    /// There was none.
    Failed,
}

impl SyncResult {
    const ALL: [Self; 4] = [Self::Changed, Self::Unchanged, Self::Withheld, Self::Failed];

    fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Withheld => "withheld",
            Self::Failed => "failed",
        }
    }
}

/// Counters since start. All only grow.
#[derive(Debug, Default)]
pub struct KubeletStats {
    /// Answers by path and status code.
    answers: Mutex<BTreeMap<(&'static str, u16), Times>>,
    failures: [AtomicU64; KubeletError::KINDS.len()],
    syncs: [AtomicU64; SyncResult::ALL.len()],
    /// Cgroup events that asked for a list.
    pub events: AtomicU64,
    /// Lists that events asked for and that had to wait for the rate limit or for the end of a back-off.
    pub deferred: AtomicU64,
    /// Lists asked for once more, since the status of a new container had not come yet.
    pub followed_up: AtomicU64,
    /// Pods in answers that could not be read.
    pub refused_pods: AtomicU64,
    /// What is wrong at present.
    trouble: Mutex<Option<String>>,
    /// Connections made anew after the kubelet had refused the credentials.
    pub renewed: AtomicU64,
}

/// How often answers took how long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Seconds in all.
    pub sum: f64,
    /// One for each bound, and one above all.
    pub counts: [u64; REQUEST_BOUNDS.len() + 1],
}

impl Times {
    /// The number of answers up to each bound that were above the one before; the last bound is infinite.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        REQUEST_BOUNDS.into_iter().chain([f64::INFINITY]).zip(self.counts).collect()
    }

    /// Answers in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl KubeletStats {
    /// An answer's head came.
    pub fn answered(&self, path: &'static str, code: u16, took: Duration) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MAX_CODES && !answers.contains_key(&(path, code)) {
            return;
        }
        let times = answers.entry((path, code)).or_default();
        let seconds = took.as_secs_f64();
        let place = REQUEST_BOUNDS.iter().take_while(|bound| seconds > **bound).count();
        if let Some(bucket) = times.counts.get_mut(place) {
            *bucket += 1;
        }
        times.sum += seconds;
    }

    /// Answers by path and status code.
    pub fn answers(&self) -> Vec<(&'static str, u16, Times)> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().map(|((path, code), times)| (*path, *code, times.clone())).collect()
    }

    /// What keeps pods from being known from now on; `None`: nothing.
    pub fn set_trouble(&self, what: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What keeps pods from being known at present.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A request failed.
    pub fn failed(&self, error: &KubeletError) {
        let place = KubeletError::KINDS.iter().position(|kind| *kind == error.kind());
        if let Some(count) = place.and_then(|place| self.failures.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Failures by kind.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KubeletError::KINDS.into_iter().zip(self.failures.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// A list ended.
    pub fn synced(&self, result: SyncResult) {
        if let Some(count) = self.syncs.get(result as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lists by their end.
    pub fn syncs(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.syncs.iter().map(|count| count.load(Ordering::Relaxed));
        SyncResult::ALL.into_iter().map(SyncResult::name).zip(counts)
    }

    /// The counters of triggers by name.
    pub fn triggers(&self) -> [(&'static str, u64); 3] {
        let Self { events, deferred, followed_up, .. } = self;
        [("event", events), ("deferred", deferred), ("follow_up", followed_up)]
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_fall_into_the_references_buckets() {
        let stats = KubeletStats::default();
        for ms in [1, 2, 4, 5000] {
            stats.answered("/pods/", 200, Duration::from_millis(ms));
        }
        stats.answered("/pods/", 401, Duration::from_millis(1));
        let answers = stats.answers();
        assert_eq!(answers.len(), 2);
        let (_, _, times) = &answers[0];
        assert_eq!((times.counts, times.count()), ([1, 2, 0, 0, 0, 0, 0, 1], 4));
        assert!((times.sum - 5.007).abs() < 1e-9);
        assert!(times.buckets().last().is_some_and(|(bound, _)| bound.is_infinite()));
    }

    #[test]
    fn made_up_codes_do_not_grow_the_table() {
        let stats = KubeletStats::default();
        for code in 100..900 {
            stats.answered("/pods/", code, Duration::ZERO);
        }
        assert_eq!(stats.answers().len(), MAX_CODES);
    }

    #[test]
    fn every_kind_of_failure_has_a_counter() {
        let stats = KubeletStats::default();
        stats.failed(&KubeletError::NodeUnknown);
        stats.synced(SyncResult::Failed);
        assert_eq!(stats.failures().map(|(_, count)| count).sum::<u64>(), 1);
        assert_eq!(
            stats.syncs().collect::<Vec<_>>(),
            [("changed", 0), ("unchanged", 0), ("withheld", 0), ("failed", 1)]
        );
    }
}
