//! How long a container may stay above its CPU limit: a bucket of tokens. A second of use above the limit takes as many
//! tokens as it was percent above, a second of low use gives back (qos.md 5.4).

use serde::{Deserialize, Serialize};

use crate::units::{Nanos, Percent};

/// Use from which on tokens are taken, in percent of the limit.
const TAKES_FROM: i64 = 100;

/// Use below which tokens are given back, in percent of the limit.
const GIVES_BELOW: i64 = 60;

/// Nanoseconds of a thousandth of a second: the least time that counts.
const MILLISECOND: u64 = 1_000_000;

/// Tokens of one container. Kept in thousandths, and time that is not a whole millisecond counts the next time: the
/// reference drops what is less than a second (qos.md 12, Q18).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    capacity: i64,
    milli_tokens: i64,
    counted: Nanos,
}

/// Tokens that a bucket holds at most: `period_seconds` of use at `percent` of the limit. A period of 0 leaves none,
/// so that nothing is ever raised.
pub fn capacity(period_seconds: i64, percent: Percent) -> i64 {
    period_seconds.max(0).saturating_mul(percent.0.saturating_sub(TAKES_FROM).max(0))
}

impl Bucket {
    /// A bucket that holds `tokens` at `now`.
    pub fn new(capacity: i64, tokens: i64, now: Nanos) -> Self {
        let milli_tokens = bounded(tokens.saturating_mul(1000), capacity);
        Self { capacity, milli_tokens, counted: now }
    }

    /// Tokens that a new bucket starts with: up to half of the capacity by `chance` (0 to 1), so that containers that
    /// started together are not held back together.
    pub fn first_tokens(capacity: i64, chance: f64) -> i64 {
        whole(capacity as f64 * chance.clamp(0.0, 1.0) / 2.0)
    }

    /// What it holds at most.
    pub fn capacity(&self) -> i64 {
        self.capacity
    }

    /// What it holds, rounded toward zero.
    pub fn tokens(&self) -> i64 {
        self.milli_tokens / 1000
    }

    /// Counts the time since the last call at a use of `percent` of the limit. Whether the container may stay above
    /// its limit.
    pub fn count(&mut self, percent: i64, now: Nanos) -> bool {
        let elapsed = now.0.saturating_sub(self.counted.0) / MILLISECOND;
        self.counted = self.counted + Nanos(elapsed.saturating_mul(MILLISECOND));
        let rate = match percent {
            TAKES_FROM.. | ..GIVES_BELOW => TAKES_FROM.saturating_sub(percent),
            _ => 0,
        };
        let change = rate.saturating_mul(i64::try_from(elapsed).unwrap_or(i64::MAX));
        self.milli_tokens = bounded(self.milli_tokens.saturating_add(change), self.capacity);
        self.milli_tokens > 0
    }
}

/// Use in percent of the limit, rounded down; without a sample as if it were just used up. Samples are kept within 2^-24
/// of their value: what is so near beneath a whole percent is that percent.
pub fn use_percent(used_cores: Option<f64>, limit_cores: f64) -> i64 {
    const KEPT_WITHIN: f64 = 1.0 / (1u32 << 23) as f64;
    match used_cores {
        Some(used) if limit_cores > 0.0 => whole(used / limit_cores * 100.0 * (1.0 + KEPT_WITHIN)),
        _ => TAKES_FROM,
    }
}

fn bounded(milli_tokens: i64, capacity: i64) -> i64 {
    let most = capacity.saturating_mul(1000);
    milli_tokens.clamp(-most, most)
}

