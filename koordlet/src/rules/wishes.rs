//! What rules wish for a target, and the reasons, which pods with the same figures share.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Claims, Owner, Reason};
use crate::claims::resctrl::ResctrlTarget;
use crate::claims::target::{CgroupTarget, TaskAttribute, TaskTarget, TaskValue};

/// One value that a rule wishes for a target, wherever the target's directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleWish {
    /// What.
    pub resource: Resource,
    /// Which value. An empty CPU list clears that of the runtime's request.
    pub value: Value,
    /// Which rule.
    pub owner: Owner,
    /// Why.
    pub reason: Arc<Reason>,
}

impl RuleWish {
    /// The wish as a claim on a directory.
    pub fn into_claim(self, dir: &CgroupDir) -> Claim {
        let Self { resource, value, owner, reason } = self;
        Claim::hold(CgroupTarget::new(dir, resource), value, owner, reason)
    }
}

/// One value that a rule wishes for the tasks of a target's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskWish {
    /// What.
    pub attribute: TaskAttribute,
    /// Which value.
    pub value: TaskValue,
    /// Which rule.
    pub owner: Owner,
    /// Why.
    pub reason: Arc<Reason>,
}

/// What makes two reasons of one rule the same while the rule stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReasonKey {
    pub(super) owner: Owner,
    pub(super) resource: Resource,
    /// Whether it speaks of a pod or of a container.
    pub(super) of_pod: bool,
    /// The figure that it starts from; `None` where there is no limit.
    pub(super) figure: Option<i64>,
}

/// What makes two reasons of task wishes the same while the rule stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TaskReasonKey {
    pub(super) owner: Owner,
    pub(super) attribute: TaskAttribute,
    pub(super) value: TaskValue,
    /// What it follows from, e.g. the name of a class or the key of an annotation.
    pub(super) source: &'static str,
}

/// Collects wishes. Keep one only for as long as no rule changes: it remembers reasons.
#[derive(Debug, Default)]
pub struct Wishes {
    list: Vec<RuleWish>,
    tasks: Vec<TaskWish>,
    resctrl: Vec<Claim<ResctrlTarget>>,
    reasons: HashMap<ReasonKey, Arc<Reason>>,
    task_reasons: HashMap<TaskReasonKey, Arc<Reason>>,
}

impl Wishes {
    /// Adds a wish, with the reason that was made for the same key, or a new one.
    pub(super) fn push(&mut self, key: ReasonKey, value: Value, reason: impl FnOnce() -> Reason) {
        let reason = shared(&mut self.reasons, key, reason);
        self.list.push(RuleWish { resource: key.resource, value, owner: key.owner, reason });
    }

    /// Adds a wish whose reason its plugin keeps itself.
    pub(super) fn push_wish(&mut self, wish: RuleWish) {
        self.list.push(wish);
    }

    /// Adds a wish for the tasks of the target's directory, with the reason that was made for the same key, or a new
    /// one.
    pub(super) fn push_tasks(&mut self, key: TaskReasonKey, reason: impl FnOnce() -> Reason) {
        let TaskReasonKey { owner, attribute, value, .. } = key.clone();
        let reason = shared(&mut self.task_reasons, key, reason);
        self.tasks.push(TaskWish { attribute, value, owner, reason });
    }

    /// Adds a wish for resctrl, which names its target itself.
    pub(super) fn push_resctrl(&mut self, claim: Claim<ResctrlTarget>) {
        self.resctrl.push(claim);
    }

    /// Turns what was wished into claims on `dir`; the reasons stay for the next target. An empty CPU list clears
    /// that of a request; a running group is never given one.
    pub(super) fn claim(&mut self, dir: &CgroupDir, claims: &mut Claims) {
        let is_clear = |wish: &RuleWish| matches!(&wish.value, Value::Cpus(cpus) if cpus.is_empty());
        let wishes = self.list.drain(..).filter(|wish| !is_clear(wish));
        claims.cgroup.extend(wishes.map(|wish| wish.into_claim(dir)));
        claims.tasks.extend(self.tasks.drain(..).map(|TaskWish { attribute, value, owner, reason }| {
            Claim::hold(TaskTarget { dir: dir.clone(), attribute }, value, owner, reason)
        }));
        claims.resctrl.append(&mut self.resctrl);
    }

    /// Forgets reasons that no claim shares any more.
    pub(super) fn drop_unused_reasons(&mut self) {
        self.reasons.retain(|_, reason| Arc::strong_count(reason) > 1);
    }

    /// Takes the wishes for cgroup files; the reasons stay for the next target.
    pub fn drain(&mut self) -> impl Iterator<Item = RuleWish> + '_ {
        self.list.drain(..)
    }
}

fn shared<K: Hash + Eq>(
    known: &mut HashMap<K, Arc<Reason>>,
    key: K,
    reason: impl FnOnce() -> Reason,
) -> Arc<Reason> {
    Arc::clone(known.entry(key).or_insert_with(|| Arc::new(reason())))
}
