//! The clock of the agent's loops. Decisions never read it: they get the time as an argument.

use nix::time::{ClockId, clock_gettime};

use crate::units::Nanos;

/// `CLOCK_MONOTONIC` now. A machine without it (there is none) stays at 0, where no time passes.
pub fn monotonic() -> Nanos {
    let Ok(now) = clock_gettime(ClockId::CLOCK_MONOTONIC) else { return Nanos(0) };
    let seconds = u64::try_from(now.tv_sec()).unwrap_or(0);
    Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(now.tv_nsec()).unwrap_or(0)))
}
