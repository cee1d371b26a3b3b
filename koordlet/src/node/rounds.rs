//! Collectors that read files at their own pace, each in a thread of its own: one that the kernel keeps waiting
//! holds up nobody (design.md 4, collection.md 15 row 1).
//!
//! A round starts an interval after the last one ended; the first starts at once. A round that fails leaves
//! what it had published before, and is told once until one succeeds again.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::round_log::{RoundLog, RoundResult, RoundStats};
use crate::host::clock::monotonic;
use crate::units::Nanos;

/// Stack of a collector's thread: their work is shallow.
const STACK: usize = 256 << 10;

/// One collector.
pub trait Collect: Send + 'static {
    /// Its name in logs, metrics and `doctor`.
    fn name(&self) -> &'static str;

    /// One round at `now` (`CLOCK_MONOTONIC`).
    fn round(&mut self, now: Nanos) -> RoundResult;

    /// Whether it has found out that this node will never give it anything: its thread ends.
    fn is_over(&self) -> bool {
        false
    }
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
        let log = RoundLog::new(collector.name());
        let (stop, stats) = (Arc::clone(&self.stop), log.stats());
        thread::Builder::new()
            .name(format!("collect-{}", collector.name()))
            .stack_size(STACK)
            .spawn(move || run(collector, interval, &stop, log))?;
        self.stats.push(stats);
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

fn run(mut collector: impl Collect, interval: Duration, stop: &Stop, mut log: RoundLog) {
    while !stop.stopped.load(Ordering::Acquire) {
        log.note(|| collector.round(monotonic()));
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Tells of each round, and ends it as the test says.
    struct Led {
        begun: Sender<()>,
        ends: Receiver<End>,
        over: bool,
    }

    enum End {
        Good,
        Bad,
        Last,
    }

    fn led() -> (Led, Receiver<()>, Sender<End>) {
        let ((begun, rounds), (leave, ends)) = (channel(), channel());
        (Led { begun, ends, over: false }, rounds, leave)
    }

    impl Collect for Led {
        fn name(&self) -> &'static str {
            "led"
        }

        fn round(&mut self, _: Nanos) -> RoundResult {
            self.begun.send(())?;
            match self.ends.recv()? {
                End::Good => Ok(()),
                End::Bad => Err("refused".into()),
                End::Last => {
                    self.over = true;
                    Ok(())
                }
            }
        }

        fn is_over(&self) -> bool {
            self.over
        }
    }

    fn counts(rounds: &Rounds, index: usize) -> [u64; 2] {
        let (_, stats) = &rounds.stats()[index];
        [&stats.succeeded, &stats.failed].map(|count| count.load(Ordering::Relaxed))
    }

    #[test]
    fn c1_a_collector_that_hangs_holds_up_nobody_and_failures_end_no_thread() {
        let mut rounds = Rounds::default();
        let (hanging, begun, _leave) = led();
        rounds.start(hanging, Duration::ZERO).unwrap();
        begun.recv().unwrap();
        let (other, begun, leave) = led();
        rounds.start(other, Duration::ZERO).unwrap();
        for end in [End::Bad, End::Bad, End::Good, End::Last] {
            begun.recv().unwrap();
            leave.send(end).unwrap();
        }
        assert!(begun.recv().is_err(), "it has said that it is over: its thread ends");
        assert_eq!((counts(&rounds, 0), counts(&rounds, 1)), ([0, 0], [2, 2]));
    }

    #[test]
    fn threads_end_with_their_owner_however_long_their_interval_is() {
        let mut rounds = Rounds::default();
        let (collector, begun, leave) = led();
        rounds.start(collector, Duration::from_hours(24)).unwrap();
        begun.recv().unwrap();
        leave.send(End::Good).unwrap();
        drop(rounds);
        assert!(begun.recv().is_err(), "the thread has dropped its collector");
    }
}
