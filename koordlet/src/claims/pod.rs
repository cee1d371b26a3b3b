//! A pod directory's quota and those of its containers, fitted to each other. Only where the kernel refuses a
//! child's quota above its parent's is there anything to fit; elsewhere it accepts every combination and the
//! smaller of the two is in effect. The fit gives the same effect.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::claim::{Claim, Owner, Reason, Wish};
use super::native::NativePod;
use super::plan::{Decision, Desired};
use super::planner::Entries;
use super::target::CgroupTarget;
use crate::cgroup::resource::Resource;
use crate::cgroup::semantics::Semantics;
use crate::cgroup::value::Value;
use crate::state::pods::PodEntry;
use crate::units::CfsQuota;

/// Fits the quotas of one pod's subtree, whose own decisions are in `entries` already.
pub(super) fn fit_quota(pod: &PodEntry, semantics: Semantics, entries: &mut Entries) {
    if !semantics.child_quota_bounded_by_parent {
        return;
    }
    let target = CgroupTarget::new(&pod.dir, Resource::CfsQuota);
    let Some(desired) = entries.get_mut(&target) else { return };
    if let Some(own) = desired.quota().filter(|_| is_held(desired))
        && let Some((quota, reason)) = kept_for_pod_start(pod, own)
    {
        desired.overrule(hold(target.clone(), quota, Owner::PodSpec, Arc::new(reason)));
    }
    let Some(limit) = desired.quota() else { return };
    let (owner, held) = (desired.owner, is_held(desired));
    cap_containers(pod, limit, owner, held, entries);
}

/// The quota that a pod directory keeps so that its containers can start, design.md 4 ("never break a pod
/// start"): a runtime that does not ask for our values writes each container's native quota, which the
/// kernel refuses above the pod's. Containers alone then carry the scaling, with the same effect where every
/// container has a limit. Batch containers have no native quota, so their pod may be lowered at once.
fn kept_for_pod_start(pod: &PodEntry, own: i64) -> Option<(CfsQuota, Reason)> {
    // What the sandbox of a virtual machine gets is not in the hook's hands.
    if pod.hooks_live && pod.has_host_groups() {
        return None;
    }
    let native = NativePod::new(pod);
    let runtime = native.largest_runtime_quota().filter(|runtime| *runtime > own)?;
    let kept = native.pod().quota.max(CfsQuota::Micros(runtime));
    let reason = Reason {
        text: format!(
            "the pod directory keeps its native {kept} instead of {own}: the runtime may write {runtime} to a \
             container and no hook was seen for this pod, so the containers alone carry the limit (design.md 4)"
        ),
        inputs: BTreeMap::from([("runtimeQuota", runtime.to_string()), ("wanted", own.to_string())]),
    };
    Some((kept, reason))
}

/// Lowers containers to their pod's quota. Beside a pod directory that is not held only held containers are
/// looked at: the others are as the runtime made them, and it made them fit.
fn cap_containers(pod: &PodEntry, limit: i64, owner: Owner, pod_is_held: bool, entries: &mut Entries) {
    for dir in pod.containers.iter().filter_map(|container| container.dir.as_ref()) {
        let target = CgroupTarget::new(dir, Resource::CfsQuota);
        let Some(desired) = entries.get_mut(&target) else { continue };
        let Some(own) = desired.quota().filter(|own| *own > limit) else { continue };
        if pod_is_held || is_held(desired) {
            let reason = Reason {
                text: format!(
                    "{limit} as its pod instead of {own}: this kernel refuses a larger quota in a smaller one"
                ),
                inputs: BTreeMap::from([("podQuota", limit.to_string()), ("wanted", own.to_string())]),
            };
            // A baseline would not be held, and what the pod falls back to still has to fit.
            let owner = if owner.is_baseline() { desired.owner } else { owner };
            desired.overrule(hold(target, CfsQuota::Micros(limit), owner, Arc::new(reason)));
        }
    }
}

fn is_held(desired: &Desired) -> bool {
    matches!(desired.decision, Decision::Hold(_))
}

fn hold(target: CgroupTarget, quota: CfsQuota, owner: Owner, reason: Arc<Reason>) -> Claim {
    Claim { target, wish: Wish::Hold(Value::Quota(quota)), owner, reason }
}
