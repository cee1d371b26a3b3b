//! The executor's core: one plan in, kernel files out, driven step by step with the time as an argument. It
//! starts no thread and waits for nothing; `worker` adds threads, inotify and timers.
//!
//! Life of a target: it becomes *due* (its decision changed, somebody wrote the file, its directory was born, a
//! retry or a re-check is up), is *examined* (goal, identity, present value), and if its file means something
//! else, *changed* together with all others that are due, in the order of `order`.

mod beside;
mod carry;
mod collect;
mod cpus;
mod events;
mod goal;
mod periods;
mod recheck;
mod relations;
mod report;
mod restore;
mod rounded;
mod slow;
mod tell;
mod track;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use self::slow::SlowJob;
use self::track::{Standing, Track};
use super::backend::Backend;
use super::diff::Files;
use super::keeper::Books;
use super::ledger::Ledger;
use super::observer::WriteObserver;
use super::report::{Notice, NoticeKind};
use super::stats::ExecutorStats;
use super::watch::{Place, Watch};
use crate::cgroup::resource::Resource;
use crate::claims::plan::{Decision, Plan};
use crate::claims::target::CgroupTarget;
use crate::units::{CfsQuota, Nanos};

/// Rounds of one settling: a write may make another target due at once, e.g. a child of a class directory.
const ROUNDS: usize = 4;

/// Most births that are remembered for a plan that does not know the directory yet.
const MAX_BIRTHS: usize = 4096;

/// Where slow writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowWrites {
    /// Done where they come up: for one-shot work and tests.
    Inline,
    /// Handed out as `SlowJob`s.
    Lane,
}

/// What a search beneath a class directory found.
#[derive(Clone, Copy, Debug)]
struct Search {
    /// The largest quota that fitted and was left; below it, another search is due.
    largest_left: CfsQuota,
    /// The kernel refused all the same, and one more search was made.
    repeated: bool,
}

/// What an engine works with.
pub struct EngineParts {
    /// Files and texts.
    pub files: Files,
    /// Reads and writes.
    pub backend: Arc<dyn Backend>,
    /// Watches.
    pub watch: Box<dyn Watch>,
    /// What was there before us.
    pub ledger: Ledger,
    /// Id of this boot.
    pub boot: String,
    /// Whether nothing may be written.
    pub dry_run: bool,
    /// Where slow writes go.
    pub slow_writes: SlowWrites,
    /// Counters.
    pub stats: Arc<ExecutorStats>,
}

/// The core. See the module's text.
pub struct Engine {
    parts: EngineParts,
    plan: Arc<Plan>,
    tracks: BTreeMap<CgroupTarget, Track>,
    /// Targets to examine, and when.
    due: BTreeMap<CgroupTarget, Nanos>,
    /// Targets whose last write was refused.
    refused: BTreeSet<CgroupTarget>,
    /// Recent births: id and time.
    births: HashMap<Place, (u64, Nanos)>,
    /// Texts of periods and bursts in watched directories; an event drops them.
    known: BTreeMap<CgroupTarget, String>,
    /// Targets whose unlimited baseline was asserted once.
    asserted: BTreeSet<CgroupTarget>,
    /// Class directories whose subtree was searched for quotas that nobody claims.
    searched: BTreeMap<CgroupTarget, Search>,
    recheck: recheck::Recheck,
    slow: slow::Slow,
    notices: Vec<Notice>,
    observer: Option<Arc<dyn WriteObserver>>,
    /// The last attempt to record an original failed, which was said.
    ledger_failing: bool,
    /// Everything was put back; plans are noted but no longer enforced.
    released: bool,
}

impl Engine {
    /// An engine with an empty plan. Ledger entries of another boot, or of directories that are not there any
    /// more, are dropped.
    pub fn new(mut parts: EngineParts) -> Self {
        let EngineParts { backend, boot, ledger, .. } = &mut parts;
        let kept = ledger.retain(boot, |entry| {
            let CgroupTarget { dir, resource } = &entry.target;
            backend.id(dir, *resource).is_ok_and(|id| id == entry.id)
        });
        if let Err(error) = kept {
            tracing::warn!(%error, "cannot drop stale entries from the ledger");
        }
        Self {
            parts,
            plan: Arc::default(),
            tracks: BTreeMap::new(),
            due: BTreeMap::new(),
            refused: BTreeSet::new(),
            births: HashMap::new(),
            known: BTreeMap::new(),
            asserted: BTreeSet::new(),
            searched: BTreeMap::new(),
            recheck: recheck::Recheck::default(),
            slow: slow::Slow::default(),
            notices: Vec::new(),
            observer: None,
            ledger_failing: false,
            released: false,
        }
    }

    /// Has `observer` hear of each write from now on.
    pub fn observe(&mut self, observer: Option<Arc<dyn WriteObserver>>) {
        self.observer = observer;
    }

    /// Makes `plan` the one to hold and carries out what it changes. An unchanged plan costs no system call.
    pub fn apply(&mut self, plan: Arc<Plan>, now: Nanos) {
        if Arc::ptr_eq(&plan, &self.plan) {
            return;
        }
        let old = std::mem::replace(&mut self.plan, plan);
        let plan = Arc::clone(&self.plan);
        let mut changed = plan.changed_from(&old);
        if old.synced != plan.synced || old.entries.is_empty() {
            changed.extend(self.parts.ledger.iter().map(|entry| entry.target.clone()));
            changed
                .extend(plan.entries.iter().filter(|(_, d)| d.owner.is_baseline()).map(|(t, _)| t.clone()));
        }
        if changed.is_empty() {
            return;
        }
        for target in &changed {
            self.decision_changed(target, now);
        }
        self.prune(&changed);
        self.settle(now);
        if changed.iter().any(|target| !self.holds(target)) {
            self.drop_unused_watches();
        }
    }

