//! The agent's side of the executor: plans and events go in without waiting, questions are answered when their
//! turn comes. The worker's thread sleeps until something is in the inbox.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::{mpsc, oneshot, watch};

use super::ExecutorError;
use super::report::{Notice, RestoreReport, TargetReport};
use super::stats::{ExecutorStats, count};
use crate::claims::plan::Plan;
use crate::ebpf::events::CgroupEvent;

/// Events that may wait; more are counted as lost, which leads to a full look.
const MAX_EVENTS: usize = 8192;

/// Notices that may wait for whoever takes them.
const MAX_NOTICES: usize = 256;

/// How long `stop` gives the worker, which may have to restore.
const STOP_GRACE: Duration = Duration::from_secs(20);

/// A question to the worker.
pub(super) enum Ask {
    /// All targets' state.
    Explain(oneshot::Sender<Vec<TargetReport>>),
    /// Put everything back.
    Restore(oneshot::Sender<RestoreReport>),
    /// Tell when all that was handed in before is worked through.
    Settled(oneshot::Sender<()>),
}

/// What waits for the worker.
#[derive(Default)]
pub(super) struct Pending {
    /// The newest plan; an older one that was not looked at yet is of no interest.
    pub(super) plan: Option<Arc<Plan>>,
    pub(super) events: VecDeque<CgroupEvent>,
    pub(super) lost: u64,
    pub(super) asks: Vec<Ask>,
    pub(super) slow_done: Vec<(u64, io::Result<()>)>,
    pub(super) stop: Option<Stop>,
}

/// The last thing that a worker is asked.
pub(super) struct Stop {
    /// Whether everything is put back first.
    pub(super) restore: bool,
    /// Told at the very end, when the lock is free again.
    pub(super) done: oneshot::Sender<Option<RestoreReport>>,
}

/// Where the agent and the lanes put things for the worker.
pub(super) struct Inbox {
    pending: Mutex<Pending>,
    wake: EventFd,
}

impl Inbox {
    pub(super) fn new() -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self { pending: Mutex::default(), wake })
    }

    pub(super) fn put(&self, change: impl FnOnce(&mut Pending)) {
        change(&mut self.lock());
        // The counter is full only if the worker has 2^64 wake-ups to see already.
        if let Err(errno) = self.wake.write(1) {
            tracing::debug!(%errno, "the executor is awake already");
        }
    }

    /// Everything that waits; the next `put` wakes again.
    pub(super) fn take(&self) -> Pending {
        // EAGAIN: woken for another reason.
        let _woken = self.wake.read();
        std::mem::take(&mut *self.lock())
    }

    pub(super) fn wake_descriptor(&self) -> &EventFd {
        &self.wake
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sender of notices that never waits.
pub(super) struct NoticeSender {
    sender: mpsc::Sender<Notice>,
    stats: Arc<ExecutorStats>,
}

impl NoticeSender {
    pub(super) fn send(&self, notice: Notice) {
        if self.sender.try_send(notice).is_err() {
            count(&self.stats.notices_dropped);
        }
    }
}

pub(super) fn notices(stats: &Arc<ExecutorStats>) -> (NoticeSender, mpsc::Receiver<Notice>) {
    let (sender, receiver) = mpsc::channel(MAX_NOTICES);
    (NoticeSender { sender, stats: Arc::clone(stats) }, receiver)
}

/// The running executor. Dropping it stops the worker and restores nothing.
pub struct Executor {
    inbox: Arc<Inbox>,
    stats: Arc<ExecutorStats>,
    notices: Mutex<Option<mpsc::Receiver<Notice>>>,
    ended: watch::Receiver<()>,
    worker: Option<JoinHandle<()>>,
}

impl Executor {
    pub(super) fn new(
        inbox: Arc<Inbox>,
        stats: Arc<ExecutorStats>,
        notices: mpsc::Receiver<Notice>,
        ended: watch::Receiver<()>,
        worker: JoinHandle<()>,
    ) -> Self {
        Self { inbox, stats, notices: Mutex::new(Some(notices)), ended, worker: Some(worker) }
    }

    /// Done when the worker's thread has ended without having been asked to. An agent without it would look
    /// well and enforce nothing.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }

    /// Hands in the plan to make true. Does not wait; a plan that was not looked at yet is replaced.
    pub fn apply(&self, plan: Arc<Plan>) {
        self.inbox.put(|pending| pending.plan = Some(plan));
    }

    /// Tells of a cgroup that came or went. Does not wait.
    pub fn cgroup_event(&self, event: CgroupEvent) {
        self.inbox.put(|pending| {
            if pending.events.len() < MAX_EVENTS {
                pending.events.push_back(event);
            } else {
                pending.lost += 1;
            }
        });
    }

    /// Waits until what was handed in before has been carried out, as far as it can be at once.
    pub async fn settled(&self) -> Result<(), ExecutorError> {
        self.ask(Ask::Settled).await
    }

    /// The state of all targets of the plan.
    pub async fn explain(&self) -> Result<Vec<TargetReport>, ExecutorError> {
        self.ask(Ask::Explain).await
    }

    /// Puts everything back and enforces nothing from then on.
    pub async fn restore_all(&self) -> Result<RestoreReport, ExecutorError> {
        self.ask(Ask::Restore).await
    }

    /// Counters.
    pub fn stats(&self) -> Arc<ExecutorStats> {
        Arc::clone(&self.stats)
    }

    /// The stream of notices; the first caller gets it.
    pub fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops the worker and waits for it, 20 s at most; with `restore`, everything is put back first. What is
    /// held stays as it is without.
    pub async fn stop(mut self, restore: bool) -> Option<RestoreReport> {
        let worker = self.worker.take()?;
        let (done, told) = oneshot::channel();
        self.inbox.put(|pending| pending.stop = Some(Stop { restore, done }));
        match tokio::time::timeout(STOP_GRACE, told).await {
            Ok(Ok(report)) => {
                // It is at its last line.
                if worker.join().is_err() {
                    tracing::warn!("the executor's thread ended badly");
                }
                report
            }
            Ok(Err(_)) => {
                tracing::warn!("the executor's thread had ended already");
                None
            }
            Err(_) => {
                tracing::warn!("the executor does not stop: a write is still in the kernel");
                None
            }
        }
    }

    async fn ask<T>(&self, ask: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, ExecutorError> {
        let (sender, receiver) = oneshot::channel();
        self.inbox.put(|pending| pending.asks.push(ask(sender)));
        receiver.await.map_err(|_| ExecutorError::Stopped)
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if self.worker.is_some() {
            let (done, _nobody_waits) = oneshot::channel();
            self.inbox.put(|pending| pending.stop = Some(Stop { restore: false, done }));
        }
    }
}
