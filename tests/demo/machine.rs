//! How busy the whole machine is: the demo seldom has it to itself, and the agent counts what others use.

use std::fs;

use anyhow::{Context as _, Result};

/// Clock ticks of all CPUs since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    busy: u64,
    idle: u64,
}

impl Ticks {
    /// As they are now.
    pub(crate) fn read() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        Self::of(&text).context("/proc/stat has no line of all CPUs")
    }

    /// Fields four and five are idle time; the last two, of guests, are part of the first ones.
    fn of(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let fields: Vec<u64> =
            line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let idle = fields.get(3)? + fields.get(4)?;
        Some(Self { busy: fields.iter().sum::<u64>() - idle, idle })
    }

    /// The share of all CPUs' time that was used since `before`.
    pub(crate) fn share_since(self, before: Self) -> f64 {
        let busy = self.busy.saturating_sub(before.busy) as f64;
        let idle = self.idle.saturating_sub(before.idle) as f64;
        if busy + idle > 0.0 { busy / (busy + idle) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_are_not_counted_twice_and_waiting_is_idle() {
        let before = Ticks::of("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n").expect("parsed");
        assert_eq!(before, Ticks { busy: 20, idle: 80 });
        let after = Ticks::of("cpu  30 0 20 130 10 0 0 0 9 0\n").expect("parsed");
        assert!((after.share_since(before) - 1.0 / 3.0).abs() < 1e-9);
        assert!(before.share_since(before).abs() < 1e-9, "no time has passed");
        assert_eq!(Ticks::of("cpu0 1 2 3 4 5\n"), None);
    }
}
