//! The only room that changes the host: makes a plan true, in a safe order, reads back, remembers
//! originals, notices foreign writes.
//!
//! `worker` runs an `engine` on a thread of its own; `handle` is what the agent holds. The engine asks `diff`
//! what differs, `order` what goes first, writes through `backend`, and keeps what was there before in the
//! `ledger`. It decides nothing about values: that is `claims`' work.

pub mod backend;
pub mod diff;
pub mod engine;
pub mod foreign;
pub mod handle;
mod host_files;
mod keeper;
#[cfg(test)]
mod keeper_testing;
mod lane;
pub mod ledger;
pub mod network;
pub mod observer;
mod offline;
pub mod order;
mod own_files;
pub mod refusal;
pub mod report;
mod resctrl;
mod run_dir;
pub mod stats;
pub mod tasks;
pub mod watch;
mod worker;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use self::handle::Executor;
use self::ledger::LedgerError;
use self::ledger::lock::LockError;
use self::observer::WriteObserver;
pub use self::offline::restore_offline;
pub use self::report::{ClaimReport, Notice, NoticeKind, RestoreReport, TargetReport, TargetState};
pub use self::stats::ExecutorStats;
pub use self::worker::spawn;
use crate::cgroup::layout::Layout;
use crate::host::roots::Roots;

/// What the executor needs to know.
#[derive(Clone, Debug)]
pub struct ExecutorConfig {
    /// Where which file is, and what its text means.
    pub layout: Arc<Layout>,
    /// `--run-dir`: holds the ledger and the lock. Made if missing.
    pub run_dir: PathBuf,
    /// Roots of procfs and sysfs.
    pub roots: Roots,
    /// Decide and report, write nothing: neither host files nor the ledger, and take no lock.
    pub dry_run: bool,
    /// Our view of the cgroup root and the host's, where they differ (in a DaemonSet's pod), for shown paths.
    pub host_root: Option<(PathBuf, PathBuf)>,
    /// Hears of each write that the kernel took.
    pub observer: Option<Arc<dyn WriteObserver>>,
}

/// Why the executor cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The run directory could not be made.
    #[error("cannot make the run directory {path}")]
    RunDir {
        /// `--run-dir`
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Another agent runs, or the lock could not be had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The ledger could not be read or made.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A thread, or what it is woken with, could not be had.
    #[error("cannot start the executor's thread")]
    Thread {
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The executor has stopped, so that it cannot answer.
    #[error("the executor has stopped")]
    Stopped,
}
