//! Pods, trees and plans for the tests of claims and rules.

pub(crate) mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::claim::{Claim, Claims};
use super::combine::{PlanInput, plan};
use super::plan::{Decision, Plan};
use super::target::CgroupTarget;
use crate::api::keys;
use crate::api::pod::{Container, ContainerStatus, Pod};
use crate::cgroup::naming::{CgroupDriver, Naming};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::semantics::Semantics;
use crate::state::pods::{PodEntry, PodTable};
use crate::state::topology::Topology;
use crate::state::tree::{CgroupTree, DirKind};

/// A kernel that refuses a child's quota above its parent's.
pub(crate) const BOUNDED: Semantics = Semantics {
    child_quota_bounded_by_parent: true,
    child_cpuset_bounded_by_parent: true,
    empty_cpuset_inherits: false,
    cpuset_forgets_offline_cpus: true,
    memory_limit_below_use_is_refused: true,
    memsw_counts_memory: true,
};

/// A kernel where the smaller quota is in effect.
pub(crate) const UNBOUNDED: Semantics = Semantics {
    child_quota_bounded_by_parent: false,
    child_cpuset_bounded_by_parent: false,
    empty_cpuset_inherits: true,
    cpuset_forgets_offline_cpus: false,
    memory_limit_below_use_is_refused: false,
    memsw_counts_memory: false,
};

pub(crate) const BE_DIR: &str = "kubepods/besteffort";

pub(crate) fn dir(path: &str) -> CgroupDir {
    CgroupDir::new(path).unwrap()
}

/// A running pod from its `spec`, all containers started, with ids like their names.
pub(crate) fn pod(uid: &str, label: &str, spec: Json) -> PodEntry {
    annotated(uid, label, json!({}), spec)
}

/// The same with annotations.
#[expect(clippy::needless_pass_by_value, reason = "so that a literal is passed without a borrow")]
pub(crate) fn annotated(uid: &str, label: &str, annotations: Json, spec: Json) -> PodEntry {
    let labels = if label.is_empty() { json!({}) } else { json!({ keys::QOS_CLASS: label }) };
    entry(json!({
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, "labels": labels, "annotations": annotations},
        "spec": spec,
        "status": {"phase": "Running"},
    }))
}

/// A pod from the whole object; statuses are added for containers that have none.
pub(crate) fn entry(object: Json) -> PodEntry {
    let mut pod: Pod = serde_json::from_value(object).unwrap();
    start(&pod.spec.containers, &mut pod.status.container_statuses);
    start(&pod.spec.init_containers, &mut pod.status.init_container_statuses);
    PodEntry::new(pod, &Naming::new(CgroupDriver::Cgroupfs, "").unwrap()).unwrap()
}

fn start(containers: &[Container], statuses: &mut Vec<ContainerStatus>) {
    for container in containers {
        let name = &container.name;
        if !statuses.iter().any(|status| status.name == *name) {
            statuses.push(ContainerStatus { name: name.clone(), ..Default::default() });
        }
    }
    for status in statuses.iter_mut() {
        status.container_id = format!("containerd://{}", status.name);
    }
}

pub(crate) fn limits(cpu: &str) -> Json {
    json!({"limits": {"cpu": cpu}, "requests": {"cpu": cpu}})
}

/// A container of the extended resources `request`/`limit` and `memory`; `-` leaves one out.
pub(crate) fn batch(name: &str, request: &str, limit: &str, memory: &str) -> Json {
    let list = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let set = pairs.iter().filter(|(_, amount)| *amount != "-");
        set.map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect()
    };
    let requests = list(&[(keys::BATCH_CPU, request)]);
    let limits = list(&[(keys::BATCH_CPU, limit), (keys::BATCH_MEMORY, memory)]);
    json!({"name": name, "resources": {"requests": requests, "limits": limits}})
}

pub(crate) fn table(pods: impl IntoIterator<Item = PodEntry>) -> PodTable {
    let pods = pods.into_iter().map(|pod| (Arc::clone(&pod.uid), Arc::new(pod))).collect();
    PodTable { pods, synced: true }
}

/// The tree in which all directories of the pods exist, and a sandbox in each pod.
pub(crate) fn tree(pods: &PodTable) -> CgroupTree {
    let mut tree = CgroupTree::default();
    tree.dirs.insert(dir("kubepods"), DirKind::Kubepods);
    tree.dirs.insert(dir("kubepods/burstable"), DirKind::QosClass);
    tree.dirs.insert(dir(BE_DIR), DirKind::QosClass);
    for pod in pods.pods.values() {
        tree.dirs.insert(pod.dir.clone(), DirKind::Pod);
        tree.dirs.insert(pod.dir.join("sandbox").unwrap(), DirKind::Container);
        let containers = pod.containers.iter().filter_map(|container| container.dir.clone());
        tree.dirs.extend(containers.map(|dir| (dir, DirKind::Container)));
    }
    tree
}

pub(crate) fn plan_of(
    pods: &PodTable,
    topology: Option<&Topology>,
    semantics: Semantics,
    claims: Vec<Claim>,
) -> Plan {
    let claims = Claims { cgroup: claims, ..Claims::default() };
    plan(PlanInput { pods, topology, tree: &tree(pods), semantics, claims, synced: BTreeSet::new() })
}

/// What a plan says of one file: `hold 5`, `release 5`, `leave`, or `-` where it has no entry.
pub(crate) fn said(plan: &Plan, path: &str, resource: Resource) -> String {
    match plan.entries.get(&CgroupTarget::new(&dir(path), resource)).map(|desired| &desired.decision) {
        Some(Decision::Hold(value)) => format!("hold {value}"),
        Some(Decision::Release(value)) => format!("release {value}"),
        Some(Decision::Leave) => "leave".to_owned(),
        None => "-".to_owned(),
    }
}

pub(crate) fn quota_of(plan: &Plan, path: &str) -> String {
    said(plan, path, Resource::CfsQuota)
}
