//! Bursting containers: a raised quota only lifts what it was raised from, and the pod directory's quota grows by what
//! its containers were raised by (qos.md 5.4), whoever decides it otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::claim::{Claim, Owner, Reason, Wish};
use super::plan::Desired;
use super::target::CgroupTarget;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::state::pods::PodEntry;
use crate::units::CfsQuota;

/// Settles the bursts of one pod's containers and adds them to the pod directory's quota, if that is finite.
pub(super) fn grow_pod(pod: &PodEntry, entries: &mut BTreeMap<CgroupTarget, Desired>) {
    let mut added = 0i64;
    let mut by_container = BTreeMap::new();
    for container in &pod.containers {
        let Some(dir) = &container.dir else { continue };
        let Some(desired) = entries.get_mut(&CgroupTarget::new(dir, Resource::CfsQuota)) else { continue };
        let Some(more) = settle(desired) else { continue };
        // Of containers that a manifest names alike the first counts, as its directory does.
        if by_container.insert(dir.clone(), (container.name.as_str(), more)).is_none() {
            added = added.saturating_add(more);
        }
    }
    if added <= 0 {
        return;
    }
    let target = CgroupTarget::new(&pod.dir, Resource::CfsQuota);
    let Some(desired) = entries.get_mut(&target) else { return };
    let Some(own) = desired.quota() else { return };
    let quota = CfsQuota::Micros(own.saturating_add(added));
    let containers: Vec<String> =
        by_container.values().map(|(name, more)| format!("{name} {more}")).collect();
    let text = format!(
        "{own} of its own and {added} by which its containers burst: {} (qos.md 5.4)",
        containers.join(", ")
    );
    let inputs = BTreeMap::from([("own", own.to_string()), ("added", added.to_string())]);
    let reason = Arc::new(Reason { text, inputs });
    desired.overrule(Claim { target, wish: Wish::Hold(Value::Quota(quota)), owner: Owner::CpuBurst, reason });
}

