//! Attributes of tasks: core scheduling cookies and OOM score adjustments of the processes that a cgroup directory has.
//!
//! A directory is looked at when its claim is new, soon and again soon after it was born (a runtime moves its process
//! in and lets it fork in its own time), and twice a minute from then on: children inherit both attributes, so only
//! what comes in from outside has to be found. Nothing is claimed, nothing is looked at.
//!
//! What was there before is remembered in memory and not in the ledger, since processes do not outlive a boot and
//! seldom an agent. An agent that starts finds what one before it has set: it takes over cookies, and clears them when
//! they are no longer wished; of an OOM score it cannot know what it was before, so that one stays when its claim goes,
//! and ends with the container.

pub mod backend;
pub mod cookies;
mod explain;
mod looked;
pub mod scores;
pub mod stats;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use nix::unistd::Pid;

use self::backend::TaskBackend;
use self::cookies::{CookieBook, is_gone};
use self::looked::Looked;
use self::scores::ScoreBook;
use super::backend::answer;
use super::keeper::{Books, Keeper};
use super::ledger::Ledger;
use super::refusal::Refusal;
use super::report::{NoticeKind, RestoreReport, TargetReport};
use super::stats::count;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Controller;
use crate::claims::claim::Owner;
use crate::claims::plan::{Decision, Plan};
use crate::claims::target::{TaskAttribute, TaskTarget, TaskValue};
use crate::ebpf::events::CgroupEvent;
use crate::units::Nanos;

/// Time between two looks at a directory.
const LOOK: Nanos = Nanos(30_000_000_000);

/// Times between the looks at a directory that is new.
const FIRST_LOOKS: [Nanos; 4] =
    [Nanos(20_000_000), Nanos(100_000_000), Nanos(500_000_000), Nanos(2_000_000_000)];

/// Most directories of one turn, so that other work comes in between.
const TURN: usize = 64;

/// Time between two sweeps of the book of cookies, hooks.md 10.1.
const SWEEP: Nanos = Nanos(600_000_000_000);

/// Keeps attributes of tasks as the plan says.
pub(super) struct Tasks {
    backend: Box<dyn TaskBackend>,
    /// Root of the hierarchy whose directories tell the processes, as the host sees it.
    shown_root: PathBuf,
    plan: Arc<Plan>,
    tracks: BTreeMap<TaskTarget, Track>,
    /// When to look at which target; the same time as in its track.
    queue: BTreeSet<(Nanos, TaskTarget)>,
    cookies: CookieBook,
    scores: ScoreBook,
    /// Targets whose cookies from before the start are not taken over yet.
    unloaded: BTreeSet<TaskTarget>,
    /// Whether a plan has come that knows all pods of the start.
    knows_all: bool,
    swept: Nanos,
    released: bool,
}

/// How a target stands.
#[derive(Debug, Default)]
struct Track {
    standing: Standing,
    due: Option<Nanos>,
    /// How many of `FIRST_LOOKS` are behind it.
    looks: usize,
    refusal: Option<Refusal>,
    /// When a foreign write was told last.
    told: Option<Nanos>,
}

#[derive(Debug, Default)]
enum Standing {
    #[default]
    Unseen,
    /// Text of the value, and how many tasks hold it.
    Held(String, usize),
    /// There is no such directory.
    Missing,
    /// No process is in it.
    Empty,
    Refused,
    /// How many tasks would be looked at.
    DryRun(usize),
}

impl Tasks {
    /// Nothing held yet. `shown_root` is where the host sees the hierarchy that `backend` reads.
    pub(super) fn new(backend: Box<dyn TaskBackend>, shown_root: PathBuf) -> Self {
        Self {
            backend,
            shown_root,
            plan: Arc::default(),
            tracks: BTreeMap::new(),
            queue: BTreeSet::new(),
            cookies: CookieBook::default(),
            scores: ScoreBook::default(),
            unloaded: BTreeSet::new(),
            knows_all: false,
            swept: Nanos(0),
            released: false,
        }
    }

