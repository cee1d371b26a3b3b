//! Keeps resctrl as the plan says: mounts it, makes groups, writes the lines that differ by meaning, moves tasks, and
//! removes groups that nobody claims any more (hooks.md 11.1, H23; qos.md 5.6). Nothing tells of foreign writes or of
//! processes that join a directory later, so all is compared again every ten seconds; threads that a task makes are in
//! its group by themselves.
//!
//! A group that we made is in the ledger. The original of its tasks is the root group, where the kernel puts them when
//! it is removed.

mod explain;
#[cfg(test)]
mod folder_kernel;
mod groups;
mod lines;
mod members;
#[cfg(test)]
mod tests;
mod threads;
mod tree;
mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::groups::{GroupTrack, Orphan};
use self::members::MemberTrack;
pub(super) use self::threads::Threads;
pub(super) use self::tree::KernelTree;
use self::tree::Tree;
use self::wanted::Wanted;
use super::backend::answer;
use super::keeper::{Books, Keeper};
use super::ledger::{Ledger, Made};
use super::observer::{WriteRecord, WriteSubject};
use super::refusal::Refusal;
use super::report::{NoticeKind, RestoreReport, TargetReport};
use super::stats::count;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::{Controller, Resource};
use crate::claims::plan::Plan;
use crate::ebpf::events::CgroupEvent;
use crate::resctrl::group::ResctrlGroup;
use crate::units::Nanos;

/// Everything is compared once in this time, the reference's pace of pods.
const LOOK: Nanos = Nanos(10_000_000_000);

/// How the file system stands to us.
#[derive(Debug, Default)]
enum Standing {
    /// Not looked at yet, or what it needs is not there yet.
    #[default]
    Pending,
    Held,
    Refused,
    DryRun,
}

/// The file system itself.
#[derive(Debug, Default)]
struct MountTrack {
    standing: Standing,
    due: Option<Nanos>,
    refusal: Option<Refusal>,
}

/// The keeper.
pub(super) struct Resctrl {
    tree: Box<dyn Tree>,
    threads: Threads,
    plan: Arc<Plan>,
    wanted: Wanted,
    mount: MountTrack,
    groups: BTreeMap<ResctrlGroup, GroupTrack>,
    members: BTreeMap<CgroupDir, MemberTrack>,
    /// Groups of ours that nobody claims.
    orphans: BTreeMap<ResctrlGroup, Orphan>,
    /// When to look for such groups.
    sweep: Option<Nanos>,
    released: bool,
}

impl Resctrl {
    /// Nothing held yet.
    pub(super) fn new(threads: Threads, tree: Box<dyn Tree>) -> Self {
        Self {
            tree,
            threads,
            plan: Arc::default(),
            wanted: Wanted::default(),
            mount: MountTrack::default(),
            groups: BTreeMap::new(),
            members: BTreeMap::new(),
            orphans: BTreeMap::new(),
            sweep: None,
            released: false,
        }
    }

    /// Does what is due.
    fn settle(&mut self, books: &mut Books<'_>) {
        if self.released {
            return;
        }
        let now = books.now;
        let is_due = |due: Option<Nanos>| due.is_some_and(|due| due <= now);
        if is_due(self.mount.due) {
            self.settle_mount(books);
        }
        let due = self.groups.iter().filter(|(_, track)| is_due(track.due)).map(|(group, _)| group.clone());
        for group in due.collect::<Vec<_>>() {
            self.settle_group(&group, books);
        }
        self.settle_members(books);
        if is_due(self.sweep) {
            self.sweep(books);
        }
    }

    fn settle_mount(&mut self, books: &mut Books<'_>) {
        let Some(owner) = self.wanted.mount else {
            self.mount = MountTrack::default();
            return;
        };
        let was_held = matches!(self.mount.standing, Standing::Held);
        if self.tree.is_mounted() {
            self.mount = MountTrack { standing: Standing::Held, due: Some(books.now + LOOK), refusal: None };
            if !was_held {
                self.all_due(books.now);
            }
            return;
        }
        if books.dry_run {
            self.mount =
                MountTrack { standing: Standing::DryRun, due: Some(books.now + LOOK), refusal: None };
            return;
        }
        let mounted = self.tree.mount().map_err(|error| answer(&error));
        match mounted.and_then(|()| self.tree.is_mounted().then_some(()).ok_or("nothing is there".to_owned()))
        {
            Ok(()) => {
                count(&books.stats.written);
                let why = "groups of cache and bandwidth are wanted".to_owned();
                books.tell(WriteRecord {
                    subject: WriteSubject::Host,
                    path: ROOT.to_owned(),
                    value: "mounted".to_owned(),
                    was: "not mounted".to_owned(),
                    owner: Some(owner),
                    why,
                });
                self.mount =
                    MountTrack { standing: Standing::Held, due: Some(books.now + LOOK), refusal: None };
                self.all_due(books.now);
            }
            Err(why) => {
                let refusal = refuse(self.mount.refusal.as_ref(), ROOT, "mount", why, books);
                let due = Some(refusal.retry_at);
                self.mount = MountTrack { standing: Standing::Refused, due, refusal: Some(refusal) };
            }
        }
    }

