//! Threads for slow writes, so that a memory limit that the kernel reclaims for holds up nobody else. One is
//! the rule; another one is started when a write outlasts its deadline, up to a bound.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use super::backend::Backend;
use super::engine::SlowJob;
use super::handle::Inbox;

/// Most threads. A write that never ends keeps its thread; the others go on.
const MAX_LANES: usize = 4;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<SlowJob>,
    closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

/// The lanes. Dropped, they end after what they are at.
pub(super) struct Lanes {
    shared: Arc<Shared>,
    backend: Arc<dyn Backend>,
    inbox: Arc<Inbox>,
    threads: usize,
}

impl Lanes {
    pub(super) fn new(backend: Arc<dyn Backend>, inbox: Arc<Inbox>) -> Self {
        let shared = Arc::new(Shared { queue: Mutex::default(), more: Condvar::new() });
        Self { shared, backend, inbox, threads: 0 }
    }

    /// Takes jobs; with `overdue` of them stuck in the kernel, there is one thread more than that.
    pub(super) fn run(&mut self, jobs: Vec<SlowJob>, overdue: usize) {
        let wanted = (overdue + 1).min(MAX_LANES);
        if !jobs.is_empty() || overdue > 0 {
            while self.threads < wanted {
                match self.start() {
                    Ok(()) => self.threads += 1,
                    Err(error) => {
                        tracing::warn!(%error, "cannot start a thread for memory writes");
                        break;
                    }
                }
            }
        }
        if jobs.is_empty() {
            return;
        }
        if self.threads == 0 {
            // Better held up than not enforced.
            for job in jobs {
                let result = write(self.backend.as_ref(), &job);
                self.inbox.put(|pending| pending.slow_done.push((job.ticket, result)));
            }
            return;
        }
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).jobs.extend(jobs);
        self.shared.more.notify_all();
    }

    fn start(&self) -> io::Result<()> {
        let (shared, backend, inbox) =
            (Arc::clone(&self.shared), Arc::clone(&self.backend), Arc::clone(&self.inbox));
        thread::Builder::new().name("executor-mem".to_owned()).stack_size(128 * 1024).spawn(move || {
            while let Some(job) = next(&shared) {
                let result = write(backend.as_ref(), &job);
                inbox.put(|pending| pending.slow_done.push((job.ticket, result)));
            }
        })?;
        Ok(())
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.more.notify_all();
    }
}

fn next(shared: &Shared) -> Option<SlowJob> {
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if queue.closed {
            return None;
        }
        if let Some(job) = queue.jobs.pop_front() {
            return Some(job);
        }
        queue = shared.more.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

fn write(backend: &dyn Backend, job: &SlowJob) -> io::Result<()> {
    backend.write(&job.dir, job.resource, job.id, &job.text)
}
