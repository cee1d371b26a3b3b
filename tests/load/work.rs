//! What the threads of a load process do.

use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Busy for ever.
pub(crate) fn spin() {
    let mut value = 1_u64;
    loop {
        value = black_box(step(value));
    }
}

/// Busy for `percent` of each 10 ms of wall time.
pub(crate) fn duty(percent: u32) {
    let period = Duration::from_millis(10);
    let busy = period * percent.min(100) / 100;
    loop {
        let start = Instant::now();
        while start.elapsed() < busy {
            black_box(burn(1_000));
        }
        sleep(period.saturating_sub(start.elapsed()));
    }
}

/// Works for a moment, sleeps for `pause`, and so on: never idle for long, and next to free.
pub(crate) fn blink(pause: Duration) {
    loop {
        black_box(burn(1_000));
        sleep(pause);
    }
}

/// A fixed amount of work: the result of `rounds` steps.
pub(crate) fn burn(rounds: u64) -> u64 {
    (0..rounds).fold(1, |value, _| step(value))
}

fn step(value: u64) -> u64 {
    black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
}
