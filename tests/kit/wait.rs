//! Waiting for something to become true, with a generous end. Tests never assert how long it took.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::guest_scale;

/// Long enough for any reaction on a machine that has much else to do: no test asserts how long one took.
pub fn patience() -> Duration {
    Duration::from_secs(guest_scale(60, 180))
}

/// Polls `done` every few milliseconds until it is true or `limit` has passed; says whether it became true.
pub fn until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
}

/// Polls `look` until it gives a value that `right` accepts, or `limit` has passed; returns the last look.
pub fn until_value<T>(limit: Duration, mut look: impl FnMut() -> T, right: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + limit;
    loop {
        let value = look();
        if right(&value) || Instant::now() >= end {
            return value;
        }
        sleep(Duration::from_millis(5));
    }
}
