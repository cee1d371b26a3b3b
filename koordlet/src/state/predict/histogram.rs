//! A histogram whose samples weigh half as much after each half-life, collection.md 11.1.
//!
//! Nothing is scaled as time goes by: a later sample weighs more instead, relative to a point of reference, which
//! moves on when the weights grow too large.

use std::time::Duration;

use jiff::Timestamp;

/// From this weight on a bucket counts.
const EPSILON: f64 = 0.0001;
/// Half-lives after the reference from which it moves.
const MAX_EXPONENT: i128 = 100;
/// From where multiples of a half-life are counted: 0001-01-01T00:00:00Z.
pub(super) const YEAR_ONE: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// Buckets, each wider than the one before by the same ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buckets {
    first: f64,
    ratio: f64,
    count: usize,
}

impl Buckets {
    /// The first `first` wide, each other `ratio` times the one before, as many as reach `max`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
    fn new(first: f64, ratio: f64, max: f64) -> Self {
        let buckets = (max * (ratio - 1.0) / first + 1.0).ln() / ratio.ln();
        Self { first, ratio, count: buckets.ceil() as usize + 1 }
    }

    /// Of cores: 158, up to 1,024 cores.
    pub fn cpu() -> Self {
        Self::new(0.025, 1.05, 1024.0)
    }

    /// Of bytes: 205, up to 2 TiB.
    pub fn memory() -> Self {
        Self::new(5_242_880.0, 1.05, 2_199_023_255_552.0)
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Where a bucket begins.
    pub fn start(&self, bucket: usize) -> f64 {
        self.first * (self.ratio.powf(bucket as f64) - 1.0) / (self.ratio - 1.0)
    }

    /// Which bucket takes `value`; the last one also what is beyond it.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturating, and bounded then"
    )]
    pub fn of(&self, value: f64) -> usize {
        if value < self.first {
            return 0;
        }
        let bucket = (value * (self.ratio - 1.0) / self.first + 1.0).ln() / self.ratio.ln();
        (bucket as usize).min(self.count.saturating_sub(1))
    }
}

/// The histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    buckets: Buckets,
    half_life: Duration,
    weights: Box<[f64]>,
    total: f64,
    reference: Timestamp,
}

impl Histogram {
    /// Without samples.
    pub fn new(buckets: Buckets, half_life: Duration) -> Self {
        let weights = vec![0.0; buckets.count()].into_boxed_slice();
        let half_life = half_life.max(Duration::from_secs(1));
        Self { buckets, half_life, weights, total: 0.0, reference: YEAR_ONE }
    }

    /// Adds a sample of time `at`; not a number is none.
    pub fn add(&mut self, value: f64, at: Timestamp) {
        if value.is_nan() {
            return;
        }
        let weight = self.weight_at(at);
        if let Some(bucket) = self.weights.get_mut(self.buckets.of(value)) {
            *bucket += weight;
            self.total += weight;
        }
    }

    /// The end of the bucket up to which the share `q` (0 to 1) of all weight lies; the start of the last one if it
    /// is that. 0 without samples.
    pub fn percentile(&self, q: f64) -> f64 {
        let counts = |weight: &f64| *weight >= EPSILON;
        let first = self.weights.iter().position(counts);
        let (Some(first), Some(last)) = (first, self.weights.iter().rposition(counts)) else { return 0.0 };
        let threshold = q * self.total;
        let mut sum = 0.0;
        let reaches = |weight: &f64| {
            sum += weight;
            sum >= threshold
        };
        let within = self.weights.get(first..last).unwrap_or_default();
        let bucket = within.iter().position(reaches).map_or(last, |at| first + at);
        self.buckets.start((bucket + 1).min(self.buckets.count().saturating_sub(1)))
    }

    /// The buckets.
    pub fn buckets(&self) -> &Buckets {
        &self.buckets
    }

    /// The weight of each bucket, relative to the reference.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The weight of all.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// The time at which a sample weighs 1.
    pub fn reference(&self) -> Timestamp {
        self.reference
    }

    /// Puts weights in place of all that there is: `shares` of buckets come to `total`. Buckets that do not exist are
    /// left out.
    pub(super) fn fill(&mut self, reference: Timestamp, shares: &[(usize, f64)], total: f64) {
        self.weights.fill(0.0);
        for (bucket, weight) in shares {
            if let Some(held) = self.weights.get_mut(*bucket) {
                *held += weight;
            }
        }
        self.total = total;
        self.reference = reference;
    }

    /// What a sample of time `at` weighs. Moves the reference if that is too far from it.
    fn weight_at(&mut self, at: Timestamp) -> f64 {
        let limit = MAX_EXPONENT.saturating_mul(self.half_life_nanos());
        let ahead = nanos(at) - nanos(self.reference);
        if ahead > limit {
            self.move_reference(at);
        } else if ahead < -limit {
            // The clock was wrong, and has been set back: no sample would ever weigh anything again.
            self.weights.fill(0.0);
            self.total = 0.0;
            self.reference = self.rounded(at);
        }
        let ahead = nanos(at) - nanos(self.reference);
        (ahead as f64 / self.half_life_nanos() as f64).exp2()
    }

    fn move_reference(&mut self, at: Timestamp) {
        let new = self.rounded(at);
        let back = (nanos(self.reference) - nanos(new)) as f64 / self.half_life_nanos() as f64;
        let factor = (back + 0.5).floor().exp2();
        self.weights.iter_mut().for_each(|weight| *weight *= factor);
        self.total *= factor;
        self.reference = new;
    }

    /// The nearest multiple of the half-life, the later one of two.
    fn rounded(&self, at: Timestamp) -> Timestamp {
        let half_life = self.half_life_nanos();
        let since = nanos(at) - nanos(YEAR_ONE);
        let past = since.rem_euclid(half_life);
        let up = if past + past < half_life { 0 } else { half_life };
        Timestamp::from_nanosecond(nanos(YEAR_ONE) + since - past + up).unwrap_or(at)
    }

    fn half_life_nanos(&self) -> i128 {
        i128::try_from(self.half_life.as_nanos()).unwrap_or(i128::MAX >> 8)
    }
}

fn nanos(at: Timestamp) -> i128 {
    at.as_nanosecond()
}

#[cfg(test)]
mod tests;
