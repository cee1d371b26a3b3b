//! The executor's thread: the engine, woken by the inbox, by inotify, and by its own next deadline. It sleeps
//! in between; nothing is polled.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

use super::backend::Backend;
use super::backend::cgroup_file::CgroupFiles;
use super::backend::timed::Timed;
use super::diff::Files;
use super::engine::{Engine, EngineParts, SlowWrites};
use super::handle::{Ask, Executor, Inbox, NoticeSender, Stop, notices};
use super::keeper::{Keeper, KeeperParts, keepers};
use super::lane::Lanes;
use super::ledger::Damage;
use super::ledger::lock::LockError;
use super::report::{Notice, NoticeKind, RestoreReport, TargetReport};
use super::run_dir::{self, RunDirGuard};
use super::stats::{ExecutorStats, count};
use super::watch::{FileEvent, InotifyWatch, NoWatch, Watch};
use super::{ExecutorConfig, ExecutorError};
use crate::cgroup::layout::Layout;
use crate::ebpf::events::CgroupEvent;
use crate::error_chain::chain;
use crate::host::text_file;
use crate::units::Nanos;

/// Starts the executor: takes the lock, reads the ledger, and waits for the first plan.
pub fn spawn(config: ExecutorConfig) -> Result<Executor, ExecutorError> {
    let thread_error = |source| ExecutorError::Thread { source };
    let stats = Arc::new(ExecutorStats::default());
    let (lock, ledger, damage) = run_dir::open(&config)?;
    let files = CgroupFiles::new(Arc::clone(&config.layout));
    let backend: Arc<dyn Backend> = Arc::new(Timed::new(files, Arc::clone(&stats)));
    let inbox = Arc::new(Inbox::new().map_err(thread_error)?);
    let (sender, receiver) = notices(&stats);
    if let Some(damage) = damage {
        tell_damage(&damage, &config.run_dir, &stats, &sender);
    }
    let keepers = keepers(KeeperParts::of(&config));
    let mut engine = Engine::new(EngineParts {
        files: Files::new(Arc::clone(&config.layout), config.host_root),
        backend: Arc::clone(&backend),
        watch: open_watch(Arc::clone(&config.layout)),
        ledger,
        boot: boot_id(&config.roots.proc),
        dry_run: config.dry_run,
        slow_writes: SlowWrites::Lane,
        stats: Arc::clone(&stats),
    });
    engine.observe(config.observer);
    let lanes = Lanes::new(backend, Arc::clone(&inbox));
    let run_dir = RunDirGuard::new(config.run_dir, lock, now());
    let (alive, ended) = watch::channel(());
    let worker = Worker { engine, keepers, inbox: Arc::clone(&inbox), lanes, sender, run_dir, _alive: alive };
    let thread = thread::Builder::new()
        .name("executor".to_owned())
        .spawn(move || worker.run())
        .map_err(thread_error)?;
    Ok(Executor::new(inbox, stats, receiver, ended, thread))
}

