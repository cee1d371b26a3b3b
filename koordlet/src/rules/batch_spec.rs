//! The batch resources that a best-effort pod asked for: from its spec, else from the annotation that the
//! webhook left (hooks.md 4.2, 8.3).

use std::collections::BTreeMap;

use crate::api::annotations::extended_resource_spec;
use crate::api::keys::{BATCH_CPU, BATCH_MEMORY};
use crate::api::pod::{ResourceList, ResourceRequirements};
use crate::state::pods::{ContainerEntry, ContainerKind, PodEntry};

/// What one container asked for. `None`: not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchAmounts {
    /// Batch CPU request in milli-cores, above 0.
    pub(super) cpu_request: Option<i64>,
    /// Batch CPU limit in milli-cores, above 0.
    pub(super) cpu_limit: Option<i64>,
    /// Batch memory limit in bytes, above 0.
    pub(super) memory_limit: Option<i64>,
}

/// The sums of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchSums {
    /// Sum of the CPU requests.
    pub(super) cpu_request: i64,
    /// Sum of the CPU limits; `None` when a container has none.
    pub(super) cpu_limit: Option<i64>,
    /// Sum of the memory limits; `None` when a container has none.
    pub(super) memory_limit: Option<i64>,
}

/// A pod's batch resources.
#[derive(Debug)]
pub(super) struct BatchSpec<'a> {
    pod: &'a PodEntry,
    annotation: BTreeMap<String, ResourceRequirements>,
}

impl<'a> BatchSpec<'a> {
    /// Reads the pod. A malformed annotation counts as absent; `Rules::observe` tells.
    pub(super) fn of(pod: &'a PodEntry) -> Self {
        let annotation = extended_resource_spec(&pod.pod).ok().flatten();
        Self { pod, annotation: annotation.map(|spec| spec.containers).unwrap_or_default() }
    }

    /// What a container asked for: its own spec if that names batch resources, else the annotation's entry.
    /// `None` for a container that is in neither.
    pub(super) fn container(&self, container: &ContainerEntry) -> Option<BatchAmounts> {
        let own = self.pod.spec(container).map(|spec| &spec.resources);
        own.filter(|own| names_batch(own)).or_else(|| self.annotation.get(&container.name)).map(amounts)
    }

    /// The pod's sums over the containers that run with it, hooks.md 8.3; `None` if neither its app
    /// containers nor the annotation name batch resources (an empty annotation is none, 17 row 25).
    ///
    /// A container without batch resources, which the reference leaves out, has no limit and so the pod has
    /// none (17 row 20). Sidecars count like app containers, since they share the pod's limit with them;
    /// ordinary init containers and overhead do not.
    pub(super) fn sums(&self) -> Option<BatchSums> {
        let in_spec = self.pod.pod.spec.containers.iter().any(|container| names_batch(&container.resources));
        if !in_spec && self.annotation.is_empty() {
            return None;
        }
        let running = self.pod.containers.iter().filter(|container| container.kind != ContainerKind::Init);
        let listed = running.map(|container| self.listed(container, in_spec));
        // Names that the annotation has and the pod has not count too, as the reference does it.
        let unknown = self.annotation.iter().filter(|(name, _)| !in_spec && !self.has_container(name));
        let all = listed.chain(unknown.map(|(_, entry)| amounts(entry)));
        Some(all.fold(BatchSums::zero(), BatchSums::plus))
    }

    /// A container as the pod's sums see it: the spec and the annotation are not mixed for app containers.
    fn listed(&self, container: &ContainerEntry, in_spec: bool) -> BatchAmounts {
        let own = self.pod.spec(container).map(|spec| &spec.resources);
        let own = own.filter(|own| names_batch(own));
        match container.kind {
            ContainerKind::App if in_spec => own,
            ContainerKind::App => self.annotation.get(&container.name),
            ContainerKind::Sidecar | ContainerKind::Init => {
                own.or_else(|| self.annotation.get(&container.name))
            }
        }
        .map(amounts)
        .unwrap_or_default()
    }

    fn has_container(&self, name: &str) -> bool {
        self.pod.containers.iter().any(|container| container.name == name)
    }
}

impl BatchSums {
    /// The sum of no container: no limit is missing yet.
    fn zero() -> Self {
        Self { cpu_request: 0, cpu_limit: Some(0), memory_limit: Some(0) }
    }

    fn plus(self, amounts: BatchAmounts) -> Self {
        let both = |a: Option<i64>, b: Option<i64>| Some(a?.saturating_add(b?));
        Self {
            cpu_request: self.cpu_request.saturating_add(amounts.cpu_request.unwrap_or(0)),
            cpu_limit: both(self.cpu_limit, amounts.cpu_limit),
            memory_limit: both(self.memory_limit, amounts.memory_limit),
        }
    }
}

fn names_batch(resources: &ResourceRequirements) -> bool {
    [&resources.requests, &resources.limits]
        .iter()
        .any(|list| list.contains_key(BATCH_CPU) || list.contains_key(BATCH_MEMORY))
}

fn amounts(resources: &ResourceRequirements) -> BatchAmounts {
    BatchAmounts {
        cpu_request: positive(&resources.requests, BATCH_CPU),
        cpu_limit: positive(&resources.limits, BATCH_CPU),
        memory_limit: positive(&resources.limits, BATCH_MEMORY),
    }
}

/// Batch amounts are whole numbers; a fraction is rounded up (hooks.md 8.3).
fn positive(list: &ResourceList, resource: &str) -> Option<i64> {
    list.get(resource).map(|quantity| quantity.value()).filter(|amount| *amount > 0)
}
