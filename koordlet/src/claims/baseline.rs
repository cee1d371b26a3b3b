//! What withdrawn claims fall back to: for each target that a rule or strategy may claim, the value that
//! holds when nobody does. And what is not ours: containers with CPUs of the kubelet's own.
//!
//! Baselines never cause a write by themselves; they only undo what the ledger says was changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claim::{Claim, Owner, Reason, Wish};
use super::native::NativePod;
use super::target::Target;
use crate::api::qos::KubeQos;
use crate::api::resources::Native;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::cpuset::CpuSet;
use crate::state::cpu_sources::allocated_cpus;
use crate::state::pods::{PodEntry, PodTable};
use crate::state::topology::Topology;
use crate::state::tree::{CgroupTree, DirKind};
use crate::units::CfsQuota;

/// Appends all baselines, and the claims of the kubelet.
pub(super) fn push(
    pods: &PodTable,
    topology: Option<&Topology>,
    tree: &CgroupTree,
    be_dir: Option<&CgroupDir>,
    claims: &mut Vec<Claim>,
) {
    let reasons = Reasons::new();
    for pod in pods.pods.values() {
        pod_spec(pod, &reasons, claims);
        if let Some(topology) = topology {
            kubelet_exclusive(pod, topology, &reasons, claims);
        }
    }
    let Some(be_dir) = be_dir else { return };
    let unlimited = Value::Quota(CfsQuota::Unlimited);
    claims.push(claim(be_dir, Resource::CfsQuota, unlimited, Owner::BeUnlimited, &reasons.be_unlimited));
    // An empty pool is nothing to fall back to.
    let pool = topology.map(|topology| &topology.be_pool).filter(|pool| !pool.is_empty());
    best_effort_cpus(pods, tree, be_dir, pool, &reasons, claims);
}

/// The fixed reasons, one allocation each a plan.
struct Reasons {
    shares: Arc<Reason>,
    quota: Arc<Reason>,
    memory: Arc<Reason>,
    own_cpus: Arc<Reason>,
    exclusive: Arc<Reason>,
    exclusive_pod: Arc<Reason>,
    be_unlimited: Arc<Reason>,
    be_pool: Arc<Reason>,
}

impl Reasons {
    fn new() -> Self {
        let reason = |text: &str| Arc::new(Reason { text: text.to_owned(), inputs: BTreeMap::new() });
        Self {
            shares: reason("shares for the CPU request of the pod's spec"),
            quota: reason("quota for the CPU limit of the pod's spec"),
            memory: reason("memory limit of the pod's spec"),
            own_cpus: reason("CPUs that the scheduler allocated to the pod (resource-status)"),
            exclusive: reason("the kubelet gave this container exclusive CPUs (cpu_manager_state)"),
            exclusive_pod: reason("the kubelet lifts the quota of a pod with exclusive CPUs"),
            be_unlimited: reason("the best-effort directory has no quota of its own (qos.md 5.9)"),
            be_pool: reason("all CPUs but reserved, exclusive system, LSE and pinned ones (qos.md 5.1)"),
        }
    }
}

fn claim(dir: &CgroupDir, resource: Resource, value: Value, owner: Owner, reason: &Arc<Reason>) -> Claim {
    Claim {
        target: Target::cgroup(dir, resource),
        wish: Wish::Hold(value),
        owner,
        reason: Arc::clone(reason),
    }
}

/// What the kubelet and the runtime set from the pod's own spec.
fn pod_spec(pod: &PodEntry, reasons: &Reasons, claims: &mut Vec<Claim>) {
    let native = NativePod::new(pod);
    let mut push = |dir: &CgroupDir, values: Native| {
        let Native { shares, quota, memory } = values;
        let mut one =
            |resource, value, reason| claims.push(claim(dir, resource, value, Owner::PodSpec, reason));
        one(Resource::CpuShares, Value::Shares(shares), &reasons.shares);
        one(Resource::CfsQuota, Value::Quota(quota), &reasons.quota);
        one(Resource::MemoryLimit, Value::Memory(memory), &reasons.memory);
    };
    push(&pod.dir, native.pod());
    for container in &pod.containers {
        if let Some(dir) = &container.dir {
            push(dir, native.container(container));
        }
    }
}

