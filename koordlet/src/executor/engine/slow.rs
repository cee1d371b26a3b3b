//! Slow writes: lowering a memory limit reclaims in the writer's own system call, for seconds. They are handed
//! out as jobs; each subtree has one on the way, the others wait behind it (design.md 4).

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::super::report::NoticeKind;
use super::super::stats::count;
use super::collect::Todo;
use super::track::Standing;
use super::{Engine, SlowWrites};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::plan::Subtree;
use crate::claims::target::CgroupTarget;
use crate::units::Nanos;

/// After this long in the kernel a write is spoken of, and another lane takes over.
const DEADLINE: Nanos = Nanos(5_000_000_000);

/// A write for a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowJob {
    /// To hand the result back with.
    pub ticket: u64,
    /// Directory.
    pub dir: CgroupDir,
    /// Resource.
    pub resource: Resource,
    /// Id that the directory must have.
    pub id: u64,
    /// What to write.
    pub text: String,
}

#[derive(Debug)]
struct OnTheWay {
    subtree: Subtree,
    todo: Todo,
    value: Value,
    text: String,
    since: Nanos,
    overdue: bool,
}

/// The jobs of all subtrees.
#[derive(Debug, Default)]
pub(super) struct Slow {
    next_ticket: u64,
    new: Vec<SlowJob>,
    on_the_way: BTreeMap<u64, OnTheWay>,
    parked: BTreeMap<Subtree, BTreeSet<CgroupTarget>>,
    /// A restore does everything where it comes up.
    pub(super) inline: bool,
}

impl Slow {
    pub(super) fn takes_writes(&self, mode: SlowWrites) -> bool {
        mode == SlowWrites::Lane && !self.inline
    }

    pub(super) fn is_busy(&self, subtree: &Subtree) -> bool {
        self.on_the_way.values().any(|job| job.subtree == *subtree)
    }

    pub(super) fn park(&mut self, subtree: &Subtree, target: &CgroupTarget) {
        self.parked.entry(subtree.clone()).or_default().insert(target.clone());
    }

    pub(super) fn dispatch(&mut self, subtree: Subtree, todo: Todo, value: Value, text: String, now: Nanos) {
        let CgroupTarget { dir, resource } = todo.target.clone();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.new.push(SlowJob { ticket, dir, resource, id: todo.id, text: text.clone() });
        self.on_the_way.insert(ticket, OnTheWay { subtree, todo, value, text, since: now, overdue: false });
    }

    pub(super) fn next_overdue(&self) -> Option<Nanos> {
        self.on_the_way.values().filter(|job| !job.overdue).map(|job| job.since + DEADLINE).min()
    }
}

impl Engine {
    /// Jobs for the lanes since the last call.
    pub fn take_slow_jobs(&mut self) -> Vec<SlowJob> {
        std::mem::take(&mut self.slow.new)
    }

    /// Jobs that have outlasted their deadline and are still in the kernel.
    pub fn overdue_jobs(&self) -> usize {
        self.slow.on_the_way.values().filter(|job| job.overdue).count()
    }

    /// The result of a job.
    pub fn slow_done(&mut self, ticket: u64, written: io::Result<()>, now: Nanos) {
        let Some(job) = self.slow.on_the_way.remove(&ticket) else { return };
        let outcome = self.judge(&job.todo, &job.value, job.text, written);
        self.take_outcome(&job.todo, true, outcome, now);
        // The plan may have moved on while the kernel was at it.
        self.slow.park(&job.subtree, &job.todo.target);
        let refused = self.refused.contains(&job.todo.target);
        for target in self.slow.parked.remove(&job.subtree).unwrap_or_default() {
            if !(refused && target == job.todo.target) {
                self.make_due(&target, now);
            }
        }
        self.settle(now);
    }

    /// Speaks of jobs that are past their deadline, once each.
    pub(super) fn watch_slow_jobs(&mut self, now: Nanos) {
        let late: Vec<CgroupTarget> = self
            .slow
            .on_the_way
            .values_mut()
            .filter(|job| !job.overdue && now >= job.since + DEADLINE)
            .map(|job| {
                job.overdue = true;
                job.todo.target.clone()
            })
            .collect();
        for target in late {
            count(&self.parts.stats.overdue);
            let text = format!("the kernel has been at it for more than {} s", DEADLINE.0 / 1_000_000_000);
            self.stand(&target, Standing::Waiting(text.clone()));
            self.notify(NoticeKind::Overdue, &target, text);
        }
    }
}
