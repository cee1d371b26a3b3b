//! What the kubelet and the runtime write for a pod by themselves: the values that a withdrawn claim falls
//! back to, and the limits that normalization scales. While a pod is being resized in place the larger of
//! what the spec asks for and what the status says is applied counts.

use std::borrow::Cow;

use super::resize::larger_of_spec_and_status;
use crate::api::pod::{Container, Pod};
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
    /// or every app and sidecar container has one (hooks.md 9.5, 17 row 1).
    pub fn pod(&self) -> Native {
        let sums = self.pod.native();
        Native {
            quota: if self.pod.has_cpu_limit() { sums.quota } else { CfsQuota::Unlimited },
            memory: if self.pod.has_memory_limit() { sums.memory } else { MemoryLimit::Unlimited },
            ..sums
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
    /// that has yet to start or may start again. The sandbox of a
    /// pod in a virtual machine holds the sum of its containers.
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
