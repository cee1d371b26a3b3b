//! Flags of the audit log and its HTTP page, and what they resolve to (collection.md 13, 14).

use std::path::PathBuf;

use clap::Args;

use super::gates::{Gate, Gates};
use super::mistakes::Mistakes;

/// As typed.
#[derive(Args, Clone, Debug)]
pub struct AuditFlags {
    /// Directory of the audit log (gate AuditEvents)
    #[arg(long, value_name = "DIR", default_value = "/var/log/koordlet")]
    pub audit_log_dir: String,
    /// Events above this level are not logged; 0 logs all
    #[arg(long, value_name = "LEVEL", default_value = "3")]
    pub audit_verbose: String,
    /// MiB that the audit log may take on disk
    #[arg(long, value_name = "MIB", default_value = "16")]
    pub audit_max_disk_space_mb: String,
    /// Readers of /events at the same time (gate AuditEventsHTTPHandler)
    #[arg(long, value_name = "N", default_value = "4")]
    pub audit_max_concurrent_readers: String,
    /// Events that one request of /events may ask for
    #[arg(long, value_name = "N", default_value = "2048")]
    pub audit_max_events_limit: String,
}

/// What is audited and who may read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// Whether anything is logged (gate AuditEvents).
    pub enabled: bool,
    /// Whether `/events` is served (gate AuditEventsHTTPHandler).
    pub http: bool,
    /// Directory of the log.
    pub dir: PathBuf,
    /// Events above this level are not logged; 0 logs all.
    pub verbose: u32,
    /// MiB on disk, 2 at least: the current file and one before it.
    pub max_disk_mib: u64,
    /// Readers at the same time, 1 at least.
    pub max_readers: usize,
    /// Events a request, 1 at least.
    pub max_events: usize,
}

/// Resolves the audit's flags and gates. A number that is too small is raised to the least one, and a notice
/// says so: the reference stops at start instead (collection.md 15 row 17).
pub(super) fn resolve(
    flags: &AuditFlags,
    gates: &Gates,
    mistakes: &mut Mistakes,
    notices: &mut Vec<String>,
) -> Option<AuditSettings> {
    let mut number = |flag: &str, text: &str, least: i64| {
        let value = mistakes.whole_number(flag, text)?;
        if value < least {
            notices.push(format!("--{flag}={value} is below the least value: {least} is used"));
        }
        u64::try_from(value.max(least)).ok()
    };
    let verbose = number("audit-verbose", &flags.audit_verbose, 0);
    let max_disk_mib = number("audit-max-disk-space-mb", &flags.audit_max_disk_space_mb, 2);
    let max_readers = number("audit-max-concurrent-readers", &flags.audit_max_concurrent_readers, 1);
    let max_events = number("audit-max-events-limit", &flags.audit_max_events_limit, 1);
    Some(AuditSettings {
        enabled: gates.is_on(Gate::AuditEvents),
        http: gates.is_on(Gate::AuditEventsHttpHandler),
        dir: PathBuf::from(&flags.audit_log_dir),
        verbose: u32::try_from(verbose?).unwrap_or(u32::MAX),
        max_disk_mib: max_disk_mib?,
        max_readers: usize::try_from(max_readers?).unwrap_or(usize::MAX),
        max_events: usize::try_from(max_events?).unwrap_or(usize::MAX),
    })
}
