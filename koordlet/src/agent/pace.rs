//! When what is due: the sample, suppression's full step and its look, the host's slow facts.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// How often suppression looks between full steps, design.md 2.
const LOOK: Duration = Duration::from_millis(100);
/// How often CPUs and the kubelet's state file are read again.
const HOST: Duration = Duration::from_secs(10);
/// How long births and deaths are gathered before a new plan.
pub(super) const GATHER: Duration = Duration::from_millis(10);

/// The timers of the loop. A late tick is not made up for.
pub(super) struct Pace {
    /// Full samples.
    pub(super) sample: Interval,
    /// Full steps of suppression.
    pub(super) step: Interval,
    /// Ticks of the other strategies.
    pub(super) strategies: Interval,
    /// Looks of suppression.
    pub(super) look: Interval,
    /// Slow facts.
    pub(super) host: Interval,
}

impl Pace {
    /// Timers that start now; `step` and `strategies` are only polled where there is something to do.
    pub(super) fn new(sample: Duration, step: Duration, strategies: Duration) -> Self {
        let every = |period: Duration, first: Duration| {
            let mut interval = interval_at(Instant::now() + first, period.max(Duration::from_millis(1)));
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        };
        Self {
            sample: every(sample, Duration::ZERO),
            step: every(step, Duration::ZERO),
            strategies: every(strategies, Duration::ZERO),
            look: every(LOOK, LOOK),
            host: every(HOST, HOST),
        }
    }
}
