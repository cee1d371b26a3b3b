//! What the kubelet and the runtime write for a pod by themselves: the values that a withdrawn claim falls
//! back to, and the limits that normalization scales. While a pod is being resized in place the larger of
//! what the spec asks for and what the status says is applied counts.

use std::borrow::Cow;

use super::resize::larger_of_spec_and_status;
use crate::api::pod::{Container, Pod};
use crate::api::qos::KubeQos;
use crate::api::resources::{Native, memory_limit, milli_cpu};
use crate::state::pods::{ContainerEntry, ContainerKind, PodEntry};
use crate::units::{CfsQuota, CpuShares, MemoryLimit};

/// A pod's native values and those of its containers.
#[derive(Debug)]
pub struct NativePod<'a> {
    entry: &'a PodEntry,
    pod: Cow<'a, Pod>,
}

impl<'a> NativePod<'a> {
    /// Looks at a pod; copies it only while it is being resized.
    pub fn new(entry: &'a PodEntry) -> Self {
        Self { entry, pod: larger_of_spec_and_status(&entry.pod) }
    }

    /// The pod directory. Quota and memory limit are finite only if the pod's own `resources` have that limit
    /// or every app and sidecar container has one (hooks.md 9.5, 17 row 1). A BestEffort pod has the least
    /// shares, whatever its overhead.
    pub fn pod(&self) -> Native {
        let sums = self.pod.native();
        let best_effort = self.entry.kube_qos == KubeQos::BestEffort;
        Native {
            shares: if best_effort { UNSET.shares } else { sums.shares },
            quota: if self.pod.has_cpu_limit() { sums.quota } else { CfsQuota::Unlimited },
            memory: if self.pod.has_memory_limit() { sums.memory } else { MemoryLimit::Unlimited },
        }
    }

    /// A container's directory. As the kubelet does it, a container without a CPU request gets shares for its
    /// limit, and one without a limit takes that of the pod's own `resources`.
    pub fn container(&self, container: &ContainerEntry) -> Native {
        let Some(spec) = self.spec(container) else { return UNSET };
        let mut native = spec.native();
        if milli_cpu(&spec.resources.requests).0 <= 0 {
            native.shares = CpuShares::from_milli(milli_cpu(&spec.resources.limits));
        }
        if let Some(pods_own) = &self.pod.spec.resources {
            if native.quota == CfsQuota::Unlimited {
                native.quota = CfsQuota::from_milli(milli_cpu(&pods_own.limits));
            }
            if native.memory == MemoryLimit::Unlimited {
                native.memory = memory_limit(&pods_own.limits);
            }
        }
        native
    }

    /// The largest finite quota that the runtime may write beneath the pod directory, also for a container
    /// that has yet to start or may start again. The sandbox of a pod in a virtual machine holds the sum of its
    /// containers.
    pub fn largest_runtime_quota(&self) -> Option<i64> {
        if !self.entry.has_host_groups() {
            return self.pod().quota.micros();
        }
        let quotas = self.entry.containers.iter().map(|container| self.container(container).quota);
        quotas.filter_map(CfsQuota::micros).max()
    }

    /// The container's part of the spec, which may be the one with the larger resources.
    fn spec(&self, container: &ContainerEntry) -> Option<&Container> {
        let containers = match container.kind {
            ContainerKind::App => &self.pod.spec.containers,
            ContainerKind::Sidecar | ContainerKind::Init => &self.pod.spec.init_containers,
        };
        containers.get(container.index)
    }
}

/// A container that asks for nothing.
const UNSET: Native =
    Native { shares: CpuShares(2), quota: CfsQuota::Unlimited, memory: MemoryLimit::Unlimited };

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::claims::testing::{limits, pod};

    /// Shares, quota and memory limit of the pod, then of each container.
    #[expect(clippy::needless_pass_by_value, reason = "so that a literal is passed without a borrow")]
    fn native(spec: Json) -> Vec<String> {
        let entry = pod("u", "LS", spec.clone());
        let native = NativePod::new(&entry);
        let text = |Native { shares, quota, memory }| format!("{shares} {quota} {memory}");
        let containers = entry.containers.iter().map(|container| text(native.container(container)));
        std::iter::once(text(native.pod())).chain(containers).collect()
    }

    #[test]
    fn values_are_those_that_the_kubelet_writes() {
        let request = json!({"requests": {"cpu": "250m", "memory": "64Mi"}});
        assert_eq!(native(json!({"containers": [{"name": "a"}]})), ["2 -1 -1"; 2]);
        let overhead = json!({"containers": [{"name": "a"}], "overhead": {"cpu": "1"}});
        assert_eq!(native(overhead)[0], "2 -1 -1", "BestEffort");
        let request = json!({"containers": [{"name": "a", "resources": request}]});
        assert_eq!(native(request), ["256 -1 -1"; 2]);
        let limit = json!({"limits": {"cpu": "2", "memory": "1Mi"}});
        let limit = json!({"containers": [{"name": "a", "resources": limit}]});
        assert_eq!(native(limit), ["2 200000 1048576", "2048 200000 1048576"]);
    }

    #[test]
    fn one_container_without_a_limit_makes_the_pod_unlimited_but_a_pod_level_limit_holds() {
        let containers = json!([{"name": "a", "resources": limits("1")}, {"name": "b"}]);
        let found = native(json!({ "containers": containers }));
        assert_eq!(found, ["1024 -1 -1", "1024 100000 -1", "2 -1 -1"]);
        let found = native(json!({"containers": containers, "resources": limits("3")}));
        assert_eq!(found, ["3072 300000 -1", "1024 100000 -1", "2 300000 -1"]);
    }

    #[test]
    fn the_largest_quota_of_the_runtime_counts_init_containers_and_a_vms_sum() {
        let largest = |class: &str| {
            let spec = json!({
                "containers": [{"name": "a", "resources": limits("1")}, {"name": "b", "resources": limits("1")}],
                "initContainers": [{"name": "i", "resources": limits("1500m")}],
                "runtimeClassName": class,
            });
            NativePod::new(&pod("u", "LS", spec)).largest_runtime_quota()
        };
        assert_eq!([largest("runc"), largest("kata")], [Some(150_000), Some(200_000)]);
        let unlimited = pod("u", "LS", json!({"containers": [{"name": "a"}]}));
        assert_eq!(NativePod::new(&unlimited).largest_runtime_quota(), None);
    }
}
