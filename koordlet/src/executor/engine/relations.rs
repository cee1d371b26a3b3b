//! Targets that have to be looked at again when another one changes.

use super::Engine;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::plan::{Decision, Desired, Subtree};
use crate::claims::target::CgroupTarget;

impl Engine {
    /// Targets whose goal may be another one now that the decision on `target` is.
    pub(super) fn related(&self, target: &CgroupTarget) -> Vec<CgroupTarget> {
        let CgroupTarget { dir, resource } = target;
        let beside = match resource {
            Resource::CfsQuota => Resource::CfsBurst,
            Resource::CpuIdle => Resource::CpuShares,
            Resource::Cpus => return self.cut_beneath(dir),
            _ => return Vec::new(),
        };
        let mut related: Vec<CgroupTarget> = self
            .parts
            .ledger
            .iter()
            .filter(|entry| entry.cause.as_ref() == Some(target))
            .map(|entry| entry.target.clone())
            .collect();
        let beside = CgroupTarget::new(dir, beside);
        if self.plan.entries.contains_key(&beside) || self.parts.ledger.get(&beside).is_some() {
            related.push(beside);
        }
        if *resource == Resource::CfsQuota && self.may_be_class(target) {
            related.extend(self.quotas_beneath_that_flip(dir));
        }
        related
    }

    /// Whether a target that was given up may have been a class directory's: its subtree is unknown then.
    fn may_be_class(&self, target: &CgroupTarget) -> bool {
        self.plan.entries.get(target).is_none_or(|desired| desired.subtree == Subtree::Class)
            && self.parts.files.layout().semantics().child_quota_bounded_by_parent
    }

    /// Held quotas beneath a class directory that are to be lifted, or to come back, because of its quota.
    fn quotas_beneath_that_flip(&self, class: &CgroupDir) -> Vec<CgroupTarget> {
        self.planned_beneath(class)
            .filter_map(|(target, desired)| {
                let CgroupTarget { dir, resource: Resource::CfsQuota } = target else { return None };
                let Decision::Hold(Value::Quota(quota)) = &desired.decision else { return None };
                let lifted = self.tracks.get(target).is_some_and(|track| track.note.is_some());
                (self.narrower_class(dir, *quota).is_some() != lifted).then(|| target.clone())
            })
            .collect()
    }

    /// The plan's entries strictly beneath a directory.
    pub(super) fn planned_beneath<'a>(
        &'a self,
        above: &'a CgroupDir,
    ) -> impl Iterator<Item = (&'a CgroupTarget, &'a Desired)> {
        // `p-x` sorts between `p` and `p/c`: the range is left at the first path without the prefix.
        self.plan
            .entries
            .range(first_target(above)..)
            .take_while(move |(CgroupTarget { dir, .. }, _)| dir.as_str().starts_with(above.as_str()))
            .filter(move |(CgroupTarget { dir, .. }, _)| dir != above && above.contains(dir))
            .map(|(target, desired)| (target, &**desired))
    }

    /// The plan's targets in a directory and hierarchy.
    pub(super) fn planned_in(&self, dir: &CgroupDir, hierarchy: usize) -> Vec<CgroupTarget> {
        self.plan
            .entries
            .range(first_target(dir)..)
            .map(|(target, _)| target)
            .take_while(|CgroupTarget { dir: in_dir, .. }| in_dir == dir)
            .filter(|CgroupTarget { resource, .. }| self.parts.files.hierarchy(*resource) == Some(hierarchy))
            .cloned()
            .collect()
    }

    /// Refused targets that may be accepted now that `target` has changed: on the same resource, above or
    /// beneath it or beside it.
    pub(super) fn refused_near(&self, target: &CgroupTarget) -> Vec<CgroupTarget> {
        let CgroupTarget { dir, .. } = target;
        self.refused
            .iter()
            .filter(|other| {
                let CgroupTarget { dir: near, .. } = other;
                *other != target && (near.contains(dir) || dir.contains(near))
            })
            .cloned()
            .collect()
    }
}

/// The first of a directory's targets.
fn first_target(dir: &CgroupDir) -> CgroupTarget {
    CgroupTarget::new(dir, Resource::CpuShares)
}