    fn all_due(&mut self, now: Nanos) {
        for track in self.groups.values_mut() {
            track.due = Some(now);
        }
        for track in self.members.values_mut() {
            track.due = Some(now);
        }
        self.sweep = Some(now);
    }

    /// Takes over what a new plan wants: what differs from the last one is due.
    fn take(&mut self, wanted: Wanted, now: Nanos) {
        let old = std::mem::replace(&mut self.wanted, wanted);
        let wanted = &self.wanted;
        if old.mount != wanted.mount {
            self.mount.due = Some(now);
        }
        self.groups.retain(|group, _| wanted.groups.contains_key(group));
        for (group, wish) in &wanted.groups {
            self.orphans.remove(group);
            if old.groups.get(group).map(|old| &old.lines) != Some(&wish.lines) {
                self.groups.entry(group.clone()).or_default().ask_again(now);
            }
        }
        self.members.retain(|dir, _| wanted.members.contains_key(dir));
        for (dir, member) in &wanted.members {
            if old.members.get(dir).map(|old| &old.group) != Some(&member.group) {
                self.members.insert(dir.clone(), MemberTrack::due_at(now));
            }
        }
        let let_go = old.groups.keys().any(|group| !wanted.groups.contains_key(group));
        if let_go || old.synced != wanted.synced || old.mount != wanted.mount {
            self.sweep = Some(now);
        }
    }
}

/// The file system as the host sees it.
const ROOT: &str = "/sys/fs/resctrl";

impl Keeper for Resctrl {
    fn apply(&mut self, plan: &Arc<Plan>, books: &mut Books<'_>) {
        let old = std::mem::replace(&mut self.plan, Arc::clone(plan));
        if old.resctrl == plan.resctrl && old.synced == plan.synced {
            return;
        }
        self.take(Wanted::of(plan), books.now);
        self.settle(books);
    }

    /// A directory beneath a claimed one: its processes are still on their way.
    fn cgroup_event(&mut self, event: &CgroupEvent, books: &mut Books<'_>) {
        match event {
            CgroupEvent::Born { controllers, dir, .. } if controllers.contains(&TASKS) => {
                let mut at = Some(dir.clone());
                while let Some(dir) = at {
                    if let Some(track) = self.members.get_mut(&dir) {
                        track.born(books.now);
                        break;
                    }
                    at = dir.parent();
                }
            }
            CgroupEvent::Lost { .. } => {
                for track in self.members.values_mut() {
                    track.due = Some(books.now);
                }
            }
            CgroupEvent::Born { .. } | CgroupEvent::Died { .. } => {}
        }
    }

    fn tick(&mut self, books: &mut Books<'_>) {
        self.settle(books);
    }

    fn next_deadline(&self) -> Option<Nanos> {
        let groups = self.groups.values().map(|track| track.due);
        let members = self.members.values().map(|track| track.due);
        let all = groups.chain(members).chain([self.mount.due, self.sweep]);
        all.flatten().min().filter(|_| !self.released)
    }

    fn explain(&self, ledger: &Ledger) -> Vec<TargetReport> {
        self.plan.resctrl.iter().map(|(target, desired)| self.explain_one(target, desired, ledger)).collect()
    }

    /// Groups that we made go; what was mounted stays, since it changes nothing by itself.
    fn restore(&mut self, books: &mut Books<'_>, report: &mut RestoreReport) {
        self.released = true;
        for group in made(books.ledger) {
            let path = format!("{ROOT}/{group}");
            match self.remove(&group, books) {
                Ok(true) => report.restored.push(path),
                Ok(false) => report.gone.push(path),
                Err(why) => report.failed.push((path, why)),
            }
        }
    }
}

/// The hierarchy whose directories show their threads.
const TASKS: Controller = Resource::Tasks.controller();

/// The groups that the ledger knows as made by us.
fn made(ledger: &Ledger) -> Vec<ResctrlGroup> {
    let group = |made: &Made| match made {
        Made::ResctrlGroup(group) => Some(group.clone()),
        _ => None,
    };
    ledger.all_made().filter_map(|entry| group(&entry.made)).collect()
}

/// Notes a refusal, which is told once.
fn refuse(
    before: Option<&Refusal>,
    target: &str,
    wished: &str,
    why: String,
    books: &mut Books<'_>,
) -> Refusal {
    count(&books.stats.refused);
    let refusal = Refusal::after(before, wished, why, books.now);
    if refusal.is_new() {
        let told = format!("{wished:?} was refused: {}; tried again with back-off", refusal.answer);
        books.notify(NoticeKind::Refused, target.to_owned(), told);
    }
    refusal
}
