//! What a window of samples comes to (collection.md 5.4).

use crate::units::Nanos;

/// A way to make one figure of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Aggregate {
    /// Arithmetic mean.
    Avg,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 95th percentile.
    P95,
    /// 99th percentile.
    P99,
    /// The newest.
    Last,
    /// How many.
    Count,
}

impl Aggregate {
    /// From a policy's name; the mean for a name that nobody knows.
    pub fn from_name(name: &str) -> Self {
        match name {
            "p50" => Self::P50,
            "p90" | "P90" => Self::P90,
            "p95" | "P95" => Self::P95,
            "p99" => Self::P99,
            "last" => Self::Last,
            "count" => Self::Count,
            _ => Self::Avg,
        }
    }
}

/// The figures of a window. All but the count are `None` of no samples: there is no mean of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aggregates {
    /// Samples.
    pub count: usize,
    /// Arithmetic mean.
    pub avg: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// The value with the greatest time; of equal times that of the oldest series.
    pub last: Option<f64>,
    /// Time of the oldest sample.
    pub first_time: Option<Nanos>,
    /// Time of the newest sample.
    pub last_time: Option<Nanos>,
}

impl Aggregates {
    /// One figure; `None` of no samples, save for the count.
    pub fn get(&self, aggregate: Aggregate) -> Option<f64> {
        match aggregate {
            Aggregate::Avg => self.avg,
            Aggregate::P50 => self.p50,
            Aggregate::P90 => self.p90,
            Aggregate::P95 => self.p95,
            Aggregate::P99 => self.p99,
            Aggregate::Last => self.last,
            Aggregate::Count => Some(self.count as f64),
        }
    }

    /// From the oldest to the newest sample; 0 without two.
    pub fn duration(&self) -> Nanos {
        self.last_time.unwrap_or_default() - self.first_time.unwrap_or_default()
    }
}

/// Samples in the order in which they were found.
#[derive(Debug, Default)]
pub(super) struct Points {
    values: Vec<f64>,
    first: Option<Nanos>,
    last: Option<(Nanos, f64)>,
}

impl Points {
    /// Adds one.
    pub(super) fn push(&mut self, at: Nanos, value: f64) {
        self.values.push(value);
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        if self.last.is_none_or(|(last, _)| at > last) {
            self.last = Some((at, value));
        }
    }

    /// The figures.
    pub(super) fn aggregate(mut self) -> Aggregates {
        let count = self.values.len();
        let avg = (count > 0).then(|| self.values.iter().sum::<f64>() / count as f64);
        self.values.sort_unstable_by(f64::total_cmp);
        let percentile = |percent| self.values.get(percentile_index(count, percent)).copied();
        Aggregates {
            count,
            avg,
            p50: percentile(50),
            p90: percentile(90),
            p95: percentile(95),
            p99: percentile(99),
            last: self.last.map(|(_, value)| value),
            first_time: self.first,
            last_time: self.last.map(|(at, _)| at),
        }
    }
}

/// Where in `count` sorted values a percentile is, collection.md 5.4: no interpolation.
fn percentile_index(count: usize, percent: usize) -> usize {
    (count.saturating_mul(percent) / 100).saturating_sub(1)
}
