//! Class directories, after the pods: where the kernel refuses a quota above that of the directory it lies
//! in, no quota beneath a limited best-effort directory may be finite and larger (design.md 4).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::claim::{Claim, Owner, Reason, Wish};
use super::plan::Decision;
use super::planner::Entries;
use super::target::CgroupTarget;
use crate::api::qos::KubeQos;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::semantics::Semantics;
use crate::cgroup::value::Value;
use crate::state::pods::PodTable;
use crate::state::tree::{CgroupTree, DirKind};
use crate::units::CfsQuota;

/// The best-effort class directory: as the tree has it, else as its pods say.
pub(super) fn best_effort_dir(tree: &CgroupTree, pods: &PodTable) -> Option<CgroupDir> {
    let is_best_effort = |dir: &CgroupDir| dir.name().contains("besteffort");
    let in_tree = tree.dirs.iter().find(|(dir, kind)| **kind == DirKind::QosClass && is_best_effort(dir));
    in_tree.map(|(dir, _)| dir.clone()).or_else(|| {
        let mut pods = pods.pods.values().filter(|pod| pod.kube_qos == KubeQos::BestEffort);
        pods.find_map(|pod| pod.dir.parent()).filter(is_best_effort)
    })
}

/// A finite quota of a class directory that this kernel lets no finite quota beneath it exceed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClassLimit {
    dir: CgroupDir,
    micros: i64,
    owner: Owner,
    reason: Arc<Reason>,
}

/// The limit of the best-effort directory, whose own decision is in `entries` already; `None` where it is not limited
/// or the kernel takes any quota beneath.
pub(super) fn limit_of(be_dir: &CgroupDir, semantics: Semantics, entries: &Entries) -> Option<ClassLimit> {
    if !semantics.child_quota_bounded_by_parent {
        return None;
    }
    let class = entries.get(&CgroupTarget::new(be_dir, Resource::CfsQuota))?;
    let Decision::Hold(Value::Quota(CfsQuota::Micros(micros))) = class.decision else { return None };
    let reason = Reason {
        text: format!("{be_dir} is held at {micros} and this kernel refuses a larger quota beneath it"),
        inputs: BTreeMap::from([("bestEffortQuota", micros.to_string())]),
    };
    Some(ClassLimit { dir: be_dir.clone(), micros, owner: class.owner, reason: Arc::new(reason) })
}

impl ClassLimit {
    /// Whether it is one of a directory above `dir`.
    pub(super) fn is_above(&self, dir: &CgroupDir) -> bool {
        *dir != self.dir && self.dir.contains(dir)
    }

    /// Lifts each finite quota beneath the directory that is larger than the directory's own: the kernel would refuse
    /// one or the other. What is smaller stays.
    ///
    /// The rules lift batch pods themselves under the `cfsQuota` policy; this covers the moments when rules and
    /// strategy have seen different policies, and what neither of them claims.
    pub(super) fn lift_quotas_above(&self, entries: &mut Entries) {
        for (target, desired) in entries {
            if self.is_above(&target.dir) && desired.quota().is_some_and(|quota| quota > self.micros) {
                desired.overrule(Claim {
                    target: target.clone(),
                    wish: Wish::Hold(Value::Quota(CfsQuota::Unlimited)),
                    owner: self.owner,
                    reason: Arc::clone(&self.reason),
                });
            }
        }
    }
}