    /// Does what has become due by `now`.
    pub fn tick(&mut self, now: Nanos) {
        self.watch_slow_jobs(now);
        self.recheck_slice(now);
        self.settle(now);
    }

    /// When `tick` has something to do next; `None` if nothing is held and nothing is due.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let due = if self.released { None } else { self.due.values().min().copied() };
        [due, self.next_recheck(), self.slow.next_overdue()].into_iter().flatten().min()
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Counters.
    pub fn stats(&self) -> &Arc<ExecutorStats> {
        &self.parts.stats
    }

    /// The ledger.
    pub fn ledger(&self) -> &Ledger {
        &self.parts.ledger
    }

    /// What the keepers of other kinds of targets share with it.
    pub(super) fn books(&mut self, now: Nanos) -> Books<'_> {
        let EngineParts { ledger, stats, boot, dry_run, .. } = &mut self.parts;
        Books {
            ledger,
            stats,
            notices: &mut self.notices,
            observer: self.observer.as_ref(),
            boot,
            dry_run: *dry_run,
            now,
        }
    }

    /// The ledger, for whoever keeps its file in place.
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.parts.ledger
    }

    /// The watches, for whoever waits for their events.
    pub fn watch(&self) -> &dyn Watch {
        self.parts.watch.as_ref()
    }

    /// The watches, for whoever takes their events.
    pub fn watch_mut(&mut self) -> &mut dyn Watch {
        self.parts.watch.as_mut()
    }

    /// Notes what a change of decision means before anything is read.
    fn decision_changed(&mut self, target: &CgroupTarget, now: Nanos) {
        if matches!(self.plan.entries.get(target).map(|d| &d.decision), Some(Decision::Leave)) {
            self.forget(target);
        }
        if let Some(track) = self.tracks.get_mut(target) {
            track.refusal = None;
        }
        self.refused.remove(target);
        if !self.holds(target) {
            self.forget_searches_above(target);
        }
        self.make_due(target, now);
        for related in self.related(target) {
            self.make_due(&related, now);
        }
    }

    /// A quota that is no longer held may be anything from now on.
    fn forget_searches_above(&mut self, target: &CgroupTarget) {
        let CgroupTarget { dir, resource: Resource::CfsQuota } = target else { return };
        self.searched.retain(|CgroupTarget { dir: class, .. }, _| !class.contains(dir) || class == dir);
    }

    /// Drops what is kept of targets that are in neither the plan nor the ledger.
    fn prune(&mut self, changed: &[CgroupTarget]) {
        for target in changed {
            if !self.plan.entries.contains_key(target) && self.parts.ledger.get(target).is_none() {
                self.tracks.remove(target);
                self.refused.remove(target);
                self.asserted.remove(target);
                self.searched.remove(target);
                self.due.remove(target);
            }
        }
    }

    /// Ends the watches of directories in which nothing is held.
    fn drop_unused_watches(&mut self) {
        let needed: BTreeSet<Place> = self
            .tracks
            .iter()
            .filter(|(_, track)| !matches!(track.standing, Standing::Left(_)))
            .filter_map(|(target, _)| self.place(target))
            .collect();
        for place in self.parts.watch.places() {
            if !needed.contains(&place) {
                self.parts.watch.remove(&place);
                self.known.retain(|CgroupTarget { dir, .. }, _| *dir != place.dir);
            }
        }
    }

    /// Examines and changes whatever is due, until nothing is.
    fn settle(&mut self, now: Nanos) {
        for _ in 0..ROUNDS {
            if self.released {
                return;
            }
            let todos = self.collect(now);
            if todos.is_empty() {
                return;
            }
            self.carry_out(&todos, now);
        }
    }

    fn make_due(&mut self, target: &CgroupTarget, at: Nanos) {
        let due = self.due.entry(target.clone()).or_insert(at);
        *due = (*due).min(at);
    }

    fn track(&mut self, target: &CgroupTarget) -> &mut Track {
        self.tracks.entry(target.clone()).or_default()
    }

    fn stand(&mut self, target: &CgroupTarget, standing: Standing) {
        self.track(target).standing = standing;
    }

    /// The place of a target's file; `None` where the host has no such resource.
    fn place(&self, target: &CgroupTarget) -> Option<Place> {
        let CgroupTarget { dir, resource } = target;
        Some(Place { hierarchy: self.parts.files.hierarchy(*resource)?, dir: dir.clone() })
    }

    fn forget(&mut self, target: &CgroupTarget) {
        if let Err(error) = self.parts.ledger.forget(target) {
            tracing::warn!(%target, %error, "cannot note in the ledger that a target is restored");
        }
    }

    fn notify(&mut self, kind: NoticeKind, target: &CgroupTarget, text: String) {
        let target = self.parts.files.shown_path(target);
        self.notices.push(Notice { kind, target, text });
    }
}

#[cfg(test)]
pub(crate) mod emulated;
#[cfg(test)]
mod tests;
