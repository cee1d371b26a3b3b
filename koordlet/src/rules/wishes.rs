//! What rules wish for a target, and the reasons, which pods with the same figures share.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Owner, Reason, Wish};
use crate::claims::target::Target;

/// One value that a rule wishes for a target, wherever the target's directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleWish {
    /// What.
    pub resource: Resource,
    /// Which value.
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
        Claim { target: Target::cgroup(dir, resource), wish: Wish::Hold(value), owner, reason }
    }
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

/// Collects wishes. Keep one only for as long as no rule changes: it remembers reasons.
#[derive(Debug, Default)]
pub struct Wishes {
    list: Vec<RuleWish>,
    reasons: HashMap<ReasonKey, Arc<Reason>>,
}

impl Wishes {
    /// Adds a wish, with the reason that was made for the same key, or a new one.
    pub(super) fn push(&mut self, key: ReasonKey, value: Value, reason: impl FnOnce() -> Reason) {
        let reason = match self.reasons.entry(key) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(new) => Arc::clone(new.insert(Arc::new(reason()))),
        };
        self.list.push(RuleWish { resource: key.resource, value, owner: key.owner, reason });
    }

    /// Takes the wishes; the reasons stay for the next target.
    pub fn drain(&mut self) -> impl Iterator<Item = RuleWish> + '_ {
        self.list.drain(..)
    }
}
