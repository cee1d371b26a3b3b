//! Which containers may burst, by which policy and from which base: what follows from pods, policy and rules, and
//! changes with them only. Their load is looked at elsewhere.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::api::annotations::{PodCpuBurst, pod_cpu_burst};
use crate::api::qos::QosClass;
use crate::api::resources::milli_cpu;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Owner, Wish};
use crate::claims::combine::precedence;
use crate::claims::native::NativePod;
use crate::error_chain::chain;
use crate::state::pods::{ContainerEntry, ContainerKind, PodEntry};
use crate::state::slo::burst::{BurstPolicy, CpuBurst};
use crate::state::snapshot::Snapshot;
use crate::strategies::strategy::TickInput;
use crate::units::{CfsQuota, MilliCpu, Percent};

/// The quota that a container has without this strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// Microseconds per 100 ms.
    pub(super) quota: i64,
    /// Which rule yields it, else [`Owner::PodSpec`].
    pub(super) owner: Owner,
}

/// A container that may burst.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Its pod.
    pub(super) pod: Arc<PodEntry>,
    /// Name.
    pub(super) name: String,
    /// Full id.
    pub(super) id: Arc<str>,
    /// Directory.
    pub(super) dir: CgroupDir,
    /// CPU limit of its spec, 0 without one.
    pub(super) limit: MilliCpu,
    /// Its base quota; `None` where the quota is not this strategy's (no limit, or CPUs of its own).
    pub(super) base: Option<Base>,
    /// Whether it runs.
    pub(super) runs: bool,
    /// Its pod's policy.
    pub(super) policy: Arc<CpuBurst>,
}

impl Member {
    /// The limit in cores, scaled along where a rule scales the quota.
    pub(super) fn limit_cores(&self, base: Base) -> f64 {
        match base.owner {
            Owner::PodSpec => self.limit.0 as f64 / 1000.0,
            _ => base.quota as f64 / 100_000.0,
        }
    }
}

/// All that may burst, and the pods that do not share CPUs with them.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// In the order of their pods.
    pub(super) list: Vec<Member>,
    /// CPU requests of LSE and LSR pods.
    pub(super) requests_apart: MilliCpu,
    /// LSE, LSR and BE pods.
    pub(super) apart: Vec<Arc<str>>,
    /// Annotations that cannot be read.
    pub(super) refused: Vec<String>,
    /// What they were made from, without load and tree.
    seen: Option<Snapshot>,
}

impl Members {
    /// Follows pods, policy and rules. Whether anything may be another than before.
    pub(super) fn follow(&mut self, input: &TickInput<'_>) -> bool {
        let snapshot = input.snapshot;
        if self.seen.as_ref().is_some_and(|seen| are_same(seen, snapshot)) {
            return false;
        }
        let seen = Snapshot {
            usage: Arc::default(),
            tree: Arc::default(),
            dirs: Arc::default(),
            ..snapshot.clone()
        };
        *self = Self { seen: Some(seen), ..Self::default() };
        let mut pods: Vec<(&Arc<PodEntry>, Arc<CpuBurst>)> = Vec::new();
        let node = Arc::new(snapshot.slo.burst.clone());
        for pod in snapshot.pods.pods.values().filter(|pod| is_active(pod)) {
            self.note_apart(pod);
            let policy = self.policy(pod, &node);
            if may_burst(pod) && policy.policy != BurstPolicy::None {
                pods.push((pod, policy));
            }
        }
        if !pods.is_empty() {
            self.list = Lookup::new(input).members(&pods);
        }
        true
    }

    fn note_apart(&mut self, pod: &PodEntry) {
        match pod.qos {
            Some(QosClass::Lse | QosClass::Lsr) => {
                self.requests_apart = self.requests_apart + milli_cpu(&pod.pod.effective_requests());
                self.apart.push(Arc::clone(&pod.uid));
            }
            Some(QosClass::Be) => self.apart.push(Arc::clone(&pod.uid)),
            Some(QosClass::Ls | QosClass::System) | None => {}
        }
    }

    /// The node's policy with what the pod's annotation says (qos.md 5.4); the node's where that cannot be read.
    fn policy(&mut self, pod: &PodEntry, node: &Arc<CpuBurst>) -> Arc<CpuBurst> {
        match pod_cpu_burst(&pod.pod) {
            Ok(None) => Arc::clone(node),
            Ok(Some(own)) => Arc::new(laid_over(node, &own)),
            Err(error) => {
                let meta = &pod.pod.metadata;
                let (namespace, name) = (&meta.namespace, &meta.name);
                let text = format!("pod {namespace}/{name}: {}; the node's policy applies", chain(&error));
                self.refused.push(text);
                Arc::clone(node)
            }
        }
    }
}

/// Whether two snapshots give the same members: values are shared and only replaced by different ones.
fn are_same(seen: &Snapshot, now: &Snapshot) -> bool {
    let same_node = match (&seen.node, &now.node) {
        (Some(seen), Some(now)) => Arc::ptr_eq(seen, now),
        (None, None) => true,
        _ => false,
    };
    let same_topology = match (&seen.topology, &now.topology) {
        (Some(seen), Some(now)) => Arc::ptr_eq(seen, now),
        (None, None) => true,
        _ => false,
    };
    same_node
        && same_topology
        && Arc::ptr_eq(&seen.pods, &now.pods)
        && Arc::ptr_eq(&seen.slo, &now.slo)
        && Arc::ptr_eq(&seen.kernel, &now.kernel)
}

