//! Carrying out changes in order: the ledger line first, the write, the look at what the kernel made of it.

use std::io;

use super::super::backend::{answer, is_gone};
use super::super::ledger::{Entry, Original};
use super::super::order::{self, Pass, Step};
use super::super::refusal::Refusal;
use super::super::report::NoticeKind;
use super::super::stats::count;
use super::collect::{Kind, Todo, resource};
use super::goal::Goal;
use super::track::Standing;
use super::{Engine, Search};
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::Owner;
use crate::claims::plan::{Decision, Subtree};
use crate::claims::target::CgroupTarget;
use crate::units::{CfsQuota, Nanos};

/// What became of one write.
#[derive(Debug)]
pub(super) enum Outcome {
    Written,
    Gone,
    Refused {
        wished: String,
        answer: String,
    },
    /// Not tried: its original could not be remembered.
    Unrecorded(String),
}

impl Engine {
    /// Makes all changes, step by step. A step that fails stops the ones that depend on it.
    pub(super) fn carry_out(&mut self, todos: &[Todo], now: Nanos) {
        let changes: Vec<_> = todos.iter().map(|todo| todo.change.clone()).collect();
        let mut failed: Vec<(usize, Pass)> = Vec::new();
        let mut over = vec![false; todos.len()];
        for step in order::steps(&changes) {
            let (Some(todo), Some(over)) = (todos.get(step.change), over.get_mut(step.change)) else {
                continue;
            };
            if *over {
                continue;
            }
            if self.parts.dry_run {
                self.stand(&todo.target, Standing::DryRun);
                *over = true;
                continue;
            }
            let blocker = failed.iter().find_map(|(index, pass)| {
                let by = todos.get(*index)?;
                order::blocks((&by.change, *pass), (&todo.change, step.pass)).then_some(by)
            });
            if let Some(blocker) = blocker {
                self.wait_for(&todo.target, &blocker.target, now);
                failed.push((step.change, step.pass));
                *over = true;
                continue;
            }
            if self.goes_to_lane(&todo.target) {
                *over = true;
                self.send_to_lane(todo, &step, now);
                continue;
            }
            let outcome = self.write(todo, &step);
            if !matches!(outcome, Outcome::Written) {
                *over = true;
            }
            if matches!(outcome, Outcome::Refused { .. } | Outcome::Unrecorded(_)) {
                failed.push((step.change, step.pass));
            }
            self.take_outcome(todo, step.last, outcome, now);
        }
    }

