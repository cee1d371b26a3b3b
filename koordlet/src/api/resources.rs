//! What a pod and its containers ask for, as cgroup values, hooks.md 4.3 and collection.md 3.8.

use super::keys;
use super::pod::{Container, ContainerStatus, Pod, ResourceList, ResourceRequirements};
use super::quantity::Quantity;
use crate::units::{CfsQuota, CpuShares, MemoryLimit, MilliCpu};

/// CPU shares, quota and memory limit that follow from requests and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Native {
    /// From the CPU request.
    pub shares: CpuShares,
    /// From the CPU limit; unlimited without one.
    pub quota: CfsQuota,
    /// From the memory limit; unlimited without one.
    pub memory: MemoryLimit,
}

impl Native {
    fn of(requests: &ResourceList, limits: &ResourceList) -> Self {
        Self {
            shares: CpuShares::from_milli(milli_cpu(requests)),
            quota: CfsQuota::from_milli(milli_cpu(limits)),
            memory: memory_limit(limits),
        }
    }
}

/// The `cpu` entry in milli-cores; 0 without one.
pub fn milli_cpu(list: &ResourceList) -> MilliCpu {
    list.get(keys::CPU).map_or(MilliCpu(0), |quantity| quantity.milli_cpu())
}

/// The `memory` entry as a limit: absent, zero and negative mean unlimited.
pub fn memory_limit(list: &ResourceList) -> MemoryLimit {
    match list.get(keys::MEMORY).map_or(0, |quantity| quantity.value()) {
        bytes if bytes > 0 => MemoryLimit::Bytes(bytes.unsigned_abs()),
        _ => MemoryLimit::Unlimited,
    }
}

impl Container {
    /// Cgroup values of the container's own requests and limits.
    pub fn native(&self) -> Native {
        Native::of(&self.resources.requests, &self.resources.limits)
    }
}

impl Pod {
    /// Cgroup values of the pod's directory from its effective requests and limits. The quota and the memory
    /// limit are plain sums: whether the pod is limited at all is another question, see `has_cpu_limit`.
    pub fn native(&self) -> Native {
        Native::of(&self.effective(Side::Requests), &self.effective(Side::Limits))
    }

    /// Effective requests: app and sidecar containers added up, no less than any stage of the init
    /// containers, replaced by the pod's own, plus overhead.
    pub fn effective_requests(&self) -> ResourceList {
        self.effective(Side::Requests)
    }

    /// Effective limits: like requests; overhead is added to entries that are there only.
    pub fn effective_limits(&self) -> ResourceList {
        self.effective(Side::Limits)
    }

    /// Whether the pod as a whole has a CPU limit (hooks.md 9.5, H1): its own resources give one, or every
    /// app and sidecar container has one. Sandbox and ordinary init containers do not count.
    pub fn has_cpu_limit(&self) -> bool {
        self.is_limited(keys::CPU)
    }

    /// The same for memory.
    pub fn has_memory_limit(&self) -> bool {
        self.is_limited(keys::MEMORY)
    }

    fn is_limited(&self, name: &str) -> bool {
        let positive = |resources: &ResourceRequirements| {
            resources.limits.get(name).is_some_and(|limit| *limit > Quantity::default())
        };
        if self.spec.resources.as_ref().is_some_and(positive) {
            return true;
        }
        let sidecars = self.spec.init_containers.iter().filter(|container| container.is_restartable());
        let mut running = self.spec.containers.iter().chain(sidecars).peekable();
        running.peek().is_some() && running.all(|container| positive(&container.resources))
    }

    fn effective(&self, side: Side) -> ResourceList {
        let mut total = ResourceList::new();
        for container in &self.spec.containers {
            add(&mut total, side.of(&container.resources));
        }
        // While an ordinary init container runs, the sidecars started before it run too.
        let mut sidecars = ResourceList::new();
        let mut largest_stage = ResourceList::new();
        for container in &self.spec.init_containers {
            let own = side.of(&container.resources);
            if container.is_restartable() {
                add(&mut total, own);
                add(&mut sidecars, own);
                raise(&mut largest_stage, &sidecars);
            } else {
                let mut stage = sidecars.clone();
                add(&mut stage, own);
                raise(&mut largest_stage, &stage);
            }
        }
        raise(&mut total, &largest_stage);
        if let Some(own) = &self.spec.resources {
            for (name, quantity) in side.of(own).iter().filter(|(name, _)| is_pod_level(name)) {
                total.insert(name.clone(), *quantity);
            }
        }
        for (name, overhead) in &self.spec.overhead {
            match (side, total.get_mut(name)) {
                (Side::Limits, Some(sum)) if sum.is_zero() => {}
                (Side::Limits, None) => {}
                (_, Some(sum)) => *sum = sum.plus(*overhead),
                (Side::Requests, None) => {
                    total.insert(name.clone(), *overhead);
                }
            }
        }
        total
    }
}

/// Which of the two lists.
#[derive(Clone, Copy)]
enum Side {
    Requests,
    Limits,
}