fn laid_over(node: &CpuBurst, own: &PodCpuBurst) -> CpuBurst {
    let policy = own.policy.as_deref().filter(|word| !word.is_empty());
    CpuBurst {
        policy: policy.map_or(node.policy, BurstPolicy::of_word),
        cpu_burst: own.cpu_burst_percent.map_or(node.cpu_burst, Percent),
        cfs_quota_burst: own.cfs_quota_burst_percent.map_or(node.cfs_quota_burst, Percent),
        cfs_quota_burst_period_seconds: own
            .cfs_quota_burst_period_seconds
            .unwrap_or(node.cfs_quota_burst_period_seconds),
        share_pool_threshold: node.share_pool_threshold,
    }
}

/// Pods whose phase nobody reports count as active.
fn is_active(pod: &PodEntry) -> bool {
    pod.pod.is_active() || pod.pod.status.phase.is_empty()
}

/// Pods of every class but those whose CPUs are their own and those that get what is left.
fn may_burst(pod: &PodEntry) -> bool {
    !matches!(pod.qos, Some(QosClass::Lse | QosClass::Lsr | QosClass::Be))
}

/// What rules and kubelet say of quotas.
struct Lookup<'a> {
    snapshot: &'a Snapshot,
    /// The claim that decides each directory's quota among those of the rules.
    quotas: HashMap<&'a CgroupDir, &'a Claim>,
}

impl<'a> Lookup<'a> {
    fn new(input: &TickInput<'a>) -> Self {
        let order = precedence(Resource::CfsQuota);
        let place = |owner| order.iter().position(|rank| rank.owner == owner).unwrap_or(order.len());
        let mut quotas: HashMap<&CgroupDir, &Claim> = HashMap::new();
        let claims = &input.rules.cgroup;
        for claim in claims.iter().filter(|claim| claim.target.resource == Resource::CfsQuota) {
            let first = quotas.entry(&claim.target.dir).or_insert(claim);
            if place(claim.owner) < place(first.owner) {
                *first = claim;
            }
        }
        Self { snapshot: input.snapshot, quotas }
    }

    fn members(&self, pods: &[(&Arc<PodEntry>, Arc<CpuBurst>)]) -> Vec<Member> {
        let mut list = Vec::new();
        // A manifest may name two containers alike, with one id.
        let mut ids = BTreeSet::new();
        for (pod, policy) in pods {
            let native = NativePod::new(pod);
            for container in pod.containers.iter().filter(|container| container.kind == ContainerKind::App) {
                let member = self.member(pod, &native, container, policy);
                list.extend(member.filter(|member| ids.insert(Arc::clone(&member.id))));
            }
        }
        list
    }

    fn member(
        &self,
        pod: &Arc<PodEntry>,
        native: &NativePod<'_>,
        container: &ContainerEntry,
        policy: &Arc<CpuBurst>,
    ) -> Option<Member> {
        let (id, dir) = (container.id.as_deref()?, container.dir.clone()?);
        let limit = milli_cpu(&pod.spec(container)?.resources.limits);
        let status = pod.pod.container_status(&container.name)?;
        let base = (limit.0 > 0).then(|| self.base(pod, native, container, &dir)).flatten();
        Some(Member {
            pod: Arc::clone(pod),
            name: container.name.clone(),
            id: id.into(),
            dir,
            limit,
            base,
            runs: status.runs(),
            policy: Arc::clone(policy),
        })
    }

    /// What rules yield for the quota, else what the runtime wrote (qos.md 12, Q20). No base where that is unlimited:
    /// -1 stays -1 (Q19), and the kubelet's exclusive CPUs are its own.
    fn base(
        &self,
        pod: &PodEntry,
        native: &NativePod<'_>,
        container: &ContainerEntry,
        dir: &CgroupDir,
    ) -> Option<Base> {
        if self.has_exclusive_cpus(pod, container) {
            return None;
        }
        let Some(claim) = self.quotas.get(dir) else {
            let quota = native.container(container).quota.micros()?;
            return Some(Base { quota, owner: Owner::PodSpec });
        };
        match &claim.wish {
            Wish::Hold(Value::Quota(CfsQuota::Micros(quota))) => {
                Some(Base { quota: *quota, owner: claim.owner })
            }
            Wish::Hold(_) | Wish::Leave => None,
        }
    }

    fn has_exclusive_cpus(&self, pod: &PodEntry, container: &ContainerEntry) -> bool {
        let Some(topology) = &self.snapshot.topology else { return false };
        if topology.kubelet_exclusive.is_empty() {
            return false;
        }
        let key = (Arc::clone(&pod.uid), container.name.clone());
        topology.kubelet_exclusive.get(&key).is_some_and(|cpus| !cpus.is_empty())
    }
}
