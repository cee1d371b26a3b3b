//! What bursting containers hold, as claims: a budget beside each quota, and quotas above their base. At its base a
//! container is claimed by nobody here, so that rules and the pod's spec decide. What a pod directory's quota has to
//! grow by follows from its containers and is worked out where claims are combined.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::members::{Base, Member};
use super::quota::{Cause, ContainerState, ceiling};
use super::static_burst::{budget_us, pod_budget_us};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Claims, Owner, Reason};
use crate::claims::target::CgroupTarget;
use crate::units::CfsQuota;

/// All claims for `members`, whose containers are in `states` by id.
pub(super) fn claims(members: &[Member], states: &BTreeMap<String, ContainerState>) -> Claims {
    let mut claims = Claims::default();
    let mut reasons = HashMap::new();
    for of_pod in members.chunk_by(|a, b| Arc::ptr_eq(&a.pod, &b.pod)) {
        budgets(of_pod, &mut reasons, &mut claims.cgroup);
        for member in of_pod {
            let state = states.get(&*member.id);
            claims.cgroup.extend(state.and_then(|state| quota(member, state)));
        }
    }
    claims
}

/// The budget of the kernel for a container, in microseconds; `None` where its policy has none.
pub(super) fn budget(member: &Member) -> Option<i64> {
    let policy = &member.policy;
    policy.policy.has_budget().then(|| budget_us(member.limit, policy.cpu_burst))
}

/// Budgets of one pod's containers, and their sum for the pod (qos.md 5.4).
fn budgets(members: &[Member], reasons: &mut HashMap<(i64, i64), Arc<Reason>>, claims: &mut Vec<Claim>) {
    let mut of_containers = Vec::new();
    for member in members {
        let Some(budget) = budget(member) else { continue };
        let (limit, percent) = (member.limit.0, member.policy.cpu_burst.0);
        let reason = reasons.entry((limit, percent)).or_insert_with(|| {
            let text = format!("{percent} % of the container's CPU limit of {limit}m (qos.md 5.4)");
            let inputs = BTreeMap::from([("limit_m", limit.to_string()), ("percent", percent.to_string())]);
            Arc::new(Reason { text, inputs })
        });
        claims.push(hold(&member.dir, Resource::CfsBurst, Value::Int(budget), Arc::clone(reason)));
        of_containers.push(budget);
    }
    let Some(pod) = members.first().map(|member| &member.pod.dir).filter(|_| !of_containers.is_empty())
    else {
        return;
    };
    let budget = pod_budget_us(of_containers);
    let text = "the sum of its containers' budgets (qos.md 5.4)".to_owned();
    let reason = Reason { text, inputs: BTreeMap::from([("burst", budget.to_string())]) };
    claims.push(hold(pod, Resource::CfsBurst, Value::Int(budget), Arc::new(reason)));
}

/// A quota above its base.
fn quota(member: &Member, state: &ContainerState) -> Option<Claim> {
    let base = member.base.filter(|base| state.quota > base.quota && member.policy.policy.raises_quota())?;
    let value = Value::Quota(CfsQuota::Micros(state.quota));
    Some(hold(&member.dir, Resource::CfsQuota, value, Arc::new(quota_reason(member, base, state))))
}

fn quota_reason(member: &Member, base: Base, state: &ContainerState) -> Reason {
    let most = ceiling(base.quota, member.policy.cfs_quota_burst);
    let whose = match base.owner {
        Owner::PodSpec => "its CPU limit".to_owned(),
        owner => format!("what {} yields", owner.name()),
    };
    let cause = match state.cause {
        Cause::Found => "as it was when the agent started",
        Cause::Throttled => "raised, as it was throttled and the shared CPUs had room",
        Cause::Overload => "on its way down, as the shared CPUs are busy",
        Cause::UsedUp => "on its way down, as it has burst for as long as it may",
        Cause::Blind => "on its way down, as there are no figures of its load",
        Cause::Bounds => "as base or ceiling changed",
    };
    let base = base.quota;
    let quota = state.quota;
    Reason {
        text: format!("{quota} above the {base} of {whose}, at most {most}: {cause} (qos.md 5.4)"),
        inputs: BTreeMap::from([("base", base.to_string()), ("ceiling", most.to_string())]),
    }
}

fn hold(dir: &CgroupDir, resource: Resource, value: Value, reason: Arc<Reason>) -> Claim {
    Claim::hold(CgroupTarget::new(dir, resource), value, Owner::CpuBurst, reason)
}
