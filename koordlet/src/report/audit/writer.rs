//! The log's thread: takes what waits, puts it into words, writes it, and tries again what the disk refused.
//! No failure ends it or the agent (the reference's dies of the first one).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::event::Event;
use super::files::LogFiles;
use super::queue::{Batch, Queue, What};
use super::stats::{AuditStats, add};
use super::subject;
use crate::state::pods::PodTable;

/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// Reason of the event that tells of lost ones.
const LOST: &str = "AuditEventsLost";

pub(super) struct Writer {
    pub(super) queue: Arc<Queue>,
    pub(super) files: LogFiles,
    pub(super) pods: watch::Receiver<Arc<PodTable>>,
    pub(super) verbose: u32,
    pub(super) stats: Arc<AuditStats>,
    /// Lines that the disk has not taken yet.
    pub(super) lines: VecDeque<Vec<u8>>,
    /// What the last attempt met, which was said.
    pub(super) trouble: Option<String>,
}

impl Writer {
    pub(super) fn run(mut self) {
        // Mended now and not at the first event: what is wrong is said at start.
        let opened = self.files.open();
        self.judge(opened);
        loop {
            let retry = (!self.lines.is_empty()).then_some(RETRY);
            let batch = self.queue.next(retry);
            let (flush, stop) = (batch.flush, batch.stop);
            self.take(batch);
            self.write();
            self.queue.flushed(flush);
            if stop && retry.is_none() {
                break;
            }
            if stop {
                // What came in while the disk was in trouble has its one chance, too.
                let rest = self.queue.next(None);
                self.take(rest);
                self.write();
                break;
            }
        }
        if !self.lines.is_empty() {
            self.stats.dropped.fetch_add(self.lines.len() as u64, std::sync::atomic::Ordering::Relaxed);
            tracing::warn!(events = self.lines.len(), "events are lost to the audit log at the end");
        }
    }

    fn take(&mut self, batch: Batch) {
        for (at, what) in batch.events {
            match what {
                What::Event(event) => self.line(event.at(at)),
                What::Write(record) => {
                    let pods = self.pods.borrow().clone();
                    for event in subject::events(record, at, &pods, self.verbose) {
                        self.line(event);
                    }
                }
            }
        }
        if batch.lost > 0 {
            let message = format!("{} events were lost: too many waited for the disk", batch.lost);
            self.line(Event::of_node(LOST, message).at(SystemTime::now()));
        }
    }

    fn line(&mut self, event: Event) {
        add(&self.stats.events, 1);
        self.lines.push_back(event.line());
    }

    fn write(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let written = self.files.append(&mut self.lines, SystemTime::now());
        if written.is_ok() {
            // Room for a burst is not kept for ever.
            self.lines = VecDeque::new();
        }
        self.judge(written);
    }

    /// Says once what is wrong, and that it is over.
    fn judge(&mut self, outcome: io::Result<()>) {
        let dir = self.files.dir().display();
        match outcome {
            Ok(()) => {
                if self.trouble.take().is_some() {
                    tracing::info!(%dir, "the audit log can be written again");
                }
            }
            Err(error) => {
                add(&self.stats.failed_writes, 1);
                let text = error.to_string();
                if self.trouble.as_ref() != Some(&text) {
                    tracing::warn!(%dir, %error, "the audit log cannot be written; tried again every 5 s");
                    self.trouble = Some(text);
                }
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.ended();
    }
}