    /// Takes over the cookies that containers have before the first of them is changed: with one unknown, a second one
    /// would be made for its group. The last plan that this is done for is the first one that knows all pods.
    fn load_all(&mut self, books: &Books<'_>) {
        if books.dry_run || self.knows_all {
            return;
        }
        self.knows_all = self.plan.synced.contains(&Owner::CoreSched);
        let cookies =
            self.plan.tasks.keys().filter(|target| target.attribute == TaskAttribute::CoreSchedCookie);
        let new: Vec<TaskTarget> =
            cookies.filter(|target| !self.tracks.contains_key(*target)).cloned().collect();
        self.unloaded.extend(new.iter().cloned());
        for target in new {
            if let Ok(pids) = self.backend.pids(&target.dir) {
                self.load(&target, &pids, books.now);
            }
        }
    }

    /// Takes over the cookie of one container, if that is still to be done; tried again at its next look if none of its
    /// processes could be read.
    fn load(&mut self, target: &TaskTarget, pids: &[Pid], now: Nanos) {
        if !self.unloaded.contains(target) {
            return;
        }
        let group = match held(&self.plan, target) {
            Some(TaskValue::CookieOf(group)) => Arc::clone(group),
            // One of its own, to be cleared; labels have no slash.
            _ => target.dir.as_str().into(),
        };
        if self.cookies.load(&*self.backend, &target.dir, &group, pids, now) {
            self.unloaded.remove(target);
        }
    }

    /// Looks at one target and makes its tasks what they are to be.
    fn settle(&mut self, target: &TaskTarget, books: &mut Books<'_>) {
        let plan = Arc::clone(&self.plan);
        let (Some(value), Some(desired)) = (held(&plan, target), plan.tasks.get(target)) else { return };
        let pids = match self.backend.pids(&target.dir) {
            Ok(pids) => pids,
            Err(error) if is_gone(&error) => {
                self.stand(target, Standing::Missing, Some(books.now + LOOK));
                return self.forget(target, books);
            }
            Err(error) => return self.refuse(target, value, answer(&error), books),
        };
        let next = self.next_look(target, books.now);
        if books.dry_run || pids.is_empty() {
            let standing = if pids.is_empty() { Standing::Empty } else { Standing::DryRun(pids.len()) };
            return self.stand(target, standing, Some(next));
        }
        let looked = self.look(target, value, &pids, books);
        self.tell(target, &looked, Some(desired.owner), &desired.reason.text, books);
        self.tell_foreign(target, &looked, books);
        if let Some(error) = &looked.error {
            return self.refuse(target, value, answer(error), books);
        }
        self.stand(target, Standing::Held(looked.text, looked.holders), looked.again.then_some(next));
        if let Some(track) = self.tracks.get_mut(target) {
            track.refusal = None;
        }
    }

    fn look(&mut self, target: &TaskTarget, value: &TaskValue, pids: &[Pid], books: &Books<'_>) -> Looked {
        let dir = &target.dir;
        match value {
            TaskValue::OomScoreAdj(wished) => {
                let look = self.scores.hold(&*self.backend, dir, *wished, pids);
                let score = (look.holders > 0).then_some(*wished);
                books.stats.tasks.score(dir, score);
                Looked::of_score(wished.to_string(), look)
            }
            TaskValue::CookieOf(group) => {
                self.load(target, pids, books.now);
                let look = self.cookies.hold(&*self.backend, dir, group, pids, books.now);
                let cookie = (look.holders > 0).then_some((group, look.cookie));
                books.stats.tasks.cookie(dir, cookie);
                let done = look.error.is_none();
                if !done || !look.changed.is_empty() {
                    books.stats.tasks.cookies_set(group, done, books.now);
                }
                Looked::of_cookie(look, true)
            }
            TaskValue::NoCookie => {
                self.load(target, pids, books.now);
                let look = self.cookies.clear(&*self.backend, dir, pids);
                books.stats.tasks.cookie(dir, None);
                let again = self.unloaded.contains(target);
                let look = Looked::of_cookie(look, again);
                Looked { holders: pids.len(), ..look }
            }
        }
    }

