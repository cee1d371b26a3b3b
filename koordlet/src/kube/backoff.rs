//! How long to wait before the next try. A server that comes back must not meet all agents of a cluster in the
//! same second, so the wait is a random part of a span that doubles (cases C139, C142).

use std::time::Duration;

/// Spans that double up to a limit.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    /// The part of each span that is always waited, 0 to 1.
    floor: f64,
    step: u32,
}

impl Backoff {
    /// Anything between nothing and the whole span.
    pub const fn full_jitter(base: Duration, cap: Duration) -> Self {
        Self { base, cap, floor: 0.0, step: 0 }
    }

    /// At least half of the span: for what is not expected to work soon.
    pub const fn half_jitter(base: Duration, cap: Duration) -> Self {
        Self { base, cap, floor: 0.5, step: 0 }
    }

    /// The next wait; `random` is between 0 and 1.
    pub fn next(&mut self, random: f64) -> Duration {
        let span = self.base.saturating_mul(2_u32.saturating_pow(self.step)).min(self.cap);
        self.step = self.step.saturating_add(1);
        span.mul_f64(self.floor + (1.0 - self.floor) * random.clamp(0.0, 1.0))
    }

    /// It worked: the next wait is short again.
    pub fn reset(&mut self) {
        self.step = 0;
    }
}

/// A random number between 0 and 1.
pub fn random() -> f64 {
    let mut bytes = [0; 4];
    // Without a source of randomness every wait is half of its span.
    getrandom::fill(&mut bytes).map_or(0.5, |()| f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_secs(4);
    const CAP: Duration = Duration::from_secs(30);

    #[test]
    fn spans_double_up_to_the_limit_and_start_anew() {
        let mut backoff = Backoff::full_jitter(BASE, CAP);
        let spans: Vec<_> = (0..40).map(|_| backoff.next(1.0).as_secs()).collect();
        assert_eq!(spans[..5], [4, 8, 16, 30, 30]);
        assert_eq!(spans[39], 30);
        backoff.reset();
        assert_eq!(backoff.next(0.5).as_secs(), 2);
        assert_eq!(Backoff::half_jitter(BASE, CAP).next(0.0).as_secs(), 2);
    }

    #[test]
    fn c142_agents_that_lost_the_server_together_come_back_apart() {
        for lost_for in 1..5 {
            let in_first_second = (0..1000)
                .filter(|_| {
                    let mut backoff = Backoff::full_jitter(BASE, CAP);
                    let waits: Vec<_> = (0..lost_for).map(|_| backoff.next(random())).collect();
                    waits.last().is_some_and(|wait| wait.as_secs() < 1)
                })
                .count();
            assert!(in_first_second < 500, "{in_first_second} of 1000 after {lost_for} tries");
        }
    }
}
