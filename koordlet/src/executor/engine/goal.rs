//! What is to be true of a target: from the plan, the ledger, and what other settings of the tree leave of it.

use super::super::diff::Period;
use super::super::ledger::{Entry, Original};
use super::Engine;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::Owner;
use crate::claims::plan::{Decision, Subtree};
use crate::claims::target::CgroupTarget;
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
        cause: Option<CgroupTarget>,
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
    pub(super) fn goal(&self, target: &CgroupTarget) -> Goal {
        let entry = self.parts.ledger.get(target);
        let Some(desired) = self.plan.entries.get(target) else {
            return entry.map_or(Goal::Nothing(None), |entry| {
                self.goal_of_given(entry, Back::Original(entry.original.clone()))
            });
        };
        match &desired.decision {
            Decision::Leave => Goal::Nothing(None),
            Decision::Hold(value) => self.goal_of_held(target, value, desired.owner),
            Decision::Release(value) => match entry {
                Some(entry) => self.goal_of_given(entry, Back::Value(value.clone())),
                None => self.goal_of_unlimited_baseline(target, desired.owner, value),
            },
        }
    }

    /// Giving back, once its owner has had its say and nothing that is held stands in the way.
    fn goal_of_given(&self, entry: &Entry, back: Back) -> Goal {
        if !self.plan.synced.contains(&entry.owner) {
            return unseen(entry.owner);
        }
        self.goal_in_the_way(entry, &back).unwrap_or(Goal::Give(back))
    }

    fn goal_of_held(&self, target: &CgroupTarget, value: &Value, owner: Owner) -> Goal {
        let CgroupTarget { dir, resource } = target;
        let hold = |value, note| Goal::Hold { value, owner, cause: None, note };
        match (resource, value) {
            (Resource::Cpus | Resource::Mems, Value::Cpus(list)) if list.is_empty() => {
                Goal::Nothing(Some("an empty list is never written: a group with tasks refuses it"))
            }
            (Resource::CpuShares, _) if self.held_int(dir, Resource::CpuIdle) == Some(1) => idle(),
            (Resource::CfsQuota, Value::Quota(quota)) => match self.narrower_class(dir, *quota) {
                Some((class, limit)) => hold(Value::Quota(CfsQuota::Unlimited), Some(lifted(&class, limit))),
                None => hold(value.clone(), None),
            },
            _ => hold(value.clone(), None),
        }
    }

    /// The unlimited quota of the BE directory is asserted once at start even if the ledger knows nothing
    /// (qos.md 5.9), but not before suppression has had its say.
    fn goal_of_unlimited_baseline(&self, target: &CgroupTarget, owner: Owner, value: &Value) -> Goal {
        if owner != Owner::BeUnlimited || self.asserted.contains(target) {
            return Goal::Nothing(None);
        }
        if self.plan.synced.contains(&Owner::CpuSuppress) {
            Goal::Give(Back::Value(value.clone()))
        } else {
            unseen(Owner::CpuSuppress)
        }
    }

    /// The goal of a target that could be given back, were it not for another one that is held and would make
    /// the kernel refuse it.
    fn goal_in_the_way(&self, entry: &Entry, back: &Back) -> Option<Goal> {
        let CgroupTarget { dir, resource } = &entry.target;
        let hold = |value, cause: &CgroupDir, note| Goal::Hold {
            value,
            owner: entry.owner,
            cause: Some(CgroupTarget::new(cause, Resource::CfsQuota)),
            note,
        };
        match (resource, self.value_of(*resource, back)?) {
            (Resource::CpuShares, _) if self.held_int(dir, Resource::CpuIdle) == Some(1) => Some(idle()),
            (Resource::CfsQuota, Value::Quota(quota)) => {
                let (class, limit) = self.narrower_class(dir, quota)?;
                Some(hold(Value::Quota(CfsQuota::Unlimited), &class, Some(lifted(&class, limit))))
            }
            // Cut to the quota when that has been read.
            (Resource::CfsBurst, value) if self.holds_finite_quota(dir) => Some(hold(value, dir, None)),
            _ => None,
        }
    }

    /// What is to be given back where nothing is in the way.
    pub(super) fn back(&self, target: &CgroupTarget) -> Option<Back> {
        match self.plan.entries.get(target).map(|desired| &desired.decision) {
            Some(Decision::Release(value)) => Some(Back::Value(value.clone())),
            Some(Decision::Hold(_) | Decision::Leave) => None,
            None => self.parts.ledger.get(target).map(|entry| Back::Original(entry.original.clone())),
        }
    }

    /// What giving back makes a file mean, a quota as one for 100 ms.
    pub(super) fn value_of(&self, resource: Resource, back: &Back) -> Option<Value> {
        match back {
            Back::Value(value) => Some(value.clone()),
            Back::Original(original) => {
                let period = match (resource, original.period_us()) {
                    (Resource::CfsQuota, Some(us)) => Some(Period { us, in_quota_file: false }),
                    _ => None,
                };
                self.parts.files.value(resource, &original.value, period)
            }
        }
    }

    fn holds_finite_quota(&self, dir: &CgroupDir) -> bool {
        let desired = self.plan.entries.get(&CgroupTarget::new(dir, Resource::CfsQuota));
        desired.is_some_and(|d| matches!(d.decision, Decision::Hold(Value::Quota(CfsQuota::Micros(_)))))
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
        let desired = self.plan.entries.get(&CgroupTarget::new(dir, Resource::CfsQuota))?;
        match &desired.decision {
            Decision::Hold(Value::Quota(quota)) if desired.subtree == Subtree::Class => Some(*quota),
            _ => None,
        }
    }

    /// Whether the plan holds a target.
    pub(super) fn holds(&self, target: &CgroupTarget) -> bool {
        matches!(self.plan.entries.get(target).map(|d| &d.decision), Some(Decision::Hold(_)))
    }

    pub(super) fn held_int(&self, dir: &CgroupDir, resource: Resource) -> Option<i64> {
        match &self.plan.entries.get(&CgroupTarget::new(dir, resource))?.decision {
            Decision::Hold(Value::Int(number)) => Some(*number),
            _ => None,
        }
    }
}

fn unseen(owner: Owner) -> Goal {
    Goal::Wait(format!("what {owner:?} goes by has not been seen yet"))
}

fn idle() -> Goal {
    Goal::Wait("the group is idle (cpu.idle), which refuses shares".to_owned())
}

fn lifted(class: &CgroupDir, limit: CfsQuota) -> String {
    format!("unlimited while {class} is limited to {limit}, above which this kernel refuses it")
}
