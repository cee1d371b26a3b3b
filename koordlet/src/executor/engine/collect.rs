//! Examining what is due: identity, watch, birth, present value; what differs becomes a change. Also the
//! settings that nobody claims and that would make the kernel refuse a claimed one.

use std::io;

use super::super::backend::{answer, is_gone};
use super::super::diff::Period;
use super::super::ledger::Original;
use super::super::order::{self, Change};
use super::super::report::NoticeKind;
use super::super::stats::count;
use super::super::watch::Place;
use super::Engine;
use super::events::BIRTH;
use super::goal::{Back, Goal};
use super::track::Standing;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::Owner;
use crate::claims::plan::Subtree;
use crate::claims::target::CgroupTarget;
use crate::units::Nanos;

/// How long a newborn's files that runtimes set are left to the runtime.
const BIRTH_WAIT: Nanos = Nanos(10_000_000);

/// A change with what is needed to carry it out.
#[derive(Clone, Debug)]
pub(super) struct Todo {
    pub(super) target: CgroupTarget,
    pub(super) id: u64,
    /// Present text.
    pub(super) text: String,
    pub(super) period: Option<Period>,
    pub(super) change: Change,
    pub(super) kind: Kind,
}

/// What is done with the ledger.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Recorded before the first write.
    Hold { owner: Owner, cause: Option<CgroupTarget> },
    /// Forgotten after the write; an original is written as it was read, a quota with its period.
    Give { original: Option<Original> },
}

