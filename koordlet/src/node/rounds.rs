//! Collectors that read files at their own pace, each in a thread of its own: one that the kernel keeps waiting
//! holds up nobody (design.md 4, collection.md 15 row 1).
//!
//! A round starts an interval after the last one ended; the first starts at once. A round that fails leaves
//! what it had published before, and is told once until one succeeds again.

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error_chain::chain;
use crate::host::clock::monotonic;
use crate::units::Nanos;

/// Stack of a collector's thread: their work is shallow.
const STACK: usize = 256 << 10;

/// One collector.
pub trait Collect: Send + 'static {
    /// Its name in logs, metrics and `doctor`.
    fn name(&self) -> &'static str;

    /// One round at `now` (`CLOCK_MONOTONIC`). An error is told to the operator; the round has published nothing.
    fn round(&mut self, now: Nanos) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// Whether it has found out that this node will never give it anything: its thread ends.
    fn is_over(&self) -> bool {
        false
    }
}

/// How a collector's rounds went. Shared with the metrics.
#[derive(Debug, Default)]
pub struct RoundStats {
    /// Rounds that succeeded.
    pub succeeded: AtomicU64,
    /// Rounds that failed.
    pub failed: AtomicU64,
    /// Time that all rounds took, nanoseconds.
    pub took: AtomicU64,
}

/// The running collectors. Dropped, they end after the round that they are in; nobody waits for that.
#[derive(Debug, Default)]
pub struct Rounds {
    stop: Arc<Stop>,
    stats: Vec<(&'static str, Arc<RoundStats>)>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Rounds {
    /// Starts `collector`, one round each `interval`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(&mut self, collector: impl Collect, interval: Duration) -> io::Result<()> {
        let name = collector.name();
        let stats = Arc::new(RoundStats::default());
        let (stop, counts) = (Arc::clone(&self.stop), Arc::clone(&stats));
        thread::Builder::new()
            .name(format!("collect-{name}"))
            .stack_size(STACK)
            .spawn(move || run(collector, interval, &stop, &counts))?;
        self.stats.push((name, stats));
        Ok(())
    }

    /// Each collector's name and how its rounds went.
    pub fn stats(&self) -> &[(&'static str, Arc<RoundStats>)] {
        &self.stats
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.stop.stopped.store(true, Ordering::Release);
        let _held = self.stop.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.bell.notify_all();
    }
}

fn run(mut collector: impl Collect, interval: Duration, stop: &Stop, stats: &RoundStats) {
    let mut failing = false;
    while !stop.stopped.load(Ordering::Acquire) {
        let started = Instant::now();
        match collector.round(monotonic()) {
            Ok(()) => {
                stats.succeeded.fetch_add(1, Ordering::Relaxed);
                failing = false;
            }
            Err(error) => {
                stats.failed.fetch_add(1, Ordering::Relaxed);
                if !failing {
                    tracing::warn!(collector = collector.name(), error = chain(&*error), "round failed");
                }
                failing = true;
            }
        }
        let took = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        stats.took.fetch_add(took, Ordering::Relaxed);
        if collector.is_over() {
            return;
        }
        stop.wait(interval);
    }
}

impl Stop {
    fn wait(&self, longest: Duration) {
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        // Woken early or not: the caller looks at the flag.
        drop(self.bell.wait_timeout_while(held, longest, |()| !self.stopped.load(Ordering::Acquire)));
    }
}
