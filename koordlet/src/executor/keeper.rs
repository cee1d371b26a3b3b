//! What keeps the settings that are no cgroup files: one keeper for each kind of target. The worker hands each the
//! plan, events and the time; a keeper starts no thread, and nothing that it does may wait for long.

use std::path::PathBuf;
use std::sync::Arc;

use super::ExecutorConfig;
use super::host_files::HostFiles;
use super::ledger::Ledger;
use super::network::Network;
use super::observer::{WriteObserver, WriteRecord};
use super::own_files::OwnFiles;
use super::report::{Notice, NoticeKind, RestoreReport, TargetReport};
use super::resctrl::{KernelTree, Resctrl, Threads};
use super::stats::ExecutorStats;
use super::tasks::Tasks;
use super::tasks::backend::HostTasks;
use crate::cgroup::layout::Layout;
use crate::cgroup::resource::Controller;
use crate::claims::plan::Plan;
use crate::ebpf::events::CgroupEvent;
use crate::host::roots::Roots;
use crate::units::Nanos;

/// What keepers work with.
#[derive(Clone, Debug)]
pub(super) struct KeeperParts {
    /// Where which cgroup hierarchy is.
    pub(super) layout: Arc<Layout>,
    /// Roots of procfs and sysfs.
    pub(super) roots: Roots,
    /// Our view of the cgroup root and the host's, where they differ, for shown paths.
    pub(super) host_root: Option<(PathBuf, PathBuf)>,
}

impl KeeperParts {
    /// Those of `config`.
    pub(super) fn of(config: &ExecutorConfig) -> Self {
        let ExecutorConfig { layout, roots, host_root, .. } = config;
        Self { layout: Arc::clone(layout), roots: roots.clone(), host_root: host_root.clone() }
    }

    /// Root of a controller's hierarchy as the host sees it.
    fn shown_root(&self, controller: Controller) -> PathBuf {
        let Some(root) = self.layout.hierarchy_root(controller) else { return PathBuf::from("/") };
        let host = self.host_root.as_ref();
        let host = host.and_then(|(ours, hosts)| Some(hosts.join(root.strip_prefix(ours).ok()?)));
        host.unwrap_or_else(|| root.to_owned())
    }
}

/// All keepers there are. Switches of the host come before what they switch on.
pub(super) fn keepers(parts: KeeperParts) -> Vec<Box<dyn Keeper>> {
    let tasks = HostTasks::new(&parts.layout, &parts.roots.proc);
    let tasks = Tasks::new(Box::new(tasks), parts.shown_root(Controller::Cpu));
    let own_files = OwnFiles::new(parts.roots.terway_qos.clone());
    let network = Box::<Network>::default();
    let threads = Threads::new(Arc::clone(&parts.layout), parts.shown_root(Controller::Cpu));
    let resctrl = Resctrl::new(threads, Box::new(KernelTree::new(&parts.roots.sys_fs)));
    let host_files = HostFiles::new(parts.roots);
    vec![Box::new(host_files), Box::new(tasks), network, Box::new(own_files), Box::new(resctrl)]
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
