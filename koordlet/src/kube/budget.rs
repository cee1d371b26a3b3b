//! A token bucket: how many requests may be sent at once, and how many a second in the long run. Time is an
//! argument.

use std::time::Duration;

/// Tokens that fill up again with time.
#[derive(Debug)]
pub struct TokenBucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Duration,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens that gains `rate` tokens a second (above 0).
    pub fn new(rate: f64, burst: u32, now: Duration) -> Self {
        let burst = f64::from(burst.max(1));
        Self { rate: rate.max(f64::MIN_POSITIVE), burst, tokens: burst, at: now }
    }

    /// Takes a token, if there is one.
    pub fn try_take(&mut self, now: Duration) -> bool {
        self.fill(now);
        let there = self.tokens >= 1.0;
        if there {
            self.tokens -= 1.0;
        }
        there
    }

    /// Takes the next token there will be, and says how long it takes to come; at most an hour.
    pub fn reserve(&mut self, now: Duration) -> Duration {
        const LONGEST: Duration = Duration::from_hours(1);
        self.fill(now);
        self.tokens -= 1.0;
        let missing = (-self.tokens).max(0.0);
        Duration::try_from_secs_f64(missing / self.rate).unwrap_or(LONGEST).min(LONGEST)
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut bucket = TokenBucket::new(20.0, 30, Duration::ZERO);
        let waits: Vec<_> = (0..32).map(|_| bucket.reserve(Duration::ZERO)).collect();
        assert!(waits.iter().take(30).all(Duration::is_zero));
        assert_eq!(waits[30..], [seconds(0.05), seconds(0.1)]);
        assert_eq!(bucket.reserve(seconds(60.0)), Duration::ZERO, "an idle minute fills it again");
    }

    /// The budget of NodeMetric's status, collection.md 9.2: 0.1 a second, 2 at once.
    #[test]
    fn of_three_tries_at_once_the_third_is_refused() {
        let mut bucket = TokenBucket::new(0.1, 2, Duration::ZERO);
        let tries = [0.0, 0.0, 0.0, 9.0, 10.0].map(|at| bucket.try_take(seconds(at)));
        assert_eq!(tries, [true, true, false, false, true]);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing() {
        let mut bucket = TokenBucket::new(1.0, 1, seconds(10.0));
        assert!(bucket.try_take(seconds(10.0)));
        assert!(!bucket.try_take(seconds(1.0)));
        assert!(!bucket.try_take(seconds(10.5)));
    }
}