/// Id of this boot; empty where procfs has none (a fixture), which is one boot for ever.
pub(super) fn boot_id(proc: &Path) -> String {
    let text = text_file::read(&proc.join("sys/kernel/random/boot_id"));
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn tell_damage(damage: &Damage, run_dir: &Path, stats: &ExecutorStats, sender: &NoticeSender) {
    count(&stats.ledger_damage);
    let kept = damage.kept_as.as_ref().map_or("nowhere".to_owned(), |path| path.display().to_string());
    let text = format!("{} damaged lines ({}) were set aside as {kept}", damage.lines, damage.what);
    sender.send(Notice {
        kind: NoticeKind::LedgerDamaged,
        target: run_dir.join(super::ledger::FILE).display().to_string(),
        text,
    });
}

fn open_watch(layout: Arc<Layout>) -> Box<dyn Watch> {
    match InotifyWatch::new(layout) {
        Ok(watch) => Box::new(watch),
        Err(error) => {
            tracing::warn!(
                %error,
                "no inotify: raise fs.inotify.max_user_instances; foreign writes are seen by the re-check"
            );
            Box::new(NoWatch)
        }
    }
}

struct Worker {
    engine: Engine,
    keepers: Vec<Box<dyn Keeper>>,
    inbox: Arc<Inbox>,
    lanes: Lanes,
    sender: NoticeSender,
    run_dir: RunDirGuard,
    /// Dropped however the thread ends.
    _alive: watch::Sender<()>,
}

impl Worker {
    fn run(mut self) {
        let stop = loop {
            self.sleep();
            let stop = self.work();
            for notice in self.engine.take_notices() {
                self.sender.send(notice);
            }
            if let Some(stop) = stop {
                break stop;
            }
            if !self.keep_run_dir() {
                return;
            }
            self.lanes.run(self.engine.take_slow_jobs(), self.engine.overdue_jobs());
        };
        let report = stop.restore.then(|| self.restore_all());
        drop(self);
        // Nobody may be waiting.
        let _heard = stop.done.send(report).is_ok();
    }

    /// Does all that waits; says whether to stop.
    fn work(&mut self) -> Option<Stop> {
        let pending = self.inbox.take();
        for (ticket, result) in pending.slow_done {
            self.engine.slow_done(ticket, result, now());
        }
        // Births before the plan: it may already know the newborn.
        let lost = (pending.lost > 0).then_some(CgroupEvent::Lost { count: pending.lost });
        for event in pending.events.iter().chain(&lost) {
            self.engine.cgroup_event(event, now());
            for keeper in &mut self.keepers {
                keeper.cgroup_event(event, &mut self.engine.books(now()));
            }
        }
        if let Some(plan) = pending.plan {
            for keeper in &mut self.keepers {
                keeper.apply(&plan, &mut self.engine.books(now()));
            }
            self.engine.apply(plan, now());
        }
        for event in self.file_events() {
            self.engine.file_event(&event, now());
        }
        self.engine.tick(now());
        for keeper in &mut self.keepers {
            keeper.tick(&mut self.engine.books(now()));
        }
        for ask in pending.asks {
            self.answer(ask);
        }
        pending.stop
    }

    /// Puts back what was cleared from the run directory; false if it is another agent's now.
    fn keep_run_dir(&mut self) -> bool {
        if !self.run_dir.misses_something(self.engine.ledger(), now()) {
            return true;
        }
        let path = self.run_dir.path().display().to_string();
        match self.run_dir.put_back(self.engine.ledger_mut()) {
            Ok(()) => tracing::warn!(path, "the run directory was cleared: lock and ledger are back"),
            Err(error @ ExecutorError::Lock(LockError::Held { .. })) => {
                tracing::error!(path, error = chain(&error), "the run directory was cleared, and taken");
                return false;
            }
            Err(error) => {
                tracing::warn!(path, error = chain(&error), "the run directory cannot be made again");
            }
        }
        true
    }

    fn answer(&mut self, ask: Ask) {
        // Whoever asked may have gone; then nobody misses the answer.
        let _heard = match ask {
            Ask::Explain(sender) => sender.send(self.explain()).is_ok(),
            Ask::Restore(sender) => {
                let report = self.restore_all();
                let (restored, failed) = (report.restored.len(), report.failed.len());
                tracing::warn!(
                    restored,
                    failed,
                    "asked to put everything back: nothing is enforced any more"
                );
                sender.send(report).is_ok()
            }
            Ask::Settled(sender) => sender.send(()).is_ok(),
        };
    }

    fn explain(&self) -> Vec<TargetReport> {
        let mut reports = self.engine.explain();
        for keeper in &self.keepers {
            reports.extend(keeper.explain(self.engine.ledger()));
        }
        reports
    }

    fn restore_all(&mut self) -> RestoreReport {
        let mut report = self.engine.restore_all(now());
        for keeper in &mut self.keepers {
            keeper.restore(&mut self.engine.books(now()), &mut report);
        }
        report
    }

    fn file_events(&mut self) -> Vec<FileEvent> {
        self.engine.watch_mut().drain().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read inotify events");
            vec![FileEvent::Overflow]
        })
    }

    /// Waits for the inbox, for inotify, or for the engine's next deadline.
    fn sleep(&self) {
        let deadlines = self.keepers.iter().map(|keeper| keeper.next_deadline());
        let next = deadlines.chain([self.engine.next_deadline()]).flatten().min();
        let timeout = next.map_or(PollTimeout::NONE, until);
        let inbox = PollFd::new(self.inbox.wake_descriptor().as_fd(), PollFlags::POLLIN);
        let inotify = self.engine.watch().descriptor().map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let mut descriptors: Vec<PollFd<'_>> = [Some(inbox), inotify].into_iter().flatten().collect();
        let polled = poll(&mut descriptors, timeout);
        if let Err(errno) = polled
            && errno != nix::errno::Errno::EINTR
        {
            // Without poll there is no waiting; do not spin.
            tracing::warn!(%errno, "cannot wait for events");
            thread::sleep(std::time::Duration::from_secs(1));
        }
    }
}

/// The time until `deadline`, in whole milliseconds, rounded up so that it has come then.
fn until(deadline: Nanos) -> PollTimeout {
    let millis = (deadline - now()).0.div_ceil(1_000_000);
    PollTimeout::from(u16::try_from(millis).unwrap_or(u16::MAX))
}

/// `CLOCK_MONOTONIC`.
pub(super) fn now() -> Nanos {
    let time =
        clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or_else(|_| nix::sys::time::TimeSpec::new(0, 0));
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec()).unwrap_or(0)))
}
