//! What waits for the log's thread: bounded, so that whoever records never waits for the disk.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::event::Event;
use super::stats::AuditStats;
use crate::executor::observer::WriteRecord;

/// Most events that wait.
pub(super) const MAX_WAITING: usize = 4096;
/// So many are written at once without waiting for more.
const MANY: usize = 512;
/// How long the first of several waits for the others. The specification asks for 5 s at most.
const GATHER: Duration = Duration::from_secs(1);

/// Something to be written.
#[derive(Debug)]
pub(super) enum What {
    /// An event.
    Event(Event),
    /// A write of the executor, which becomes one or two events.
    Write(WriteRecord),
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(SystemTime, What)>,
    /// Since when the first of them has waited.
    since: Option<Instant>,
    /// Events that were lost since the last batch.
    lost: u64,
    /// Flushes that were asked for, and those that are done.
    asked: u64,
    done: u64,
    stop: bool,
    ended: bool,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// The thread has something to do.
    work: Condvar,
    /// A flush is done, or the thread has ended.
    progress: Condvar,
    stats: Arc<AuditStats>,
}

/// What the thread has to do.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// In order.
    pub(super) events: VecDeque<(SystemTime, What)>,
    /// Events that were lost before and between these.
    pub(super) lost: u64,
    /// To be handed to `Queue::flushed` after the attempt.
    pub(super) flush: u64,
    /// Whether it is the last one.
    pub(super) stop: bool,
}

impl Queue {
    pub(super) fn new(stats: Arc<AuditStats>) -> Self {
        Self { stats, ..Self::default() }
    }

    /// Takes something in, or counts it as lost. Never waits for more than another `put`.
    pub(super) fn put(&self, at: SystemTime, what: What) {
        let mut state = self.lock();
        if state.waiting.len() >= MAX_WAITING {
            state.lost += 1;
            let first = state.lost == 1;
            drop(state);
            self.stats.dropped.fetch_add(1, Ordering::Relaxed);
            if first {
                tracing::warn!(
                    waiting = MAX_WAITING,
                    "events are lost to the audit log: too many wait for the disk"
                );
            }
            return;
        }
        state.since.get_or_insert_with(Instant::now);
        state.waiting.push_back((at, what));
        let wake = state.waiting.len() == 1 || state.waiting.len() == MANY;
        drop(state);
        if wake {
            self.work.notify_one();
        }
    }

    /// Waits for something to write. After a failure nothing new is taken: the thread tries again what it has
    /// after `retry`, or earlier if asked to flush or to stop.
    pub(super) fn next(&self, retry: Option<Duration>) -> Batch {
        let mut state = self.lock();
        let deadline = retry.map(|pause| Instant::now() + pause);
        loop {
            let due = deadline.or_else(|| state.since.map(|since| since + GATHER));
            let many = retry.is_none() && state.waiting.len() >= MANY;
            if state.stop || state.asked > state.done || many {
                break;
            }
            let now = Instant::now();
            state = match due {
                Some(due) if due <= now => break,
                Some(due) => {
                    self.work.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let mut batch = Batch { flush: state.asked, stop: state.stop, ..Batch::default() };
        if retry.is_none() {
            batch.events = std::mem::take(&mut state.waiting);
            batch.lost = std::mem::take(&mut state.lost);
            state.since = None;
        }
        batch
    }

    /// The attempt that a flush asked for was made.
    pub(super) fn flushed(&self, flush: u64) {
        self.lock().done = flush;
        self.progress.notify_all();
    }

    /// Has the thread write what waits; whether it was done within `limit`.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let mut state = self.lock();
        state.asked += 1;
        let asked = state.asked;
        self.work.notify_one();
        let waits = |state: &mut State| state.done < asked && !state.ended;
        let (state, _) =
            self.progress.wait_timeout_while(state, limit, waits).unwrap_or_else(PoisonError::into_inner);
        state.done >= asked
    }

    /// Has the thread write what waits and end; whether it ended within `limit`.
    pub(super) fn stop(&self, limit: Duration) -> bool {
        let mut state = self.lock();
        state.stop = true;
        self.work.notify_one();
        let (state, _) = self
            .progress
            .wait_timeout_while(state, limit, |state| !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        state.ended
    }

    /// The thread is at its end.
    pub(super) fn ended(&self) {
        self.lock().ended = true;
        self.progress.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
