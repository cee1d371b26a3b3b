//! What keeps the settings that are no cgroup files: one keeper for each kind of target. The worker hands each the
//! plan, events and the time; a keeper starts no thread, and nothing that it does may wait for long.

use std::sync::Arc;

use super::host_files::HostFiles;
use super::ledger::Ledger;
use super::observer::{WriteObserver, WriteRecord};
use super::report::{Notice, NoticeKind, RestoreReport, TargetReport};
use super::stats::ExecutorStats;
use crate::claims::plan::Plan;
use crate::ebpf::events::CgroupEvent;
use crate::host::roots::Roots;
use crate::units::Nanos;

/// All keepers there are.
pub(super) fn keepers(roots: Roots) -> Vec<Box<dyn Keeper>> {
    vec![Box::new(HostFiles::new(roots))]
}

/// What all keepers share with the engine of cgroup files.
pub(super) struct Books<'a> {
    /// What was there before us.
    pub(super) ledger: &'a mut Ledger,
    /// Counters.
    pub(super) stats: &'a ExecutorStats,
    /// Notices for the log and for Kubernetes.
    pub(super) notices: &'a mut Vec<Notice>,
    /// Who hears of writes.
    pub(super) observer: Option<&'a Arc<dyn WriteObserver>>,
    /// Id of this boot.
    pub(super) boot: &'a str,
    /// Whether nothing may be written.
    pub(super) dry_run: bool,
    /// `CLOCK_MONOTONIC`
    pub(super) now: Nanos,
}

impl Books<'_> {
    /// Tells of a write that the kernel took.
    pub(super) fn tell(&self, record: WriteRecord) {
        if let Some(observer) = self.observer {
            observer.wrote(record);
        }
    }

    /// Adds a notice.
    pub(super) fn notify(&mut self, kind: NoticeKind, target: String, text: String) {
        self.notices.push(Notice { kind, target, text });
    }
}

/// Keeps one kind of target.
pub(super) trait Keeper: Send {
    /// Makes `plan` the one to hold and carries out what it changes. One that changes nothing of this kind costs no
    /// system call.
    fn apply(&mut self, plan: &Arc<Plan>, books: &mut Books<'_>);

    /// A directory came or went, or events of that kind were lost.
    fn cgroup_event(&mut self, event: &CgroupEvent, books: &mut Books<'_>) {
        _ = (event, books);
    }

    /// Does what has become due.
    fn tick(&mut self, books: &mut Books<'_>);

    /// When `tick` has something to do next.
    fn next_deadline(&self) -> Option<Nanos>;

    /// One report a target of the plan.
    fn explain(&self, ledger: &Ledger) -> Vec<TargetReport>;

    /// Puts everything back; nothing is enforced from then on. Also asked of a keeper that never saw a plan, with
    /// nothing but the ledger to go by.
    fn restore(&mut self, books: &mut Books<'_>, report: &mut RestoreReport);
}
