//! The audit log, collection.md 13: each value that the agent has changed, with owner and reason, as lines of
//! JSON on disk, and pages of them over HTTP.
//!
//! `queue` takes events without waiting, `writer` is the thread that empties it into `files`. `page` answers
//! `GET /events` by way of `readers`, each a `reader` that goes through the files from their end. Nothing here
//! decides anything, and no trouble with the disk reaches the agent.

pub mod backwards;
pub mod event;
pub mod file_name;
pub mod files;
pub mod page;
pub mod query;
mod queue;
pub mod reader;
pub mod readers;
pub mod stamp;
pub mod stats;
pub mod subject;
mod writer;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use self::event::{Event, Level};
use self::files::{LogFiles, Room};
use self::queue::{Queue, What};
use self::stats::AuditStats;
use self::writer::Writer;
use crate::config::audit::AuditSettings;
use crate::executor::observer::{WriteObserver, WriteRecord};
use crate::state::pods::PodTable;

/// How long an orderly stop waits for the disk.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Takes events. Clone freely.
#[derive(Clone, Debug)]
pub struct AuditLog {
    queue: Arc<Queue>,
    stats: Arc<AuditStats>,
    verbose: u32,
}

impl AuditLog {
    /// Records an event that happened now, unless its level is above the set one. Never waits.
    pub fn record(&self, level: Level, event: Event) {
        if level.is_kept_at(self.verbose) {
            self.queue.put(SystemTime::now(), What::Event(event));
        }
    }

    /// Has what was recorded before written to the file; whether that was tried within `limit`.
    pub fn flush(&self, limit: Duration) -> bool {
        self.queue.flush(limit)
    }

    /// Counters.
    pub fn stats(&self) -> Arc<AuditStats> {
        Arc::clone(&self.stats)
    }
}

impl WriteObserver for AuditLog {
    fn wrote(&self, record: WriteRecord) {
        if subject::is_kept(&record, self.verbose) {
            self.queue.put(SystemTime::now(), What::Write(record));
        }
    }
}

/// The running log. Dropping it writes what waits, for 5 s at most.
#[derive(Debug)]
pub struct AuditWriter {
    log: AuditLog,
    thread: Option<JoinHandle<()>>,
}

impl AuditWriter {
    /// Starts the log's thread. Trouble with the directory is reported there and survived.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(settings: &AuditSettings, pods: watch::Receiver<Arc<PodTable>>) -> io::Result<Self> {
        let stats = Arc::new(AuditStats::default());
        let queue = Arc::new(Queue::new(Arc::clone(&stats)));
        let room = Room::of_mib(settings.max_disk_mib);
        let writer = Writer {
            queue: Arc::clone(&queue),
            files: LogFiles::new(settings.dir.clone(), room, Arc::clone(&stats)),
            pods,
            verbose: settings.verbose,
            stats: Arc::clone(&stats),
            lines: VecDeque::new(),
            trouble: None,
        };
        let thread =
            thread::Builder::new().name("audit".into()).stack_size(128 << 10).spawn(|| writer.run())?;
        let log = AuditLog { queue, stats, verbose: settings.verbose };
        Ok(Self { log, thread: Some(thread) })
    }

    /// Where to record.
    pub fn log(&self) -> &AuditLog {
        &self.log
    }
}

impl Drop for AuditWriter {
    fn drop(&mut self) {
        if !self.log.queue.stop(STOP_GRACE) {
            tracing::warn!("the audit log does not end: the disk does not answer");
            return;
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::warn!("the audit log's thread ended badly");
        }
    }
}

#[cfg(test)]
mod tests;