    /// One write, the ledger's line before it.
    fn write(&mut self, todo: &Todo, step: &Step) -> Outcome {
        let CgroupTarget { dir: _, resource } = &todo.target;
        if let Some(outcome) = self.record(todo) {
            return outcome;
        }
        let text = match (&todo.kind, step.last) {
            (Kind::Give { original: Some(original) }, true) => Ok(original.value.clone()),
            _ => self.parts.files.text(*resource, &step.value, todo.period),
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                return Outcome::Refused { wished: step.value.to_string(), answer: error.to_string() };
            }
        };
        let written = match &todo.kind {
            Kind::Give { original: Some(original) } if *resource == Resource::CfsQuota => {
                self.give_quota_with_period(todo, original)
            }
            _ => self.put(todo, *resource, &text),
        };
        match written {
            Ok(()) if step.last => self.read_back(todo, &step.value, text),
            Ok(()) => Outcome::Written,
            Err(error) if is_gone(&error) => Outcome::Gone,
            Err(error) => Outcome::Refused { wished: text, answer: answer(&error) },
        }
    }

    /// One write in the directory of a change. What the kernel took is told.
    fn put(&self, todo: &Todo, resource: Resource, text: &str) -> io::Result<()> {
        let CgroupTarget { dir, .. } = &todo.target;
        self.parts.backend.write(dir, resource, todo.id, text)?;
        self.tell(todo, resource, text);
        Ok(())
    }

    /// Remembers what is there, or who holds it now. What cannot be remembered is not written.
    pub(super) fn record(&mut self, todo: &Todo) -> Option<Outcome> {
        let Kind::Hold { owner, cause } = &todo.kind else { return None };
        let known = self.parts.ledger.get(&todo.target).filter(|entry| entry.id == todo.id);
        if known.is_some_and(|entry| entry.owner == *owner && entry.cause == *cause) {
            return None;
        }
        let original = known.map_or_else(
            || Original {
                value: todo.text.clone(),
                period: todo.period.and_then(|period| u64::try_from(period.us).ok()),
            },
            |entry| entry.original.clone(),
        );
        self.record_entry(&todo.target, todo.id, *owner, original, cause.clone())
    }

    pub(super) fn record_entry(
        &mut self,
        target: &CgroupTarget,
        id: u64,
        owner: Owner,
        original: Original,
        cause: Option<CgroupTarget>,
    ) -> Option<Outcome> {
        let boot = self.parts.boot.clone();
        let entry = Entry { target: target.clone(), id, boot, owner, original, cause };
        let Err(error) = self.parts.ledger.record(entry) else {
            self.ledger_failing = false;
            return None;
        };
        let text = format!("the ledger cannot be written ({error}), so the value is not either");
        // A full disk is one piece of news, not one for each target.
        if !std::mem::replace(&mut self.ledger_failing, true) {
            self.notify(NoticeKind::LedgerUnwritable, target, format!("{text}, nor any other new one"));
        }
        Some(Outcome::Unrecorded(text))
    }

    /// Sees whether the kernel kept what was written.
    fn read_back(&mut self, todo: &Todo, value: &Value, written: String) -> Outcome {
        let CgroupTarget { dir, resource } = &todo.target;
        match self.parts.backend.read(dir, *resource) {
            Ok(text) => {
                self.track(&todo.target).text = Some(text.clone());
                // A restore may have changed the period too; what it wrote is what counts.
                let kept = matches!(todo.kind, Kind::Give { .. })
                    || self.parts.files.holds(*resource, value, &text, todo.period);
                if kept {
                    Outcome::Written
                } else {
                    Outcome::Refused { wished: written, answer: format!("the kernel keeps {text:?} instead") }
                }
            }
            Err(error) if is_gone(&error) => Outcome::Gone,
            Err(error) => Outcome::Refused { wished: written, answer: answer(&error) },
        }
    }

    /// Gives a quota back together with its period, as one pair: whichever goes first must not lift the group
    /// above its parent (C009); if the kernel takes neither order, by way of unlimited.
    fn give_quota_with_period(&self, todo: &Todo, original: &Original) -> io::Result<()> {
        let write_quota = |text: &str| self.put(todo, Resource::CfsQuota, text);
        let (Some(period), Some(now)) = (original.period_us(), todo.period) else {
            return write_quota(&original.value);
        };
        if now.in_quota_file || now.us == period {
            return write_quota(&original.value);
        }
        let write_period = || self.put(todo, Resource::CfsPeriod, &period.to_string());
        let pair = if now.us > period {
            write_quota(&original.value).and_then(|()| write_period())
        } else {
            write_period().and_then(|()| write_quota(&original.value))
        };
        match pair {
            Err(error) if !is_gone(&error) => {
                let unlimited = Value::Quota(CfsQuota::Unlimited);
                let unlimited = self.parts.files.text(Resource::CfsQuota, &unlimited, None);
                write_quota(&unlimited.map_err(io::Error::other)?)?;
                write_period()?;
                write_quota(&original.value)
            }
            other => other,
        }
    }

    /// Takes what became of a write into the books.
    pub(super) fn take_outcome(&mut self, todo: &Todo, last: bool, outcome: Outcome, now: Nanos) {
        match outcome {
            Outcome::Written => {
                count(&self.parts.stats.written);
                if last {
                    let target = &todo.target;
                    match todo.kind {
                        Kind::Hold { .. } => self.held(target, now),
                        Kind::Give { .. } => self.given(target),
                    }
                    let CgroupTarget { dir, resource } = target;
                    let cut = if *resource == Resource::Cpus { self.cut_beneath(dir) } else { Vec::new() };
                    for near in self.refused_near(target).into_iter().chain(cut) {
                        self.make_due(&near, now);
                    }
                }
            }
            Outcome::Gone => self.vanished(&todo.target),
            Outcome::Unrecorded(why) => {
                self.put_off(&todo.target, "", why, now);
            }
            Outcome::Refused { wished, answer } => {
                if self.search_again(todo) || self.try_cut(todo) {
                    self.make_due(&todo.target, now);
                } else {
                    self.refuse(&todo.target, &wished, answer, now);
                }
            }
        }
    }

    /// A class directory's quota that was refused may have an unknown quota beneath: one more search.
    fn search_again(&mut self, todo: &Todo) -> bool {
        match self.searched.get_mut(&todo.target) {
            Some(search) if !search.repeated => {
                *search = Search { largest_left: CfsQuota::Unlimited, repeated: true };
                true
            }
            _ => false,
        }
    }

    /// The goal is true without a write.
    pub(super) fn reached(&mut self, target: &CgroupTarget, goal: &Goal, now: Nanos) {
        match goal {
            Goal::Hold { owner, cause, .. } => {
                // A value that was there already is not ours to restore; one that we wrote may have a new owner.
                if let Some(entry) = self.parts.ledger.get(target).cloned()
                    && (entry.owner != *owner || entry.cause != *cause)
                {
                    let recorded = self.record_entry(target, entry.id, *owner, entry.original, cause.clone());
                    if recorded.is_some() {
                        tracing::debug!(%target, "the former owner stays in the ledger");
                    }
                }
                self.held(target, now);
            }
            Goal::Give(_) => self.given(target),
            Goal::Wait(_) | Goal::Nothing(_) => {}
        }
    }

    fn held(&mut self, target: &CgroupTarget, now: Nanos) {
        self.refused.remove(target);
        if let Some(search) = self.searched.get_mut(target) {
            search.repeated = false;
        }
        let track = self.track(target);
        track.standing = Standing::Held;
        track.refusal = None;
        track.contended_until = None;
        if std::mem::take(&mut track.overwritten) {
            count(&self.parts.stats.repaired);
        }
        self.start_recheck(now);
    }

    fn given(&mut self, target: &CgroupTarget) {
        self.forget_searches_above(target);
        self.refused.remove(target);
        if self.parts.ledger.get(target).is_some() {
            count(&self.parts.stats.restored);
        }
        self.forget(target);
        if let Some(Decision::Release(_)) = self.plan.entries.get(target).map(|desired| &desired.decision) {
            self.asserted.insert(target.clone());
            self.stand(target, Standing::Left(None));
        } else {
            self.tracks.remove(target);
        }
    }

    /// Notes a refusal; the first of its kind is worth a line.
    pub(super) fn refuse(&mut self, target: &CgroupTarget, wished: &str, answer: String, now: Nanos) {
        let text = format!("{wished:?} was refused: {answer}; tried again with back-off");
        if self.put_off(target, wished, answer, now) {
            self.notify(NoticeKind::Refused, target, text);
        }
    }

    /// Has the next try wait. Whether this is the first refusal of its kind.
    fn put_off(&mut self, target: &CgroupTarget, wished: &str, answer: String, now: Nanos) -> bool {
        count(&self.parts.stats.refused);
        let track = self.track(target);
        let refusal = Refusal::after(track.refusal.as_ref(), wished, answer, now);
        let (new, retry_at) = (refusal.is_new(), refusal.retry_at);
        track.standing = Standing::Refused;
        track.refusal = Some(refusal);
        self.refused.insert(target.clone());
        self.make_due(target, retry_at);
        new
    }

    /// A step that has to wait for another target's.
    fn wait_for(&mut self, target: &CgroupTarget, blocker: &CgroupTarget, now: Nanos) {
        let retry = self.tracks.get(blocker).and_then(|track| track.refusal.as_ref()).map(|r| r.retry_at);
        // Due in the same instant, so that both are ordered together again.
        let retry = retry.or_else(|| self.due.get(blocker).copied()).unwrap_or(now + Nanos(1_000_000_000));
        let why = format!("waits for {}, which was refused", self.parts.files.shown_path(blocker));
        self.stand(target, Standing::Waiting(why));
        self.make_due(target, retry);
    }

    fn goes_to_lane(&self, target: &CgroupTarget) -> bool {
        self.slow.takes_writes(self.parts.slow_writes) && order::may_be_slow(resource(target))
    }

    /// Hands a write to the memory lane, or parks it behind its subtree's.
    fn send_to_lane(&mut self, todo: &Todo, step: &Step, now: Nanos) {
        let subtree: Subtree = self.subtree(&todo.target);
        if self.slow.is_busy(&subtree) {
            self.slow.park(&subtree, &todo.target);
            return;
        }
        if let Some(outcome) = self.record(todo) {
            self.take_outcome(todo, step.last, outcome, now);
            return;
        }
        match self.parts.files.text(resource(&todo.target), &step.value, todo.period) {
            Ok(text) => {
                self.stand(&todo.target, Standing::Waiting("the kernel is at it".to_owned()));
                self.slow.dispatch(subtree, todo.clone(), step.value.clone(), text, now);
            }
            Err(error) => self.refuse(&todo.target, &step.value.to_string(), error.to_string(), now),
        }
    }

    /// What the lane says of a write.
    pub(super) fn judge(
        &mut self,
        todo: &Todo,
        value: &Value,
        text: String,
        written: io::Result<()>,
    ) -> Outcome {
        match written {
            Ok(()) => {
                self.tell(todo, resource(&todo.target), &text);
                self.read_back(todo, value, text)
            }
            Err(error) if is_gone(&error) => Outcome::Gone,
            Err(error) => Outcome::Refused { wished: text, answer: answer(&error) },
        }
    }
}