#[expect(clippy::cast_possible_truncation, reason = "rounds toward zero, and saturates by definition")]
fn whole(figure: f64) -> i64 {
    figure as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Tokens, and whether the container may burst, after `seconds` at `percent`.
    fn after(period: i64, burst: i64, tokens: i64, seconds: u64, percent: i64) -> (i64, bool) {
        let mut bucket = Bucket::new(capacity(period, Percent(burst)), tokens, Nanos(5));
        let allowed = bucket.count(percent, Nanos(5 + seconds * SECOND));
        (bucket.tokens(), allowed)
    }

    /// Rows H4 and H5 of the specification.
    #[test]
    fn tokens_are_those_of_the_worked_examples() {
        assert_eq!(after(100, 150, 5000, 10, 150), (4500, true));
        assert_eq!(after(100, 150, 50, 10, 200), (-950, false));
        assert_eq!(after(10, 150, 5, 10, 200), (-500, false), "no more debt than the capacity");
        assert_eq!(after(100, 150, 500, 10, 40), (1100, true));
        assert_eq!(after(100, 150, 4500, 10, 40), (5000, true), "full");
        let steady = [99, 60, 59].map(|percent| after(600, 300, 30_000, 1, percent));
        assert_eq!(steady, [(30_000, true), (30_000, true), (30_041, true)]);
        assert_eq!(after(600, 100, 0, 1, 50), (0, false), "no room above the limit");
    }

    /// W10: 30000 tokens last 200 s at 250 %, and use between 60 and 99 % leaves a debt where it is.
    #[test]
    fn w10_a_full_bucket_is_used_up_and_filled_again() {
        assert_eq!(capacity(600, Percent(300)), 120_000);
        let mut bucket = Bucket::new(120_000, 30_000, Nanos(0));
        let mut second = 0;
        let mut count = |percent| {
            second += 1;
            (bucket.count(percent, Nanos(second * SECOND)), bucket.tokens())
        };
        assert_eq!([count(250), count(80), count(40)], [(true, 29_850), (true, 29_850), (true, 29_910)]);
        let lasted = (0..1000).take_while(|_| count(250).0).count();
        assert_eq!(lasted, 199);
        assert_eq!(count(80), (false, -90));
        assert_eq!([count(40).0, count(40).0], [false, true]);
    }

    #[test]
    fn h03_q18_calls_closer_than_a_second_count_in_full() {
        let mut bucket = Bucket::new(100_000, 10_000, Nanos(0));
        for call in 1..=60 {
            bucket.count(150, Nanos(call * SECOND / 2));
        }
        assert_eq!(bucket.tokens(), 8500);
        // Also at a pace that is no whole number of milliseconds.
        let mut bucket = Bucket::new(100_000, 10_000, Nanos(0));
        for call in 1..=90 {
            bucket.count(150, Nanos(call * SECOND / 3));
        }
        assert_eq!(bucket.tokens(), 8500);
    }

    #[test]
    fn q18_a_period_of_zero_never_lets_burst() {
        assert_eq!(after(0, 300, 0, 100, 0), (0, false));
        assert_eq!(after(-5, 300, 0, 100, 0), (0, false));
    }

    #[test]
    fn time_that_goes_back_and_absurd_figures_break_nothing() {
        let mut bucket = Bucket::new(i64::MAX, i64::MAX, Nanos(10 * SECOND));
        assert!(bucket.count(i64::MAX, Nanos(SECOND)), "no time passed");
        bucket.count(i64::MAX, Nanos(u64::MAX));
        assert!(!bucket.count(i64::MIN, Nanos(u64::MAX)));
        assert_eq!(capacity(i64::MAX, Percent(i64::MAX)), i64::MAX);
        assert_eq!(Bucket::first_tokens(1000, f64::NAN), 0);
        assert_eq!([0.0, 0.5, 1.0, 7.0].map(|chance| Bucket::first_tokens(1000, chance)), [0, 250, 500, 500]);
    }

    #[test]
    fn use_without_a_sample_counts_as_the_limit() {
        assert_eq!(use_percent(None, 2.0), 100);
        assert_eq!([1.0, 1.999, 5.0].map(|used| use_percent(Some(used), 2.0)), [50, 99, 250]);
        assert_eq!(use_percent(Some(1.0), 0.0), 100);
    }
}