/// CPUs and quota of containers with exclusive CPUs are the kubelet's, and so is their pod's quota.
fn kubelet_exclusive(pod: &PodEntry, topology: &Topology, reasons: &Reasons, claims: &mut Vec<Claim>) {
    if topology.kubelet_exclusive.is_empty() {
        return;
    }
    let mut any = false;
    let mut leave = |dir: &CgroupDir, resource, reason: &Arc<Reason>| {
        claims.push(Claim {
            target: Target::cgroup(dir, resource),
            wish: Wish::Leave,
            owner: Owner::KubeletExclusive,
            reason: Arc::clone(reason),
        });
    };
    for container in &pod.containers {
        let key = (Arc::clone(&pod.uid), container.name.clone());
        if topology.kubelet_exclusive.get(&key).is_none_or(CpuSet::is_empty) {
            continue;
        }
        any = true;
        if let Some(dir) = &container.dir {
            leave(dir, Resource::Cpus, &reasons.exclusive);
            leave(dir, Resource::CfsQuota, &reasons.exclusive);
        }
    }
    if any {
        leave(&pod.dir, Resource::CfsQuota, &reasons.exclusive_pod);
    }
}

/// CPU lists of the best-effort directory and two levels beneath it, sandboxes and pods that only the tree
/// knows included. Containers of a pod with an allocation of its own fall back to that, qos.md Q6.
fn best_effort_cpus(
    pods: &PodTable,
    tree: &CgroupTree,
    be_dir: &CgroupDir,
    pool: Option<&CpuSet>,
    reasons: &Reasons,
    claims: &mut Vec<Claim>,
) {
    let mut own: BTreeMap<&CgroupDir, CpuSet> = BTreeMap::new();
    let mut dirs: BTreeSet<&CgroupDir> = tree
        .dirs
        .range(be_dir..)
        .take_while(|(dir, _)| dir.as_str().starts_with(be_dir.as_str()))
        .filter(|(dir, kind)| be_dir.contains(dir) && **kind != DirKind::Nested)
        .map(|(dir, _)| dir)
        .collect();
    dirs.insert(be_dir);
    for pod in pods.pods.values().filter(|pod| pod.kube_qos == KubeQos::BestEffort) {
        dirs.insert(&pod.dir);
        dirs.extend(pod.containers.iter().filter_map(|container| container.dir.as_ref()));
        if let Ok(cpus) = allocated_cpus(pod)
            && !cpus.is_empty()
        {
            own.insert(&pod.dir, cpus);
        }
    }
    for dir in dirs {
        let pods_own = own.iter().find(|(pod, _)| pod.contains(dir) && **pod != dir).map(|(_, cpus)| cpus);
        let (cpus, owner, reason) = match (pods_own, pool) {
            (Some(cpus), _) => (cpus.clone(), Owner::PodSpec, &reasons.own_cpus),
            // A directory includes what pods in it have for themselves, else they could not hold it.
            (None, Some(pool)) => {
                let beneath = own.iter().filter(|(pod, _)| dir.contains(pod));
                let cpus = beneath.fold(pool.clone(), |all, (_, cpus)| all.union(cpus));
                (cpus, Owner::BePool, &reasons.be_pool)
            }
            (None, None) => continue,
        };
        claims.push(claim(dir, Resource::Cpus, Value::Cpus(cpus), owner, reason));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::api::keys;
    use crate::cgroup::resource::Resource;
    use crate::claims::testing::{BE_DIR, BOUNDED, annotated, plan_of, pod, said, table};
    use crate::state::topology::Topology;

    #[test]
    fn q6_directories_fall_back_to_the_pool_and_what_pods_in_them_have_for_themselves() {
        let spec = json!({"containers": [{"name": "c"}]});
        let own = json!({ keys::RESOURCE_STATUS: r#"{"cpuset":"6-7"}"# });
        let pods = table([pod("a", "BE", spec.clone()), annotated("b", "BE", own, spec)]);
        let topology = Topology { be_pool: "0-5".parse().unwrap(), ..Topology::default() };
        let plan = plan_of(&pods, Some(&topology), BOUNDED, Vec::new());
        for (path, want) in [
            (BE_DIR, "release 0-7"),
            ("kubepods/besteffort/poda", "release 0-5"),
            ("kubepods/besteffort/poda/sandbox", "release 0-5"),
            ("kubepods/besteffort/podb", "release 0-7"),
            ("kubepods/besteffort/podb/c", "release 6-7"),
        ] {
            assert_eq!(said(&plan, path, Resource::Cpus), want, "{path}");
        }
    }
}