/// How far a container's quota is raised; `None` where burst does not decide it. What it was raised from may have
/// changed since: where that is no less now, it counts, as a burst never lowers anything.
fn settle(desired: &mut Desired) -> Option<i64> {
    if desired.owner != Owner::CpuBurst {
        return None;
    }
    let raised = desired.quota()?;
    let base = match &desired.claims.get(1)?.wish {
        Wish::Hold(Value::Quota(quota)) => quota.micros(),
        Wish::Hold(_) | Wish::Leave => None,
    };
    let base = base.filter(|base| *base < raised);
    if base.is_none() {
        desired.step_back();
    }
    base.map(|base| raised - base)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{BOUNDED, UNBOUNDED, dir, limits, plan_of, pod, quota_of, table};
    use super::*;
    use crate::claims::plan::Plan;
    use crate::state::pods::PodTable;

    const POD: &str = "kubepods/burstable/podu";

    fn claim(path: &str, quota: i64, owner: Owner) -> Claim {
        let reason = Arc::new(Reason { text: format!("{owner:?}"), inputs: BTreeMap::new() });
        let value = Value::Quota(CfsQuota::from_raw(quota));
        Claim::hold(CgroupTarget::new(&dir(path), Resource::CfsQuota), value, owner, reason)
    }

    fn two_containers() -> PodTable {
        let containers =
            json!([{"name": "a", "resources": limits("2")}, {"name": "b", "resources": limits("1500m")}]);
        table([pod("u", "LS", json!({ "containers": containers }))])
    }

    fn quotas(plan: &Plan) -> [String; 3] {
        [POD.to_owned(), format!("{POD}/a"), format!("{POD}/b")].map(|path| quota_of(plan, &path))
    }

    fn burst(quotas: &[(&str, i64)]) -> Vec<Claim> {
        quotas.iter().map(|(name, quota)| claim(&format!("{POD}/{name}"), *quota, Owner::CpuBurst)).collect()
    }

    /// W9: the pod of 350000 grows by the container's 40000.
    #[test]
    fn a_pod_grows_by_what_its_containers_were_raised_by() {
        let pods = two_containers();
        for kernel in [BOUNDED, UNBOUNDED] {
            let plan = plan_of(&pods, None, kernel, burst(&[("a", 240_000)]));
            assert_eq!(quotas(&plan), ["hold 390000", "hold 240000", "release 150000"]);
            let both = plan_of(&pods, None, kernel, burst(&[("a", 600_000), ("b", 180_000)]));
            assert_eq!(quotas(&both), ["hold 780000", "hold 600000", "hold 180000"]);
            let none = plan_of(&pods, None, kernel, Vec::new());
            assert_eq!(quotas(&none), ["release 350000", "release 200000", "release 150000"]);
        }
    }

    #[test]
    fn one_chain_shows_burst_normalization_and_spec() {
        let pods = two_containers();
        let mut claims = burst(&[("a", 160_000)]);
        claims.push(claim(&format!("{POD}/a"), 133_334, Owner::CpuNormalization));
        claims.push(claim(&format!("{POD}/b"), 100_000, Owner::CpuNormalization));
        claims.push(claim(POD, 233_334, Owner::CpuNormalization));
        let plan = plan_of(&pods, None, UNBOUNDED, claims.clone());
        assert_eq!(quotas(&plan), ["hold 260000", "hold 160000", "hold 100000"]);
        let chain = |path: &str| -> Vec<Owner> {
            let entry = &plan.entries[&CgroupTarget::new(&dir(path), Resource::CfsQuota)];
            entry.claims.iter().map(|claim| claim.owner).collect()
        };
        let expected = [Owner::CpuBurst, Owner::CpuNormalization, Owner::PodSpec];
        assert_eq!([chain(POD), chain(&format!("{POD}/a"))], [expected, expected]);
        // Where the kernel binds a child to its parent, the pod stays where a runtime can start a container.
        let kept = plan_of(&pods, None, BOUNDED, claims);
        assert_eq!(quotas(&kept), ["hold 260000", "hold 160000", "hold 100000"]);
        // Lower than what the runtime may write to a container: native, and the containers carry the limits.
        let mut claims = burst(&[("b", 60_000)]);
        claims.push(claim(&format!("{POD}/a"), 66_667, Owner::CpuNormalization));
        claims.push(claim(&format!("{POD}/b"), 50_000, Owner::CpuNormalization));
        claims.push(claim(POD, 116_667, Owner::CpuNormalization));
        let kept = plan_of(&pods, None, BOUNDED, claims);
        assert_eq!(quotas(&kept), ["release 350000", "hold 66667", "hold 60000"]);
    }

    #[test]
    fn c206_a_burst_never_lowers_what_it_started_from() {
        let pods = two_containers();
        // The ratio was taken away since the last tick.
        let plan = plan_of(&pods, None, UNBOUNDED, burst(&[("a", 160_000)]));
        assert_eq!(quotas(&plan), ["release 350000", "release 200000", "release 150000"]);
        let entry = &plan.entries[&CgroupTarget::new(&dir(&format!("{POD}/a")), Resource::CfsQuota)];
        let owners: Vec<Owner> = entry.claims.iter().map(|claim| claim.owner).collect();
        assert_eq!(owners, [Owner::PodSpec, Owner::CpuBurst], "and it stays in the chain");
    }

    #[test]
    fn h04_q19_a_pinned_container_stays_unlimited_and_its_pod_does_not_grow() {
        let pods = two_containers();
        let mut claims = burst(&[("a", 240_000)]);
        claims.push(claim(&format!("{POD}/a"), -1, Owner::CpuSetAllocator));
        let plan = plan_of(&pods, None, BOUNDED, claims);
        assert_eq!(quotas(&plan)[..2], ["release 350000", "hold -1"]);
    }

    #[test]
    fn an_unlimited_pod_stays_so() {
        let containers = json!([{"name": "a", "resources": limits("2")}, {"name": "b"}]);
        let pods = table([pod("u", "LS", json!({ "containers": containers }))]);
        let plan = plan_of(&pods, None, BOUNDED, burst(&[("a", 240_000)]));
        assert_eq!(quotas(&plan), ["release -1", "hold 240000", "release -1"]);
    }
}
