//! What withdrawn claims fall back to: for each target that a rule or strategy may claim, the value that
//! holds when nobody does. And what is not ours: containers with CPUs of the kubelet's own.
//!
//! Baselines never cause a write by themselves; they only undo what the ledger says was changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::be_cpus::best_effort_cpus;
use super::claim::{Claim, Owner, Reason, Wish};
use super::native::NativePod;
use super::target::CgroupTarget;
use crate::api::resources::Native;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::cpuset::CpuSet;
use crate::state::pods::{PodEntry, PodTable};
use crate::state::topology::Topology;
use crate::state::tree::CgroupTree;
use crate::units::CfsQuota;

/// What makes baselines, with their reasons.
#[derive(Debug)]
pub(super) struct Baselines(Reasons);

impl Default for Baselines {
    fn default() -> Self {
        Self(Reasons::new())
    }
}

impl Baselines {
    /// Appends those of one pod, which follow from the pod alone.
    pub(super) fn push_pod(&self, pod: &PodEntry, claims: &mut Vec<Claim>) {
        pod_spec(pod, &self.0, claims);
    }

    /// Appends all others, and the claims of the kubelet.
    pub(super) fn push_others(
        &self,
        pods: &PodTable,
        topology: Option<&Topology>,
        tree: &CgroupTree,
        be_dir: Option<&CgroupDir>,
        claims: &mut Vec<Claim>,
    ) {
        let Self(reasons) = self;
        if let Some(topology) = topology {
            for pod in pods.pods.values() {
                kubelet_exclusive(pod, topology, reasons, claims);
            }
        }
        let Some(be_dir) = be_dir else { return };
        let unlimited = Value::Quota(CfsQuota::Unlimited);
        claims.push(claim(be_dir, Resource::CfsQuota, unlimited, Owner::BeUnlimited, &reasons.be_unlimited));
        if let Some(topology) = topology {
            best_effort_cpus(pods, topology, tree, be_dir, claims);
        }
    }
}

/// The fixed reasons.
#[derive(Debug)]
struct Reasons {
    shares: Arc<Reason>,
    quota: Arc<Reason>,
    memory: Arc<Reason>,
    exclusive: Arc<Reason>,
    exclusive_pod: Arc<Reason>,
    be_unlimited: Arc<Reason>,
}

/// A reason without figures.
pub(super) fn reason(text: &str) -> Arc<Reason> {
    Arc::new(Reason { text: text.to_owned(), inputs: BTreeMap::new() })
}

impl Reasons {
    fn new() -> Self {
        Self {
            shares: reason("shares for the CPU request of the pod's spec"),
            quota: reason("quota for the CPU limit of the pod's spec"),
            memory: reason("memory limit of the pod's spec"),
            exclusive: reason("the kubelet gave this container exclusive CPUs (cpu_manager_state)"),
            exclusive_pod: reason("the kubelet lifts the quota of a pod with exclusive CPUs"),
            be_unlimited: reason("the best-effort directory has no quota of its own (qos.md 5.9)"),
        }
    }
}

pub(super) fn claim(
    dir: &CgroupDir,
    resource: Resource,
    value: Value,
    owner: Owner,
    reason: &Arc<Reason>,
) -> Claim {
    Claim {
        target: CgroupTarget::new(dir, resource),
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
            target: CgroupTarget::new(dir, resource),
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
