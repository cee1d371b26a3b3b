//! Readings of a CPU time counter -> CPU use, collection.md 6.3. A pair that cannot be right gives no figure.

use crate::state::usage::NanoCpu;
use crate::units::Nanos;

/// A counter at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// `CLOCK_MONOTONIC`.
    pub(super) at: Nanos,
    /// CPU time until then.
    pub(super) total: Nanos,
}

/// CPU use between two readings on a machine of `cpus` CPUs.
///
/// `None` if no time passed, if the counter or the time went back, or if the figure is more than a tenth above
/// what the CPUs can do (the counter is another's). Below that, the kernel's late accounting of the running
/// slice is cut off at what the CPUs can do.
pub(super) fn between(from: Reading, to: Reading, cpus: u32) -> Option<NanoCpu> {
    let elapsed = Nanos(to.at.0.checked_sub(from.at.0)?);
    let used = Nanos(to.total.0.checked_sub(from.total.0)?);
    let usage = NanoCpu::over(used, elapsed)?;
    let most = NanoCpu(u64::from(cpus).saturating_mul(1_000_000_000));
    (usage.0.saturating_mul(10) <= most.0.saturating_mul(11)).then(|| usage.min(most))
}

/// The time that a look between two full ticks covers, design.md 4 ("fast to shrink").
const WINDOW: Nanos = Nanos(200_000_000);

/// Readings that are kept: looks come every 100 ms, and a full tick may fall between two.
const KEPT: usize = 5;

/// The last few readings of a counter, for a figure over about 200 ms.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    readings: Vec<Reading>,
}

impl Recent {
    /// Adds a reading; one that is not later, or whose counter went back, makes the earlier ones void.
    pub(super) fn push(&mut self, reading: Reading) {
        if self.readings.last().is_some_and(|last| last.at >= reading.at || last.total > reading.total) {
            self.readings.clear();
        }
        if self.readings.len() == KEPT {
            self.readings.remove(0);
        }
        self.readings.push(reading);
    }

    /// Use between the last reading and the one whose age comes nearest to 200 ms; `None` unless that is 100
    /// to 400 ms old.
    pub(super) fn usage(&self, cpus: u32) -> Option<NanoCpu> {
        let (last, earlier) = self.readings.split_last()?;
        let age = |reading: &Reading| last.at.0.saturating_sub(reading.at.0);
        let base = earlier.iter().min_by_key(|reading| age(reading).abs_diff(WINDOW.0))?;
        (WINDOW.0 / 2..=WINDOW.0 * 2).contains(&age(base)).then(|| between(*base, *last, cpus))?
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn reading(at: u64, total: u64) -> Reading {
        Reading { at: Nanos(at), total: Nanos(total) }
    }

    #[test]
    fn pod_cpu_follows_the_worked_example() {
        let usage = between(reading(0, 0), reading(1_000_100_000, 500_000_000), 2).unwrap();
        assert_eq!(usage.0, 499_950_004);
    }

    #[test]
    fn c074_no_time_or_time_backwards_gives_no_figure() {
        let first = reading(10 * S, 5 * S);
        assert_eq!(between(first, reading(10 * S, 6 * S), 64), None);
        assert_eq!(between(first, reading(9 * S, 7 * S), 64), None);
        assert_eq!(between(first, reading(11 * S, 7 * S), 64), Some(NanoCpu(2 * S)));
    }

    #[test]
    fn c076_a_counter_that_starts_anew_gives_no_figure_and_never_more_than_the_cpus() {
        assert_eq!(between(reading(0, 9 * S), reading(10 * S, MS), 2), None);
        assert_eq!(between(reading(10 * S, MS), reading(20 * S, MS + 10 * S), 2), Some(NanoCpu(S)));
        assert_eq!(between(reading(0, 0), reading(S, 2 * S + 8 * MS), 2), Some(NanoCpu(2 * S)));
        assert_eq!(between(reading(0, 0), reading(S, 3 * S), 2), None);
    }

    #[test]
    fn a_recent_figure_covers_about_200_ms() {
        let mut recent = Recent::default();
        for (at, total, usage) in [
            (0, 0, None),
            (100, 100, Some(S)),
            (200, 100, Some(S / 2)),
            (205, 105, Some(105 * S / 205)),
            (300, 200, Some(S / 2)),
            (400, 300, Some(S)),
        ] {
            recent.push(reading(at * MS, total * MS));
            assert_eq!(recent.usage(2).map(|usage| usage.0), usage, "at {at} ms");
        }
        recent.push(reading(1400 * MS, 1300 * MS));
        assert_eq!(recent.usage(2), None, "the last reading is a second old");
        recent.push(reading(1500 * MS, MS));
        assert_eq!(recent.usage(2), None, "the counter started anew");
        recent.push(reading(1600 * MS, 51 * MS));
        assert_eq!(recent.usage(2), Some(NanoCpu(S / 2)));
    }

    proptest! {
        #[test]
        fn a_figure_is_never_above_the_cpus(from: (u64, u64), to: (u64, u64), cpus in 1u32..8192) {
            let usage = between(reading(from.0, from.1), reading(to.0, to.1), cpus);
            prop_assert!(usage.is_none_or(|usage| usage.0 <= u64::from(cpus) * S));
        }
    }
}