impl Side {
    fn of(self, resources: &ResourceRequirements) -> &ResourceList {
        match self {
            Self::Requests => &resources.requests,
            Self::Limits => &resources.limits,
        }
    }
}

/// Resources that a pod may give for itself.
fn is_pod_level(name: &str) -> bool {
    name == keys::CPU || name == keys::MEMORY || name.starts_with("hugepages-")
}

fn add(total: &mut ResourceList, list: &ResourceList) {
    for (name, quantity) in list {
        let sum = total.entry(name.clone()).or_default();
        *sum = sum.plus(*quantity);
    }
}

fn raise(total: &mut ResourceList, floor: &ResourceList) {
    for (name, quantity) in floor {
        let sum = total.entry(name.clone()).or_insert(*quantity);
        *sum = (*sum).max(*quantity);
    }
}

impl Pod {
    /// Whether the pod runs or is about to: phase `Pending` or `Running` (qos.md 0).
    pub fn is_active(&self) -> bool {
        matches!(self.status.phase.as_str(), "Pending" | "Running")
    }

    /// The status of a container by name: app containers first, then init containers.
    pub fn container_status(&self, name: &str) -> Option<&ContainerStatus> {
        let statuses = self.status.container_statuses.iter().chain(&self.status.init_container_statuses);
        statuses.into_iter().find(|status| status.name == name)
    }

    /// Whether an in-place resize of some container is under way: the kubelet reports other CPU or memory
    /// figures as applied than the spec asks for.
    pub fn is_resizing(&self) -> bool {
        let containers = self.spec.containers.iter().chain(&self.spec.init_containers);
        containers.into_iter().any(|container| {
            let applied = self.container_status(&container.name).and_then(|status| status.resources.as_ref());
            applied.is_some_and(|applied| differ(applied, &container.resources))
        })
    }
}

/// Whether CPU or memory differ. An entry that only one side has is a difference too.
fn differ(a: &ResourceRequirements, b: &ResourceRequirements) -> bool {
    [keys::CPU, keys::MEMORY]
        .into_iter()
        .any(|name| a.requests.get(name) != b.requests.get(name) || a.limits.get(name) != b.limits.get(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "so that a literal is passed without a borrow")]
    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    fn limited(cpu: &str) -> serde_json::Value {
        json!({"limits": {"cpu": cpu}, "requests": {"cpu": cpu}})
    }

    #[test]
    fn an_init_stage_counts_with_the_sidecars_started_before_it() {
        let pod = pod(json!({
            "containers": [{"name": "a", "resources": limited("500m")}],
            "initContainers": [
                {"name": "s", "restartPolicy": "Always", "resources": limited("300m")},
                {"name": "i", "resources": limited("1")},
                {"name": "t", "restartPolicy": "Always", "resources": limited("200m")},
            ],
        }));
        // max(500 + 300 + 200, 300 + 1000)
        assert_eq!(pod.native().quota.raw(), 130_000);
    }

    #[test]
    fn overhead_adds_to_requests_always_and_to_limits_that_are_there() {
        let pod = pod(json!({
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}}}],
            "overhead": {"cpu": "250m", "memory": "120Mi"},
        }));
        let native = pod.native();
        assert_eq!((native.shares.0, native.quota.raw()), (256, 125_000));
        assert_eq!(native.memory, MemoryLimit::Unlimited);
    }

    #[test]
    fn h1_a_pod_is_limited_only_if_all_that_runs_is() {
        let both = json!([{"name": "a", "resources": limited("1")}, {"name": "b"}]);
        assert!(!pod(json!({ "containers": both })).has_cpu_limit());
        assert!(pod(json!({"containers": both, "resources": {"limits": {"cpu": "2"}}})).has_cpu_limit());
        let one = json!([{"name": "a", "resources": limited("1")}]);
        let init = json!([{"name": "i"}]);
        assert!(pod(json!({"containers": one, "initContainers": init})).has_cpu_limit());
        let sidecar = json!([{"name": "s", "restartPolicy": "Always"}]);
        assert!(!pod(json!({"containers": one, "initContainers": sidecar})).has_cpu_limit());
        assert!(!pod(json!({})).has_cpu_limit());
        assert!(!pod(json!({"containers": [{"name": "a", "resources": limited("0")}]})).has_cpu_limit());
    }

    #[test]
    fn a_resize_shows_as_a_difference_between_spec_and_status() {
        let mut pod = pod(json!({"containers": [{"name": "a", "resources": limited("1")}]}));
        assert!(!pod.is_resizing(), "no status");
        let applied = serde_json::from_value(limited("1000m")).unwrap();
        pod.status.container_statuses =
            vec![ContainerStatus { name: "a".into(), resources: Some(applied), ..Default::default() }];
        assert!(!pod.is_resizing());
        pod.status.container_statuses[0].resources = Some(serde_json::from_value(limited("2")).unwrap());
        assert!(pod.is_resizing());
    }
}