    /// Gives back what a target's tasks had before; whether there was anything to give back.
    fn release(&mut self, target: &TaskTarget, books: &mut Books<'_>) -> Result<bool, String> {
        let owner = self.plan.tasks.get(target).map(|desired| desired.owner);
        let pids = self.backend.pids(&target.dir).unwrap_or_default();
        let mut looked = if books.dry_run {
            None
        } else {
            match target.attribute {
                TaskAttribute::OomScoreAdj => {
                    let look = self.scores.release(&*self.backend, &target.dir, &pids);
                    if look.unknown > 0 {
                        let tasks = look.unknown;
                        tracing::info!(%target, tasks, "what these had before is not known: they keep the value");
                    }
                    let given: Vec<String> = look.given.iter().map(i32::to_string).collect();
                    Some(Looked::of_score(given.join(", "), look))
                }
                TaskAttribute::CoreSchedCookie => {
                    Some(Looked::of_cookie(self.cookies.clear(&*self.backend, &target.dir, &pids), false))
                }
            }
        };
        let mut gave = false;
        if let Some(looked) = &looked {
            self.tell(target, looked, owner, "no longer claimed: back to what was there before", books);
            gave = !looked.changed.is_empty();
            if gave {
                count(&books.stats.restored);
            }
        }
        self.forget(target, books);
        self.set_due(target, None);
        self.tracks.remove(target);
        let error = looked.as_mut().and_then(|looked| looked.error.take());
        error.map_or(Ok(gave), |error| Err(answer(&error)))
    }

    /// Drops what is remembered of a directory that is gone or no longer claimed.
    fn forget(&mut self, target: &TaskTarget, books: &Books<'_>) {
        match target.attribute {
            TaskAttribute::OomScoreAdj => {
                self.scores.forget(&target.dir);
                books.stats.tasks.score(&target.dir, None);
            }
            TaskAttribute::CoreSchedCookie => {
                self.cookies.forget(&target.dir);
                books.stats.tasks.cookie(&target.dir, None);
                self.unloaded.remove(target);
            }
        }
    }

    fn refuse(&mut self, target: &TaskTarget, value: &TaskValue, why: String, books: &mut Books<'_>) {
        count(&books.stats.refused);
        let last = self.tracks.get(target).and_then(|track| track.refusal.as_ref());
        let refusal = Refusal::after(last, &value.to_string(), why, books.now);
        if refusal.is_new() {
            let said = format!("{value} was refused: {}; tried again with back-off", refusal.answer);
            books.notify(NoticeKind::Refused, self.path(target), said);
        }
        self.stand(target, Standing::Refused, Some(refusal.retry_at));
        if let Some(track) = self.tracks.get_mut(target) {
            track.refusal = Some(refusal);
        }
    }

    /// When to look again at a target that is looked at now.
    fn next_look(&mut self, target: &TaskTarget, now: Nanos) -> Nanos {
        let track = self.tracks.entry(target.clone()).or_default();
        let pause = FIRST_LOOKS.get(track.looks).copied().unwrap_or(LOOK);
        track.looks = track.looks.saturating_add(1);
        now + pause
    }

    fn stand(&mut self, target: &TaskTarget, standing: Standing, due: Option<Nanos>) {
        self.tracks.entry(target.clone()).or_default().standing = standing;
        self.set_due(target, due);
    }

    fn set_due(&mut self, target: &TaskTarget, due: Option<Nanos>) {
        let track = self.tracks.entry(target.clone()).or_default();
        if let Some(was) = std::mem::replace(&mut track.due, due) {
            self.queue.remove(&(was, target.clone()));
        }
        self.queue.extend(due.map(|due| (due, target.clone())));
    }

    /// The targets of a directory that the plan holds.
    fn held_in(&self, dir: &CgroupDir) -> Vec<TaskTarget> {
        let attributes = [TaskAttribute::OomScoreAdj, TaskAttribute::CoreSchedCookie];
        let targets = attributes.map(|attribute| TaskTarget { dir: dir.clone(), attribute });
        targets.into_iter().filter(|target| held(&self.plan, target).is_some()).collect()
    }
}