impl Engine {
    /// Examines all that is due and says what has to change.
    pub(super) fn collect(&mut self, now: Nanos) -> Vec<Todo> {
        let ready: Vec<CgroupTarget> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(target, _)| target.clone()).collect();
        let mut todos: Vec<Todo> = Vec::new();
        for target in &ready {
            self.due.remove(target);
        }
        for target in ready {
            let todo = self.examine(&target, &todos, now);
            todos.extend(todo);
        }
        self.lift_quotas_above_classes(&mut todos);
        self.write_out_rounded_quotas(&mut todos);
        self.take_bursts_along(&mut todos, now);
        self.remember_shares_of_idle(&todos);
        self.take_shares_along(&mut todos);
        todos
    }

    /// What has to change at a target, besides `others` that are about to.
    pub(super) fn examine(&mut self, target: &CgroupTarget, others: &[Todo], now: Nanos) -> Option<Todo> {
        let goal = self.goal(target);
        let goal = self.cut_burst(target, goal, others);
        match &goal {
            Goal::Nothing(why) => {
                // Most released targets were never touched: nothing is kept of them.
                if why.is_some() || self.tracks.contains_key(target) {
                    self.stand(target, Standing::Left(*why));
                }
                return None;
            }
            Goal::Wait(why) => {
                self.stand(target, Standing::Waiting(why.clone()));
                return None;
            }
            Goal::Hold { .. } | Goal::Give(_) => {}
        }
        if self.slow.is_busy(&self.subtree(target)) && order::may_be_slow(resource(target)) {
            let subtree = self.subtree(target);
            self.slow.park(&subtree, target);
            return None;
        }
        let id = self.identify(target, now)?;
        if self.is_being_born(target, &goal, now) {
            return None;
        }
        let text = self.read(target, now)?;
        let Some(todo) = self.compare(target, id, text, &goal) else {
            self.reached(target, &goal, now);
            return None;
        };
        self.cut_cpus(todo, &goal, others, now)
    }

    /// The id of a target's directory. Another one than before means that all that was known is of another
    /// directory. From the first look on the directory is watched.
    fn identify(&mut self, target: &CgroupTarget, now: Nanos) -> Option<u64> {
        let CgroupTarget { dir, resource } = target;
        let id = match self.parts.backend.id(dir, *resource) {
            Ok(id) => id,
            Err(error) => return self.unreadable(target, &error, now),
        };
        if self.tracks.get(target).is_none_or(|track| track.id != Some(id)) {
            if self.parts.ledger.get(target).is_some_and(|entry| entry.id != id) {
                self.forget(target);
            }
            let born = self.place(target).and_then(|place| self.births.get(&place)).filter(|b| b.0 == id);
            let born = born.map(|(_, at)| *at);
            self.track(target).start_anew(id, born);
        }
        self.watch_target(target);
        Some(id)
    }

    fn watch_target(&mut self, target: &CgroupTarget) {
        let Some(place) = self.place(target) else { return };
        if self.parts.dry_run || self.parts.watch.watches(&place) {
            return;
        }
        match self.parts.watch.add(&place) {
            // What was known of an unwatched directory may have changed.
            Ok(()) => self.known.retain(|CgroupTarget { dir, .. }, _| *dir != place.dir),
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                count(&self.parts.stats.unwatched);
                if self.recheck.first_unwatched() {
                    let text = format!(
                        "cannot watch it ({}), as maybe others: raise fs.inotify.max_user_watches; foreign \
                         writes there are seen by the re-check once a minute",
                        answer(&error)
                    );
                    self.notify(NoticeKind::Unwatched, target, text);
                }
            }
        }
    }

    /// A runtime sets some files after it has made the directory; they are left to it for a moment. Shares are among
    /// them, which an idle group refuses: so that no start fails, a group becomes idle only once its birth is over.
    fn is_being_born(&mut self, target: &CgroupTarget, goal: &Goal, now: Nanos) -> bool {
        let idles =
            resource(target) == Resource::CpuIdle && matches!(goal, Goal::Hold { value: Value::Int(1), .. });
        if !idles && !order::set_by_runtimes(resource(target)) {
            return false;
        }
        let track = self.track(target);
        let Some(born) = track.born.filter(|_| idles || !track.runtime_wrote) else { return false };
        let until = born + if idles { BIRTH } else { BIRTH_WAIT };
        if now >= until {
            return false;
        }
        track.standing = Standing::Waiting("the directory is being made".to_owned());
        self.make_due(target, until);
        true
    }

    fn read(&mut self, target: &CgroupTarget, now: Nanos) -> Option<String> {
        let CgroupTarget { dir, resource } = target;
        match self.parts.backend.read(dir, *resource) {
            Ok(text) => {
                self.track(target).text = Some(text.clone());
                Some(text)
            }
            Err(error) => self.unreadable(target, &error, now),
        }
    }

    /// Takes an error of a look at a target: gone, not supported, or refused.
    fn unreadable<T>(&mut self, target: &CgroupTarget, error: &io::Error, now: Nanos) -> Option<T> {
        if is_gone(error) {
            self.vanished(target);
        } else if error.kind() == io::ErrorKind::Unsupported {
            self.stand(target, Standing::Left(Some("this host has no such setting")));
        } else {
            self.refuse(target, "", answer(error), now);
        }
        None
    }

    /// A directory or file that is not there: not yet, or no more. Its birth event or the re-check brings it
    /// back.
    pub(super) fn vanished(&mut self, target: &CgroupTarget) {
        tracing::debug!(%target, "not there");
        count(&self.parts.stats.gone);
        self.refused.remove(target);
        if self.parts.ledger.get(target).is_some() {
            self.forget(target);
        }
        if self.plan.entries.contains_key(target) {
            let track = self.track(target);
            (track.id, track.text, track.refusal) = (None, None, None);
            track.standing = Standing::Waiting("there is no such file (yet)".to_owned());
        } else {
            self.tracks.remove(target);
        }
    }

    /// A change, if `text` does not mean the goal; an original is there to the letter or not at all.
    pub(super) fn compare(
        &mut self,
        target: &CgroupTarget,
        id: u64,
        text: String,
        goal: &Goal,
    ) -> Option<Todo> {
        let todo = self.change(target, id, text, goal)?;
        let is_so = match goal {
            Goal::Give(Back::Original(original)) => {
                let same_period = |now: Period| original.period_us().is_none_or(|us| us == now.us);
                original.value == todo.text && todo.period.is_none_or(same_period)
            }
            _ => self.parts.files.holds(resource(target), &todo.change.want, &todo.text, todo.period),
        };
        (!is_so).then_some(todo)
    }

    /// The change that writes the goal over `text`, also where that means the same.
    pub(super) fn change(
        &mut self,
        target: &CgroupTarget,
        id: u64,
        text: String,
        goal: &Goal,
    ) -> Option<Todo> {
        let CgroupTarget { dir, resource } = target;
        let period = if *resource == Resource::CfsQuota { Some(self.period(dir, &text)) } else { None };
        let (want, kind) = match goal {
            Goal::Hold { value, owner, cause, note } => {
                let value = self.fitted(dir, value, period);
                let track = self.track(target);
                (track.aim, track.note) = (Some(value.clone()), note.clone());
                (value, Kind::Hold { owner: *owner, cause: cause.clone() })
            }
            Goal::Give(Back::Value(value)) => {
                (self.fitted(dir, value, period), Kind::Give { original: None })
            }
            Goal::Give(Back::Original(original)) => self.original_to_give(target, original)?,
            Goal::Wait(_) | Goal::Nothing(_) => return None,
        };
        let present = self.parts.files.value(*resource, &text, period);
        let change = Change { dir: dir.clone(), resource: *resource, now: present, want };
        Some(Todo { target: target.clone(), id, text, period, change, kind })
    }

    /// The value and the deed that bring an original back.
    fn original_to_give(&self, target: &CgroupTarget, original: &Original) -> Option<(Value, Kind)> {
        let value = self.value_of(target.resource, &Back::Original(original.clone()))?;
        if let Some(cut) = self.original_cpus_cut(target, &value) {
            return Some((Value::Cpus(cut), Kind::Give { original: None }));
        }
        Some((value, Kind::Give { original: Some(original.clone()) }))
    }

    /// The CFS period in force. Where it has a file of its own, that is read once per watched directory.
    pub(super) fn period(&mut self, dir: &CgroupDir, quota_text: &str) -> Period {
        if self.parts.files.period_in_quota_file(dir) {
            return Period { us: self.parts.files.period(quota_text), in_quota_file: true };
        }
        let text = self.known_text(&CgroupTarget::new(dir, Resource::CfsPeriod)).unwrap_or_default();
        Period { us: self.parts.files.period(&text), in_quota_file: false }
    }

    /// The text of a file that is not ours to hold, from memory where its directory is watched.
    pub(super) fn known_text(&mut self, target: &CgroupTarget) -> Option<String> {
        if let Some(text) = self.known.get(target) {
            return Some(text.clone());
        }
        let CgroupTarget { dir, resource } = target;
        let text = self.parts.backend.read(dir, *resource).ok()?;
        if self.place(target).is_some_and(|place| self.parts.watch.watches(&place)) {
            self.known.insert(target.clone(), text.clone());
        }
        Some(text)
    }

    pub(super) fn subtree(&self, target: &CgroupTarget) -> Subtree {
        self.plan.entries.get(target).map_or(Subtree::Class, |desired| desired.subtree.clone())
    }

    /// Whether a place is watched, for whoever must know if silence means anything.
    pub(super) fn is_watched(&self, target: &CgroupTarget) -> bool {
        self.place(target).is_some_and(|place: Place| self.parts.watch.watches(&place))
    }
}

pub(super) fn resource(target: &CgroupTarget) -> Resource {
    let CgroupTarget { resource, .. } = target;
    *resource
}
