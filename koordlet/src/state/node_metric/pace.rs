//! When the next report is due: an interval after the last one, and the interval may change at any time.

use std::time::Duration;

use crate::units::Nanos;

/// The pace. Times are `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub struct ReportPace {
    last: Nanos,
}

impl ReportPace {
    /// Of an agent that can report from `now` on. The first report comes after an interval: there is nothing to tell
    /// yet.
    pub fn starting(now: Nanos) -> Self {
        Self { last: now }
    }

    /// When the next one is due with the interval that applies now: a new one counts at once, from the last report on.
    pub fn due(&self, interval: Duration) -> Nanos {
        self.last + Nanos(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX))
    }

    /// A report was tried. Rounds that were missed are not made up for.
    pub fn reported(&mut self, now: Nanos) {
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_interval_counts_at_once() {
        let second = 1_000_000_000;
        let mut pace = ReportPace::starting(Nanos(100 * second));
        let due = |pace: &ReportPace, seconds| pace.due(Duration::from_secs(seconds)).0 / second;
        assert_eq!((due(&pace, 60), due(&pace, 30), due(&pace, 300)), (160, 130, 400));
        pace.reported(Nanos(165 * second));
        assert_eq!(due(&pace, 60), 225);
        assert_eq!(pace.due(Duration::MAX), Nanos(u64::MAX));
    }
}
