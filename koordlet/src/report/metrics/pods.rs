//! Series of pods and containers: what they ask for, pressure, cycles and instructions. Only pods that are known
//! now have any, so that a series ends with its pod.

use std::collections::BTreeSet;

use super::ages::Shown;
use super::exposition::{Exposition, Series};
use super::families::Family;
use super::node::EXTENDED;
use crate::api::pod::{Container, ResourceList};
use crate::cgroup::read::Pressure;
use crate::state::pods::{ContainerEntry, PodEntry, PodTable};
use crate::state::pressure::GroupPressure;

pub(super) fn show(page: &mut Exposition<'_>, pods: &PodTable, shown: &Shown) {
    // The reference's units of these two are wrong for half of the resources; dashboards know them so
    // (collection.md 15 row 18).
    page.family(Family::ContainerResourceRequests, |series| {
        resources(series, pods, "integer", |container| &container.resources.requests);
    });
    page.family(Family::ContainerResourceLimits, |series| {
        resources(series, pods, "byte", |container| &container.resources.limits);
    });
    if let Some(cpi) = &shown.cpi {
        page.family(Family::ContainerCpi, |series| {
            for ((uid, id), counts) in &cpi.containers {
                let Some((pod, container)) = known(pods, uid, id) else { continue };
                let [name, namespace] = names(pod);
                for (field, count) in [("cycles", counts.cycles), ("instructions", counts.instructions)] {
                    series.value(&[id, &container.name, field, name, namespace, uid], count);
                }
            }
        });
    }
    pressure(page, pods, shown);
}

/// collection.md 6.9.
fn pressure(page: &mut Exposition<'_>, pods: &PodTable, shown: &Shown) {
    let Some(pressure) = &shown.pressure else { return };
    page.family(Family::ContainerPsi, |series| {
        for ((uid, id), group) in &pressure.containers {
            let Some((pod, container)) = known(pods, uid, id) else { continue };
            let [name, namespace] = names(pod);
            for line in lines(group) {
                let Line { full_supported, degree, precision, resource, percent } = line;
                let labels =
                    [id, &*container.name, full_supported, name, namespace, uid, degree, precision, resource];
                series.value(&labels, percent);
            }
        }
    });
    page.family(Family::PodPsi, |series| {
        for (uid, group) in &pressure.pods {
            let Some(pod) = pods.pods.get(uid) else { continue };
            let [name, namespace] = names(pod);
            for line in lines(group) {
                let Line { full_supported, degree, precision, resource, percent } = line;
                series.value(&[full_supported, name, namespace, uid, degree, precision, resource], percent);
            }
        }
    });
}

/// One figure of a group's pressure.
struct Line {
    full_supported: &'static str,
    degree: &'static str,
    precision: &'static str,
    resource: &'static str,
    percent: f64,
}

/// All figures of a group: `full` only where the kernel tells it.
fn lines(group: &GroupPressure) -> impl Iterator<Item = Line> {
    let full_supported = if group.cpu.full.is_some() { "true" } else { "false" };
    let resources = [("cpu", group.cpu), ("mem", group.memory), ("io", group.io)];
    resources.into_iter().flat_map(move |(resource, Pressure { some, full })| {
        let degrees = [("some", some), ("full", full)];
        let told = degrees.into_iter().filter_map(|(degree, line)| Some((degree, line?)));
        told.flat_map(move |(degree, line)| {
            let averages = [("avg10", line.avg10), ("avg60", line.avg60), ("avg300", line.avg300)];
            averages.map(|(precision, percent)| Line { full_supported, degree, precision, resource, percent })
        })
    })
}

/// Extended resources of the containers that have a status.
fn resources(
    series: &mut Series<'_, '_>,
    pods: &PodTable,
    unit: &str,
    list: fn(&Container) -> &ResourceList,
) {
    for pod in pods.pods.values() {
        let [name, namespace] = names(pod);
        // A manifest may name two containers alike, and two equal series make the whole page worthless.
        let mut seen = BTreeSet::new();
        for entry in &pod.containers {
            let (Some(id), Some(container)) = (&entry.id, pod.spec(entry)) else { continue };
            if !seen.insert((&entry.name, id)) {
                continue;
            }
            for resource in EXTENDED {
                let Some(quantity) = list(container).get(resource) else { continue };
                let labels = [id, &*entry.name, name, namespace, &pod.uid, resource, unit];
                series.value(&labels, quantity.value() as f64);
            }
        }
    }
}

/// Name and namespace.
fn names(pod: &PodEntry) -> [&str; 2] {
    [&pod.pod.metadata.name, &pod.pod.metadata.namespace]
}

/// The pod and its container, if they are still there.
fn known<'a>(pods: &'a PodTable, uid: &str, id: &str) -> Option<(&'a PodEntry, &'a ContainerEntry)> {
    let pod = pods.pods.get(uid)?;
    let container = pod.containers.iter().find(|container| container.id.as_deref() == Some(id))?;
    Some((pod, container))
}
