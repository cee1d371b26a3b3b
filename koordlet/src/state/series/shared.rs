//! The door to the series: shared by everybody who writes or asks, behind one lock that is held for the copying of
//! samples and never for sorting them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::aggregates::Aggregates;
use super::class::Scope;
use super::key::SeriesKey;
use super::metric::{Metric, Property};
use super::placed::PlacedSeries;
use super::refusal::{QueryError, Refusal};
use super::settings::SeriesSettings;
use super::store::SeriesStore;
use crate::units::Nanos;

/// What the series hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeriesStats {
    /// Series.
    pub series: usize,
    /// Samples in them.
    pub samples: usize,
    /// Bytes that they take.
    pub bytes: usize,
    /// Samples refused since the start.
    pub refused: u64,
    /// Rounds given up before their window had passed, for want of room, since the start.
    pub cut_short: u64,
}

/// All series. Clones share them. Times are `CLOCK_MONOTONIC`.
#[derive(Clone, Debug)]
pub struct SharedSeries(Arc<Mutex<SeriesStore>>);

impl SharedSeries {
    /// Without any series.
    pub fn new(settings: SeriesSettings) -> Self {
        Self(Arc::new(Mutex::new(SeriesStore::new(settings))))
    }

    /// Adds a round of samples, all of time `at`, and gives how many of them were refused
    /// ([`last_refusal`](Self::last_refusal) says why). Readers see all of a round or nothing. One time a round and
    /// kind is what the memory is planned for. `samples` is run under the lock: it must not ask the series.
    pub fn append(&self, at: Nanos, samples: impl IntoIterator<Item = (SeriesKey, f64)>) -> usize {
        self.lock().append(at, samples)
    }

    /// The same for series that a writer adds to round after round: each is found where it was the last time.
    pub fn append_placed<'a>(
        &self,
        at: Nanos,
        samples: impl IntoIterator<Item = (&'a mut PlacedSeries, f64)>,
    ) -> usize {
        self.lock().append_placed(at, samples)
    }

    /// The figures of all samples from `from` to `to`, both included, of all series of `metric` whose properties
    /// have the given values; a property that is left out may have any. No samples are no error.
    ///
    /// # Errors
    /// `metric` has no such property.
    pub fn query(
        &self,
        metric: Metric,
        matching: &[(Property, &str)],
        from: Nanos,
        to: Nanos,
    ) -> Result<Aggregates, QueryError> {
        let points = self.lock().collect(metric, matching, (from, to))?;
        Ok(points.aggregate())
    }

    /// The same of one series, found without a search. None of that key: no samples.
    pub fn query_one(&self, key: &SeriesKey, from: Nanos, to: Nanos) -> Aggregates {
        let points = self.lock().collect_one(key, (from, to));
        points.aggregate()
    }

    /// Time and value of the newest sample of one series from `from` to `to`, both included.
    pub fn newest(&self, key: &SeriesKey, from: Nanos, to: Nanos) -> Option<(Nanos, f64)> {
        self.lock().newest(key, (from, to))
    }

    /// Drops every series that `keep` does not want: those of pods, containers and applications that are gone.
    /// `keep` is run under the lock.
    pub fn retire(&self, keep: impl Fn(&SeriesKey) -> bool) {
        self.lock().retire(keep);
    }

    /// Drops every series that has no sample in its window any more.
    pub fn expire(&self, now: Nanos) {
        self.lock().expire(now);
    }

    /// Keeps samples of a scope for `window` at least, as `asker` wants it now; zero takes the wish back. The
    /// longest wish counts, up to the retention and as far as there is room.
    pub fn keep(&self, asker: &'static str, scope: Scope, window: Duration) {
        self.lock().keep(asker, scope, window);
    }

    /// How much there is.
    pub fn stats(&self) -> SeriesStats {
        self.lock().stats()
    }

    /// Why the last refused sample was refused.
    pub fn last_refusal(&self) -> Option<Refusal> {
        self.lock().last_refusal()
    }

    fn lock(&self) -> MutexGuard<'_, SeriesStore> {
        // A panic of an iterator leaves the samples before it, which are whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
