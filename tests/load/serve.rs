//! A service with a request loop: requests arrive at a rate whether or not the last one is done, each costs the same
//! work, and the time from its arrival to its end is measured. That is what a latency-sensitive pod is.
//!
//! The rate (requests a second) is read from stdin, one number a line. Every 250 ms a line
//! `{"latencies_us":[...]}` with the requests that ended meanwhile goes to stdout.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

use crate::work::burn;

/// CPU time of one request.
const WORK: Duration = Duration::from_micros(500);
/// Time between two reports.
const REPORT: Duration = Duration::from_millis(250);

/// Serves until stdin ends.
pub(crate) fn run(workers: u32) -> Result<()> {
    let rounds = calibrate();
    let rate = Arc::new(AtomicU64::new(0));
    let done = Arc::new(Mutex::new(Vec::new()));
    let (arrivals, queue) = channel();
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..workers {
        let (queue, done) = (Arc::clone(&queue), Arc::clone(&done));
        drop(thread::spawn(move || work(&queue, rounds, &done)));
    }
    let of_arrivals = Arc::clone(&rate);
    drop(thread::spawn(move || arrive(&of_arrivals, &arrivals)));
    drop(thread::spawn(move || report(&done)));
    for line in std::io::stdin().lines() {
        if let Ok(wanted) = line?.trim().parse() {
            rate.store(wanted, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Rounds of work that take [`WORK`] when nobody disturbs: the fastest of some tries.
fn calibrate() -> u64 {
    const ROUNDS: u64 = 200_000;
    let tries = (0..20).map(|_| {
        let start = Instant::now();
        std::hint::black_box(burn(ROUNDS));
        start.elapsed()
    });
    let fastest = tries.min().unwrap_or(WORK).max(Duration::from_nanos(1));
    let rounds = u128::from(ROUNDS) * WORK.as_nanos() / fastest.as_nanos();
    u64::try_from(rounds).unwrap_or(ROUNDS)
}

/// Sends the time of each arrival. Arrivals are spread as those of many independent clients are.
fn arrive(rate: &AtomicU64, arrivals: &Sender<Instant>) {
    let mut next = Instant::now();
    let mut seed = 1_u64;
    loop {
        let rate = rate.load(Ordering::Relaxed);
        if rate == 0 {
            sleep(Duration::from_millis(10));
            next = Instant::now();
            continue;
        }
        next += Duration::from_secs(1).div_f64(rate as f64).mul_f64(exponential(&mut seed));
        sleep(next.saturating_duration_since(Instant::now()));
        if arrivals.send(next).is_err() {
            return;
        }
    }
}

/// The next of a fixed sequence of exponentially distributed numbers with mean 1, cut at 5.
fn exponential(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let uniform = ((*seed >> 33) as f64 + 1.0) / (f64::from(1_u32 << 31) + 1.0);
    (-uniform.ln()).min(5.0)
}

fn work(queue: &Mutex<Receiver<Instant>>, rounds: u64, done: &Mutex<Vec<u128>>) {
    loop {
        let arrival = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(arrival) = arrival else { return };
        std::hint::black_box(burn(rounds));
        let latency = arrival.elapsed().as_micros();
        done.lock().unwrap_or_else(PoisonError::into_inner).push(latency);
    }
}

fn report(done: &Mutex<Vec<u128>>) {
    loop {
        sleep(REPORT);
        let latencies = std::mem::take(&mut *done.lock().unwrap_or_else(PoisonError::into_inner));
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{}", json!({"latencies_us": latencies})).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_the_mean_that_was_asked_for() {
        let mut seed = 1;
        let mean = (0..10_000).map(|_| exponential(&mut seed)).sum::<f64>() / 10_000.0;
        assert!((0.9..1.05).contains(&mean), "{mean}");
    }
}
