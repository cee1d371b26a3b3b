//! What reads files of every group after each usage sample, in a thread of its own: reading a thousand groups may
//! take long, and the agent's loop does not wait for it (design.md 4).
//!
//! The loop offers each sample. While a round is going on one sample waits, and further ones are missed: the next
//! round follows an older sample, and the one after that is up to date again. Steps that make rates from files
//! take the time of each reading themselves.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use super::round_log::{RoundLog, RoundResult, RoundStats};
use crate::state::usage::Usage;

/// Stack of the thread: the work is shallow.
const STACK: usize = 512 << 10;

/// One part of each round.
pub trait Follow: Send + 'static {
    /// Its name in logs and metrics.
    fn name(&self) -> &'static str;

    /// Does its part after the sample `usage`. The steps after one that failed go on.
    fn follow(&mut self, usage: &Usage) -> RoundResult;
}

/// How rounds went. Shared with the metrics.
#[derive(Debug, Default)]
pub struct FollowerStats {
    /// Each step's name and rounds.
    pub steps: Vec<(&'static str, Arc<RoundStats>)>,
    /// Samples that no round followed: one was still going on.
    pub missed: AtomicU64,
}

/// The running thread. Dropped, it ends after the round that it is in; nobody waits for that.
#[derive(Debug)]
pub struct Follower {
    samples: SyncSender<Arc<Usage>>,
    stats: Arc<FollowerStats>,
}

impl Follower {
    /// Starts the thread. The steps of a round are done in this order, so that one can use what another has
    /// published.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(steps: Vec<Box<dyn Follow>>) -> io::Result<Self> {
        let steps: Vec<Step> = steps.into_iter().map(|step| (RoundLog::new(step.name()), step)).collect();
        let counts = steps.iter().map(|(log, _)| log.stats()).collect();
        let stats = Arc::new(FollowerStats { steps: counts, missed: AtomicU64::new(0) });
        let (sender, receiver) = sync_channel(1);
        thread::Builder::new()
            .name("group-files".to_owned())
            .stack_size(STACK)
            .spawn(move || run(steps, &receiver))?;
        Ok(Self { samples: sender, stats })
    }

    /// Has a round follow the sample, unless one is waiting already. Never waits.
    pub fn offer(&self, usage: &Arc<Usage>) {
        // A thread that is gone was told of where it ended.
        if let Err(TrySendError::Full(_)) = self.samples.try_send(Arc::clone(usage)) {
            self.stats.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How rounds went.
    pub fn stats(&self) -> Arc<FollowerStats> {
        Arc::clone(&self.stats)
    }
}

type Step = (RoundLog, Box<dyn Follow>);

fn run(mut steps: Vec<Step>, samples: &Receiver<Arc<Usage>>) {
    while let Ok(usage) = samples.recv() {
        for (log, step) in &mut steps {
            log.note(|| step.follow(&usage));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::units::Nanos;

    /// Tells of each round, and waits for leave to end it.
    struct Slow {
        begun: Sender<u64>,
        leave: Receiver<bool>,
    }

    impl Follow for Slow {
        fn name(&self) -> &'static str {
            "slow"
        }

        fn follow(&mut self, usage: &Usage) -> RoundResult {
            self.begun.send(usage.at.0)?;
            if self.leave.recv()? { Ok(()) } else { Err("refused".into()) }
        }
    }

    #[test]
    fn a_busy_follower_misses_samples_catches_up_survives_errors_and_ends_with_its_owner() {
        let ((begun, rounds), (leave, waits)) = (channel(), channel());
        let follower = Follower::start(vec![Box::new(Slow { begun, leave: waits })]).unwrap();
        let offer = |at| follower.offer(&Arc::new(Usage { at: Nanos(at), ..Usage::default() }));
        offer(1);
        assert_eq!(rounds.recv().unwrap(), 1);
        for at in 2..=4 {
            offer(at);
        }
        let stats = follower.stats();
        assert_eq!(stats.missed.load(Ordering::Relaxed), 2);
        leave.send(false).unwrap();
        assert_eq!(rounds.recv().unwrap(), 2);
        leave.send(true).unwrap();
        offer(5);
        assert_eq!(rounds.recv().unwrap(), 5);
        leave.send(true).unwrap();
        drop(follower);
        assert!(rounds.recv().is_err(), "the thread has dropped its step");
        let counts = &stats.steps[0].1;
        let counts = [&counts.succeeded, &counts.failed].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [2, 1]);
    }
}
