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
use super::goal::{Back, Goal};
use super::track::Standing;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::Owner;
use crate::claims::plan::Subtree;
use crate::claims::target::Target;
use crate::units::{CfsQuota, Nanos};

/// How long a newborn's files that runtimes set are left to the runtime.
const BIRTH_WAIT: Nanos = Nanos(10_000_000);

/// Deepest tree that is searched for quotas beneath a class directory.
const MAX_SEARCH: usize = 100_000;

/// A change with what is needed to carry it out.
#[derive(Clone, Debug)]
pub(super) struct Todo {
    pub(super) target: Target,
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
    Hold { owner: Owner, cause: Option<Target> },
    /// Forgotten after the write; an original is written as it was read, a quota with its period.
    Give { original: Option<Original> },
}

impl Engine {
    /// Examines all that is due and says what has to change.
    pub(super) fn collect(&mut self, now: Nanos) -> Vec<Todo> {
        let ready: Vec<Target> =
            self.due.iter().filter(|(_, at)| **at <= now).map(|(target, _)| target.clone()).collect();
        let mut todos: Vec<Todo> = Vec::new();
        for target in &ready {
            self.due.remove(target);
        }
        for target in ready {
            todos.extend(self.examine(&target, now));
        }
        self.add_bursts_above_quotas(&mut todos, now);
        self.add_quotas_above_classes(&mut todos, now);
        self.remember_shares_of_idle(&todos);
        todos
    }

