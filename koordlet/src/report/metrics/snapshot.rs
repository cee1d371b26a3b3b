//! Series that show the snapshots: use of the node, host applications, batch and mid resources.

use prometheus_client::registry::Registry;

use super::live::{Live, LiveKind, Sample};
use crate::api::keys::{BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY};
use crate::api::pod::{Container, ResourceList};
use crate::api::qos::KubeQos;
use crate::state::groups::GroupKind;
use crate::state::hub::Readers;
use crate::state::snapshot::Snapshot;
use crate::state::usage::NanoCpu;

/// The extended resources that series tell of.
const EXTENDED: [&str; 4] = [BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY];

pub(super) fn register_internal(registry: &mut Registry, readers: &Readers) {
    let mut gauge = |name, help, read: fn(&Snapshot) -> Vec<Sample>| {
        let readers = readers.clone();
        let live = Live::new(name, help, LiveKind::Gauge, move || read(&readers.snapshot()));
        registry.register_collector(Box::new(live));
    };
    gauge("node_used_cpu_cores", "CPU use of the node", |now| {
        now.usage.node_cpu.map(|cpu| Sample::plain(cpu.cores())).into_iter().collect()
    });
    gauge("node_used_memory_bytes", "Memory use of the node without page cache", |now| {
        now.usage.node_memory.map(|bytes| Sample::plain(bytes.0 as f64)).into_iter().collect()
    });
    gauge("be_suppress_be_used_cpu_cores", "CPU use of BE pods", be_used);
    gauge("host_application_resource_usage", "Use of host applications", host_applications);
    gauge("known_pods", "Pods that are known", |now| vec![Sample::plain(now.pods.pods.len() as f64)]);
    gauge("known_cgroups", "Directories beneath kubepods", |now| {
        vec![Sample::plain(now.tree.dirs.len() as f64)]
    });
}

pub(super) fn register_external(registry: &mut Registry, readers: &Readers) {
    let mut gauge = |name, help, read: fn(&Snapshot) -> Vec<Sample>| {
        let readers = readers.clone();
        let live = Live::new(name, help, LiveKind::Gauge, move || read(&readers.snapshot()));
        registry.register_collector(Box::new(live));
    };
    gauge("node_resource_allocatable", "Batch and mid resources of the node", allocatable);
    // The reference's units of these two are wrong for half of the resources; dashboards know them so
    // (collection.md 15 row 18).
    gauge("container_resource_requests", "Batch and mid requests", |now| {
        containers(now, "integer", |container| &container.resources.requests)
    });
    gauge("container_resource_limits", "Batch and mid limits", |now| {
        containers(now, "byte", |container| &container.resources.limits)
    });
}

/// Use of the pods in the BE directory, collection.md 6.4.
fn be_used(now: &Snapshot) -> Vec<Sample> {
    let in_be = |uid: &_| now.pods.pods.get(uid).is_some_and(|pod| pod.kube_qos == KubeQos::BestEffort);
    let used = now.usage.pods().filter(|(uid, _)| in_be(*uid)).filter_map(|(_, usage)| usage.cpu);
    let sum = NanoCpu(used.map(|cpu| cpu.0).fold(0, u64::saturating_add));
    now.usage.node_cpu.map(|_| Sample::plain(sum.cores())).into_iter().collect()
}

fn host_applications(now: &Snapshot) -> Vec<Sample> {
    let mut samples = Vec::new();
    for app in &now.slo.host_applications {
        let Some(usage) = now.usage.group(GroupKind::HostApp, &app.name) else { continue };
        let sample = |resource: &str, value| Sample {
            labels: vec![
                ("host_application_name", app.name.clone()),
                ("priority_class", app.priority.clone()),
                ("qos", app.qos.clone()),
                ("resource", resource.to_owned()),
            ],
            value,
        };
        samples.extend(usage.cpu.map(|cpu| sample("cpu", cpu.cores())));
    }
    samples
}

fn allocatable(now: &Snapshot) -> Vec<Sample> {
    let Some(node) = &now.node else { return Vec::new() };
    let sample = |resource: &&str| Sample {
        labels: vec![("resource", (*resource).to_owned()), ("unit", unit(resource).to_owned())],
        value: node.status.allocatable.get(*resource).map_or(0.0, |quantity| quantity.value() as f64),
    };
    EXTENDED.iter().map(sample).collect()
}

fn unit(resource: &str) -> &'static str {
    if matches!(resource, BATCH_CPU | MID_CPU) { "integer" } else { "byte" }
}

/// Extended resources of the containers that have a status.
fn containers(now: &Snapshot, unit: &str, list: fn(&Container) -> &ResourceList) -> Vec<Sample> {
    let mut samples = Vec::new();
    for pod in now.pods.pods.values() {
        for entry in &pod.containers {
            let (Some(id), Some(container)) = (&entry.id, pod.spec(entry)) else { continue };
            for resource in EXTENDED {
                let Some(quantity) = list(container).get(resource) else { continue };
                let labels = vec![
                    ("container_id", id.clone()),
                    ("container_name", entry.name.clone()),
                    ("pod_name", pod.pod.metadata.name.clone()),
                    ("pod_namespace", pod.pod.metadata.namespace.clone()),
                    ("pod_uid", pod.uid.to_string()),
                    ("resource", resource.to_owned()),
                    ("unit", unit.to_owned()),
                ];
                samples.push(Sample { labels, value: quantity.value() as f64 });
            }
        }
    }
    samples
}
