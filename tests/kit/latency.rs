//! A distribution of measured times: the figures that benches and the demo print.

use std::time::Duration;

/// Measured times, in any order.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Adds one.
    pub fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Duration> + '_ {
        self.0.iter().copied()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none was measured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value below which `percent` (0 to 100) of all lie; `None` when there are none.
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100).clamp(1, sorted.len().max(1));
        sorted.get(rank - 1).copied()
    }

    /// `n=50 p50=1.2ms p90=... p99=... max=...`, for a test's output.
    pub fn summary(&self) -> String {
        let show =
            |percent| self.percentile(percent).map_or_else(|| "-".to_owned(), |time| format!("{time:.1?}"));
        format!("n={} p50={} p90={} p99={} max={}", self.len(), show(50), show(90), show(99), show(100))
    }
}

impl FromIterator<Duration> for Latencies {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        Self(times.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let times: Latencies = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(times.percentile(50), Some(Duration::from_millis(50)));
        assert_eq!(times.percentile(99), Some(Duration::from_millis(99)));
        assert_eq!(times.percentile(100), Some(Duration::from_millis(100)));
        assert_eq!(times.percentile(0), Some(Duration::from_millis(1)));
        assert_eq!(Latencies::default().percentile(50), None);
    }
}