    fn examine(&mut self, target: &Target, now: Nanos) -> Option<Todo> {
        let goal = self.goal(target);
        match &goal {
            Goal::Nothing(why) => {
                self.stand(target, Standing::Left(*why));
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
        if self.is_being_born(target, now) {
            return None;
        }
        let text = self.read(target, now)?;
        let todo = self.compare(target, id, text, &goal, now);
        if todo.is_none() {
            self.reached(target, &goal, now);
        }
        todo
    }

    /// The id of a target's directory. Another one than before means that all that was known is of another
    /// directory. From the first look on the directory is watched.
    fn identify(&mut self, target: &Target, now: Nanos) -> Option<u64> {
        let Target::Cgroup { dir, resource } = target;
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

    fn watch_target(&mut self, target: &Target) {
        let Some(place) = self.place(target) else { return };
        if self.parts.dry_run || self.parts.watch.watches(&place) {
            return;
        }
        match self.parts.watch.add(&place) {
            // What was known of an unwatched directory may have changed.
            Ok(()) => self.known.retain(|Target::Cgroup { dir, .. }, _| *dir != place.dir),
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                count(&self.parts.stats.unwatched);
                if self.recheck.first_unwatched() {
                    let text = format!(
                        "cannot watch it ({}), as maybe others: raise fs.inotify.max_user_watches; foreign \
                         writes there are seen by the re-check once a minute",
                        answer(&error)
                    );
                    tracing::warn!(dir = %place.dir, "{text}");
                    self.notify(NoticeKind::Unwatched, target, text);
                }
            }
        }
    }

    /// A runtime sets some files after it has made the directory; they are left to it for a moment.
    fn is_being_born(&mut self, target: &Target, now: Nanos) -> bool {
        if !order::set_by_runtimes(resource(target)) {
            return false;
        }
        let track = self.track(target);
        let Some(born) = track.born.filter(|_| !track.runtime_wrote) else { return false };
        let until = born + BIRTH_WAIT;
        if now >= until {
            return false;
        }
        track.standing = Standing::Waiting("the directory is being made".to_owned());
        self.make_due(target, until);
        true
    }

    fn read(&mut self, target: &Target, now: Nanos) -> Option<String> {
        let Target::Cgroup { dir, resource } = target;
        match self.parts.backend.read(dir, *resource) {
            Ok(text) => {
                self.track(target).text = Some(text.clone());
                Some(text)
            }
            Err(error) => self.unreadable(target, &error, now),
        }
    }

    /// Takes an error of a look at a target: gone, not supported, or refused.
    fn unreadable<T>(&mut self, target: &Target, error: &io::Error, now: Nanos) -> Option<T> {
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
    pub(super) fn vanished(&mut self, target: &Target) {
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

    /// A change, if `text` does not mean the goal.
    pub(super) fn compare(
        &mut self,
        target: &Target,
        id: u64,
        text: String,
        goal: &Goal,
        now: Nanos,
    ) -> Option<Todo> {
        let Target::Cgroup { dir, resource } = target;
        let period = if *resource == Resource::CfsQuota { Some(self.period(dir, &text)) } else { None };
        let (want, kind) = match goal {
            Goal::Hold { value, owner, cause, note } => {
                let (value, note) = self.bounded(target, value, note.clone(), now);
                let track = self.track(target);
                (track.aim, track.note) = (Some(value.clone()), note);
                (value, Kind::Hold { owner: *owner, cause: cause.clone() })
            }
            Goal::Give(Back::Value(value)) => (value.clone(), Kind::Give { original: None }),
            Goal::Give(Back::Original(original)) => {
                let same_period = period.is_none_or(|now| original.period_us().is_none_or(|us| us == now.us));
                if same_period && original.value == text {
                    return None;
                }
                self.to_give_back(target, original)?
            }
            Goal::Wait(_) | Goal::Nothing(_) => return None,
        };
        let other_period = match (&kind, period) {
            (Kind::Give { original: Some(original) }, Some(now)) => {
                original.period_us().is_some_and(|us| us != now.us)
            }
            _ => false,
        };
        if !other_period && self.parts.files.holds(*resource, &want, &text, period) {
            return None;
        }
        let present = self.parts.files.value(*resource, &text, period);
        let change = Change { dir: dir.clone(), resource: *resource, now: present, want };
        Some(Todo { target: target.clone(), id, text, period, change, kind })
    }

    /// The value and the deed that bring an original back. An empty CPU list, where that does not mean the
    /// parent's, is refused once there are tasks: the parent's list is what it had come to (C026).
    fn to_give_back(&self, target: &Target, original: &Original) -> Option<(Value, Kind)> {
        let Target::Cgroup { dir, resource } = target;
        let value = self.original_value(*resource, original)?;
        let inherits = self.parts.files.layout().semantics().empty_cpuset_inherits;
        if matches!(&value, Value::Cpus(list) if list.is_empty()) && !inherits {
            let text = self.parts.backend.read(&dir.parent()?, *resource).ok()?;
            let parents = self.parts.files.value(*resource, &text, None)?;
            return Some((parents, Kind::Give { original: None }));
        }
        Some((value, Kind::Give { original: Some(original.clone()) }))
    }

    /// The meaning of what was there before us, a quota as one for 100 ms.
    fn original_value(&self, resource: Resource, original: &Original) -> Option<Value> {
        let period = match (resource, original.period_us()) {
            (Resource::CfsQuota, Some(us)) => Some(Period { us, in_quota_file: false }),
            _ => None,
        };
        self.parts.files.value(resource, &original.value, period)
    }

    /// A burst above the quota is refused by the kernel (C007, C215): what is left of a wished one.
    fn bounded(
        &mut self,
        target: &Target,
        value: &Value,
        note: Option<String>,
        now: Nanos,
    ) -> (Value, Option<String>) {
        let Target::Cgroup { dir, resource: Resource::CfsBurst } = target else {
            return (value.clone(), note);
        };
        let (Value::Int(burst), Some(limit)) = (value, self.quota_to_be(dir, now)) else {
            return (value.clone(), note);
        };
        if *burst <= limit {
            return (value.clone(), note);
        }
        (
            Value::Int(limit),
            Some(format!("{burst} cut to the quota {limit}, above which the kernel refuses it")),
        )
    }

    /// The quota that a directory has once all is done, in microseconds of its period; `None` is unlimited.
    fn quota_to_be(&mut self, dir: &CgroupDir, now: Nanos) -> Option<i64> {
        let target = Target::cgroup(dir, Resource::CfsQuota);
        let text = self.read(&target, now)?;
        let period = self.period(dir, &text);
        let quota = match self.goal(&target) {
            Goal::Hold { value: Value::Quota(quota), .. } | Goal::Give(Back::Value(Value::Quota(quota))) => {
                quota
            }
            Goal::Give(Back::Original(original)) => {
                match self.original_value(Resource::CfsQuota, &original)? {
                    Value::Quota(quota) => quota,
                    _ => return None,
                }
            }
            _ => match self.parts.files.value(Resource::CfsQuota, &text, Some(period))? {
                Value::Quota(quota) => quota,
                _ => return None,
            },
        };
        crate::cgroup::value::quota_for_period(quota, period.us).micros()
    }

    /// The CFS period in force. Where it has a file of its own, that is read once per watched directory.
    pub(super) fn period(&mut self, dir: &CgroupDir, quota_text: &str) -> Period {
        if self.parts.files.period_in_quota_file(dir) {
            return Period { us: self.parts.files.period(quota_text), in_quota_file: true };
        }
        let text = self.known_text(&Target::cgroup(dir, Resource::CfsPeriod)).unwrap_or_default();
        Period { us: self.parts.files.period(&text), in_quota_file: false }
    }

    /// The text of a file that is not ours to hold, from memory where its directory is watched.
    fn known_text(&mut self, target: &Target) -> Option<String> {
        if let Some(text) = self.known.get(target) {
            return Some(text.clone());
        }
        let Target::Cgroup { dir, resource } = target;
        let text = self.parts.backend.read(dir, *resource).ok()?;
        if self.place(target).is_some_and(|place| self.parts.watch.watches(&place)) {
            self.known.insert(target.clone(), text.clone());
        }
        Some(text)
    }

    /// A burst that nobody claims goes down with its quota, and is remembered (C007).
    fn add_bursts_above_quotas(&mut self, todos: &mut Vec<Todo>, now: Nanos) {
        let narrowed: Vec<(CgroupDir, u64, CfsQuota, Option<Period>, Owner)> = todos
            .iter()
            .filter_map(|todo| match (&todo.change.want, &todo.kind) {
                (Value::Quota(quota @ CfsQuota::Micros(_)), Kind::Hold { owner, .. }) => {
                    Some((todo.change.dir.clone(), todo.id, *quota, todo.period, *owner))
                }
                _ => None,
            })
            .collect();
        for (dir, id, quota, period, owner) in narrowed {
            let burst = Target::cgroup(&dir, Resource::CfsBurst);
            let taken = self.plan.entries.contains_key(&burst) || todos.iter().any(|t| t.target == burst);
            let Some(text) = self.known_text(&burst).filter(|_| !taken) else { continue };
            let limit = crate::cgroup::value::quota_for_period(quota, period.map_or(0, |p| p.us)).micros();
            let (Some(Value::Int(present)), Some(limit)) =
                (self.parts.files.value(Resource::CfsBurst, &text, None), limit)
            else {
                continue;
            };
            if present > limit {
                let cause = Target::cgroup(&dir, Resource::CfsQuota);
                self.track(&burst).start_anew(id, None);
                let goal = Goal::Hold { value: Value::Int(limit), owner, cause: Some(cause), note: None };
                todos.extend(self.compare(&burst, id, text, &goal, now));
            }
        }
    }

    /// Quotas that nobody claims, beneath a class directory that is narrowed below them (design.md 4).
    fn add_quotas_above_classes(&mut self, todos: &mut Vec<Todo>, now: Nanos) {
        let narrowed: Vec<(Target, CgroupDir, CfsQuota, Owner)> = todos
            .iter()
            .filter_map(|todo| match (&todo.change.want, &todo.change.now, &todo.kind) {
                (Value::Quota(want), Some(Value::Quota(now)), Kind::Hold { owner, .. })
                    if want < now
                        && self.held_class_quota(&todo.change.dir) == Some(*want)
                        && (*now == CfsQuota::Unlimited || self.unscanned.contains(&todo.target)) =>
                {
                    Some((todo.target.clone(), todo.change.dir.clone(), *want, *owner))
                }
                _ => None,
            })
            .collect();
        if !self.parts.files.layout().semantics().child_quota_bounded_by_parent {
            return;
        }
        for (class, dir, limit, owner) in narrowed {
            self.unscanned.remove(&class);
            for beneath in self.directories_beneath(&dir) {
                let target = Target::cgroup(&beneath, Resource::CfsQuota);
                if self.plan.entries.contains_key(&target) || todos.iter().any(|t| t.target == target) {
                    continue;
                }
                let Ok(id) = self.parts.backend.id(&beneath, Resource::CfsQuota) else { continue };
                let Ok(text) = self.parts.backend.read(&beneath, Resource::CfsQuota) else { continue };
                let period = self.period(&beneath, &text);
                let present = self.parts.files.value(Resource::CfsQuota, &text, Some(period));
                if let Some(Value::Quota(present @ CfsQuota::Micros(_))) = present
                    && present > limit
                {
                    self.track(&target).start_anew(id, None);
                    let value = Value::Quota(CfsQuota::Unlimited);
                    let goal = Goal::Hold { value, owner, cause: Some(class.clone()), note: None };
                    todos.extend(self.compare(&target, id, text, &goal, now));
                }
            }
        }
    }

    /// Setting `cpu.idle` makes the kernel forget the group's shares (C012): those that nobody claims are
    /// remembered, to be given back when it is cleared.
    fn remember_shares_of_idle(&mut self, todos: &[Todo]) {
        for todo in todos {
            let (Resource::CpuIdle, Value::Int(1), Kind::Hold { owner, .. }) =
                (todo.change.resource, &todo.change.want, &todo.kind)
            else {
                continue;
            };
            let shares = Target::cgroup(&todo.change.dir, Resource::CpuShares);
            let known = self.plan.entries.contains_key(&shares) || self.parts.ledger.get(&shares).is_some();
            if known || self.parts.dry_run {
                continue;
            }
            if let Ok(value) = self.parts.backend.read(&todo.change.dir, Resource::CpuShares) {
                let original = Original { value, period: None };
                self.record_entry(&shares, todo.id, *owner, original, Some(todo.target.clone()));
            }
        }
    }

    fn directories_beneath(&self, dir: &CgroupDir) -> Vec<CgroupDir> {
        let mut found = Vec::new();
        let mut open = vec![dir.clone()];
        while let Some(dir) = open.pop() {
            // One that vanishes meanwhile has no children.
            let children = self.parts.backend.children(&dir, Resource::CfsQuota).unwrap_or_default();
            if found.len() > MAX_SEARCH {
                break;
            }
            open.extend(children.iter().cloned());
            found.extend(children);
        }
        found
    }

    pub(super) fn subtree(&self, target: &Target) -> Subtree {
        self.plan.entries.get(target).map_or(Subtree::Class, |desired| desired.subtree.clone())
    }

    /// Whether a place is watched, for whoever must know if silence means anything.
    pub(super) fn is_watched(&self, target: &Target) -> bool {
        self.place(target).is_some_and(|place: Place| self.parts.watch.watches(&place))
    }
}

pub(super) fn resource(target: &Target) -> Resource {
    let Target::Cgroup { resource, .. } = target;
    *resource
}
