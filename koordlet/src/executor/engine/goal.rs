//! What is to be true of a target: from the plan, the ledger, and what other settings of the tree leave of it.

use super::super::ledger::{Entry, Original};
use super::Engine;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::Owner;
use crate::claims::plan::{Decision, Subtree};
use crate::claims::target::Target;
use crate::units::CfsQuota;

/// What is to be done about a target.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Goal {
    /// Hold a value.
    Hold {
        /// Which.
        value: Value,
        /// For whom; goes into the ledger.
        owner: Owner,
        /// The target for whose sake it is held, where nobody claims this one.
        cause: Option<Target>,
        /// What other settings leave of the wish, in words.
        note: Option<String>,
    },
    /// Write once, then let go.
    Give(Back),
    /// Nothing yet.
    Wait(String),
    /// Nothing.
    Nothing(Option<&'static str>),
}

/// What to give back.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Back {
    /// A baseline.
    Value(Value),
    /// What was there before us.
    Original(Original),
}

impl Engine {
    /// The goal of a target.
    pub(super) fn goal(&self, target: &Target) -> Goal {
        let entry = self.parts.ledger.get(target);
        let Some(desired) = self.plan.entries.get(target) else {
            return entry.map_or(Goal::Nothing(None), |entry| self.goal_of_unclaimed(entry));
        };
        match &desired.decision {
            Decision::Leave => Goal::Nothing(None),
            Decision::Hold(value) => self.goal_of_held(target, value, desired.owner),
            Decision::Release(value) => match entry {
                Some(entry) if !self.plan.synced.contains(&entry.owner) => unseen(entry.owner),
                Some(_) => Goal::Give(Back::Value(value.clone())),
                None => self.goal_of_unlimited_baseline(target, desired.owner, value),
            },
        }
    }

    fn goal_of_held(&self, target: &Target, value: &Value, owner: Owner) -> Goal {
        let Target::Cgroup { dir, resource } = target;
        let hold = |value, note| Goal::Hold { value, owner, cause: None, note };
        match (resource, value) {
            (Resource::Cpus | Resource::Mems, Value::Cpus(list)) if list.is_empty() => {
                Goal::Nothing(Some("an empty list is never written: a group with tasks refuses it"))
            }
            (Resource::CpuShares, _) if self.held_int(dir, Resource::CpuIdle) == Some(1) => {
                Goal::Wait("the group is idle (cpu.idle), which refuses shares".to_owned())
            }
            (Resource::CfsQuota, Value::Quota(quota)) => match self.narrower_class(dir, *quota) {
                Some((class, limit)) => hold(
                    Value::Quota(CfsQuota::Unlimited),
                    Some(format!(
                        "unlimited while {class} is limited to {limit}, which this kernel wants at or above it"
                    )),
                ),
                None => hold(value.clone(), None),
            },
            _ => hold(value.clone(), None),
        }
    }

    /// The unlimited quota of the BE directory is asserted once at start even if the ledger knows nothing
    /// (qos.md 5.9), but not before suppression has had its say.
    fn goal_of_unlimited_baseline(&self, target: &Target, owner: Owner, value: &Value) -> Goal {
        if owner != Owner::BeUnlimited || self.asserted.contains(target) {
            return Goal::Nothing(None);
        }
        if self.plan.synced.contains(&Owner::CpuSuppress) {
            Goal::Give(Back::Value(value.clone()))
        } else {
            unseen(Owner::CpuSuppress)
        }
    }

    fn goal_of_unclaimed(&self, entry: &Entry) -> Goal {
        if !self.plan.synced.contains(&entry.owner) {
            return unseen(entry.owner);
        }
        entry
            .cause
            .as_ref()
            .and_then(|cause| self.goal_for_sake_of(entry, cause))
            .unwrap_or_else(|| Goal::Give(Back::Original(entry.original.clone())))
    }

    /// The goal of a target that was changed for the sake of another; `None` once that no longer holds it.
    fn goal_for_sake_of(&self, entry: &Entry, cause: &Target) -> Option<Goal> {
        let Target::Cgroup { dir, resource } = &entry.target;
        let Target::Cgroup { resource: cause_resource, .. } = cause;
        let Decision::Hold(held) = &self.plan.entries.get(cause)?.decision else { return None };
        let hold = |value| Goal::Hold { value, owner: entry.owner, cause: Some(cause.clone()), note: None };
        let original = self.parts.files.value(*resource, &entry.original.value, None);
        match (cause_resource, resource, held, original) {
            (Resource::CpuIdle, Resource::CpuShares, Value::Int(1), _) => {
                Some(Goal::Wait("the group is idle (cpu.idle), which refuses shares".to_owned()))
            }
            (Resource::CfsQuota, Resource::CfsBurst, Value::Quota(CfsQuota::Micros(_)), Some(original)) => {
                Some(hold(original))
            }
            (Resource::CfsQuota, Resource::CfsQuota, _, Some(Value::Quota(original))) => {
                let above = self.narrower_class(dir, original).is_some();
                Some(hold(Value::Quota(if above { CfsQuota::Unlimited } else { original })))
            }
            _ => None,
        }
    }

    /// A class directory above `dir` that is to be held below `quota`, where the kernel refuses that.
    pub(super) fn narrower_class(&self, dir: &CgroupDir, quota: CfsQuota) -> Option<(CgroupDir, CfsQuota)> {
        if quota == CfsQuota::Unlimited
            || !self.parts.files.layout().semantics().child_quota_bounded_by_parent
        {
            return None;
        }
        let mut above = dir.parent();
        while let Some(parent) = above {
            if let Some(limit) = self.held_class_quota(&parent)
                && limit < quota
            {
                return Some((parent, limit));
            }
            above = parent.parent();
        }
        None
    }

    /// The quota that the plan holds for a class directory.
    pub(super) fn held_class_quota(&self, dir: &CgroupDir) -> Option<CfsQuota> {
        let desired = self.plan.entries.get(&Target::cgroup(dir, Resource::CfsQuota))?;
        match &desired.decision {
            Decision::Hold(Value::Quota(quota)) if desired.subtree == Subtree::Class => Some(*quota),
            _ => None,
        }
    }

    pub(super) fn held_int(&self, dir: &CgroupDir, resource: Resource) -> Option<i64> {
        match &self.plan.entries.get(&Target::cgroup(dir, resource))?.decision {
            Decision::Hold(Value::Int(number)) => Some(*number),
            _ => None,
        }
    }
}

fn unseen(owner: Owner) -> Goal {
    Goal::Wait(format!("what {owner:?} goes by has not been seen yet"))
}
