//! Class directories, after the pods: where the kernel refuses a quota above that of the directory it lies
//! in, no quota beneath a limited best-effort directory may be finite and larger (design.md 4).

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::claim::{Claim, Reason, Wish};
use super::plan::{Decision, Desired};
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

/// Lifts each finite quota beneath a limited best-effort directory that is larger than the directory's own:
/// the kernel would refuse one or the other. What is smaller stays.
///
/// The rules lift batch pods themselves under the `cfsQuota` policy; this covers the moments when rules and
/// strategy have seen different policies, and what neither of them claims.
pub(super) fn lift_quotas_above(
    be_dir: &CgroupDir,
    semantics: Semantics,
    entries: &mut BTreeMap<CgroupTarget, Desired>,
) {
    if !semantics.child_quota_bounded_by_parent {
        return;
    }
    let class = CgroupTarget::new(be_dir, Resource::CfsQuota);
    let Some((limit, owner)) = entries.get(&class).and_then(|class| match &class.decision {
        Decision::Hold(Value::Quota(CfsQuota::Micros(limit))) => Some((*limit, class.owner)),
        _ => None,
    }) else {
        return;
    };
    let reason = Arc::new(Reason {
        text: format!("{be_dir} is held at {limit} and this kernel refuses a larger quota beneath it"),
        inputs: BTreeMap::from([("bestEffortQuota", limit.to_string())]),
    });
    let beneath = entries.range_mut((Bound::Excluded(&class), Bound::Unbounded));
    for (target, desired) in beneath.take_while(|(target, _)| starts_with(target, be_dir)) {
        if lies_beneath(target, be_dir) && desired.quota().is_some_and(|quota| quota > limit) {
            desired.overrule(Claim {
                target: target.clone(),
                wish: Wish::Hold(Value::Quota(CfsQuota::Unlimited)),
                owner,
                reason: Arc::clone(&reason),
            });
        }
    }
}

fn starts_with(CgroupTarget { dir, .. }: &CgroupTarget, be_dir: &CgroupDir) -> bool {
    dir.as_str().starts_with(be_dir.as_str())
}

fn lies_beneath(CgroupTarget { dir, .. }: &CgroupTarget, be_dir: &CgroupDir) -> bool {
    dir != be_dir && be_dir.contains(dir)
}