/// What the plan holds a target at.
fn held<'a>(plan: &'a Plan, target: &TaskTarget) -> Option<&'a TaskValue> {
    match &plan.tasks.get(target)?.decision {
        Decision::Hold(value) => Some(value),
        Decision::Leave | Decision::Release(_) => None,
    }
}

impl Keeper for Tasks {
    fn apply(&mut self, plan: &Arc<Plan>, books: &mut Books<'_>) {
        if self.released || (self.plan.tasks.is_empty() && plan.tasks.is_empty()) {
            return;
        }
        let held_before = self.plan.tasks.keys().filter(|target| held(&self.plan, target).is_some());
        let withdrawn: Vec<TaskTarget> =
            held_before.filter(|target| held(plan, target).is_none()).cloned().collect();
        for target in withdrawn {
            if let Err(why) = self.release(&target, books) {
                let said = format!("the former value was refused: {why}");
                books.notify(NoticeKind::Refused, self.path(&target), said);
            }
        }
        let old = std::mem::replace(&mut self.plan, Arc::clone(plan));
        self.load_all(books);
        for (target, desired) in &plan.tasks {
            let before = old.tasks.get(target);
            if before.is_some_and(|was| (&was.decision, was.owner) == (&desired.decision, desired.owner)) {
                continue;
            }
            // Another decision is another question. The directory itself is older than the plan that knows it.
            let track = self.tracks.entry(target.clone()).or_default();
            (track.refusal, track.looks) = (None, FIRST_LOOKS.len() - 1);
            self.settle(target, books);
        }
    }

    fn cgroup_event(&mut self, event: &CgroupEvent, books: &mut Books<'_>) {
        if self.released || self.plan.tasks.is_empty() {
            return;
        }
        match event {
            CgroupEvent::Born { controllers, dir, .. } if controllers.contains(&Controller::Cpu) => {
                for target in self.held_in(dir) {
                    self.forget(&target, books);
                    let track = self.tracks.entry(target.clone()).or_default();
                    (track.looks, track.refusal) = (0, None);
                    let due = self.next_look(&target, books.now);
                    self.set_due(&target, Some(due));
                }
            }
            CgroupEvent::Died { controllers, dir, .. } if controllers.contains(&Controller::Cpu) => {
                // It may have been made anew before the news came: the look tells.
                for target in self.held_in(dir) {
                    self.set_due(&target, Some(books.now));
                }
            }
            CgroupEvent::Lost { .. } => {
                let all: Vec<TaskTarget> = self.plan.tasks.keys().cloned().collect();
                for target in all {
                    if held(&self.plan, &target).is_some() {
                        self.set_due(&target, Some(books.now));
                    }
                }
            }
            CgroupEvent::Born { .. } | CgroupEvent::Died { .. } => {}
        }
    }

    fn tick(&mut self, books: &mut Books<'_>) {
        if self.released {
            return;
        }
        let due = self.queue.iter().take_while(|(due, _)| *due <= books.now).take(TURN);
        let due: Vec<TaskTarget> = due.map(|(_, target)| target.clone()).collect();
        for target in &due {
            count(&books.stats.rechecked);
            self.set_due(target, None);
            self.settle(target, books);
        }
        if !due.is_empty() && self.swept + SWEEP <= books.now {
            self.swept = books.now;
            self.cookies.sweep(books.now);
        }
    }

    fn next_deadline(&self) -> Option<Nanos> {
        self.queue.first().map(|(due, _)| *due).filter(|_| !self.released)
    }

    fn explain(&self, _: &Ledger) -> Vec<TargetReport> {
        self.plan.tasks.iter().map(|(target, desired)| self.explain_one(target, desired)).collect()
    }

    fn restore(&mut self, books: &mut Books<'_>, report: &mut RestoreReport) {
        let targets: Vec<TaskTarget> = self.tracks.keys().cloned().collect();
        for target in targets {
            match self.release(&target, books) {
                Ok(true) => report.restored.push(self.path(&target)),
                Ok(false) => {}
                Err(why) => report.failed.push((self.path(&target), why)),
            }
        }
        self.released = true;
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
