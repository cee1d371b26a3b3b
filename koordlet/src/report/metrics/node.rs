//! Series of the node itself: its use, what suppression saw of best-effort pods, pools of CPUs, host applications,
//! batch and mid resources, cache and memory bandwidth by class.

use std::collections::BTreeSet;

use super::ages::Shown;
use super::exposition::{Exposition, Series};
use super::families::Family;
use crate::api::keys::{BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY};
use crate::cpuset::CpuSet;
use crate::state::groups::GroupKind;
use crate::state::snapshot::Snapshot;

/// The extended resources that series tell of.
pub(super) const EXTENDED: [&str; 4] = [BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY];

pub(super) fn show(page: &mut Exposition<'_>, now: &Snapshot, shown: &Shown, per_cpu: bool) {
    used(page, now, shown);
    pools(page, now, per_cpu);
    page.family(Family::HostApplicationResourceUsage, |series| host_applications(series, now, shown));
    page.family(Family::KnownPods, |series| series.count(&[], now.pods.pods.len() as u64));
    page.family(Family::KnownCgroups, |series| series.count(&[], now.tree.dirs.len() as u64));
    page.family(Family::NodeResourceAllocatable, |series| allocatable(series, now));
    cache_use(page, shown);
}

/// collection.md 6.2 and 6.4.
fn used(page: &mut Exposition<'_>, now: &Snapshot, shown: &Shown) {
    if let Some(cpu) = now.usage.node_cpu {
        page.family(Family::NodeUsedCpuCores, |series| series.value(&[], cpu.cores()));
    }
    if let Some(memory) = now.usage.node_memory {
        page.family(Family::NodeUsedMemoryBytes, |series| series.count(&[], memory.0));
    }
    if let Some(used) = shown.be.as_ref().and_then(|be| be.usage) {
        page.family(Family::BeSuppressBeUsedCpuCores, |series| series.value(&[], used.0 as f64 / 1000.0));
    }
}

/// hooks.md 8.2; the CPUs one by one only if asked for.
fn pools(page: &mut Exposition<'_>, now: &Snapshot, per_cpu: bool) {
    let Some(topology) = &now.topology else { return };
    let pools = [
        (&topology.ls_pool, Family::CpusetSharePoolCpuCores, Family::CpusetSharePoolInfo),
        (&topology.be_pool, Family::CpusetBeSharePoolCpuCores, Family::CpusetBeSharePoolInfo),
    ];
    for (pool, size, each) in pools {
        page.family(size, |series| series.count(&[], pool.len() as u64));
        if per_cpu {
            page.family(each, |series| cpus(series, pool));
        }
    }
}

fn cpus(series: &mut Series<'_, '_>, pool: &CpuSet) {
    for cpu in pool.iter() {
        series.count(&[&cpu.to_string()], 1);
    }
}

/// collection.md 6.5. Applications of one name share a directory, so the first one stands for all.
fn host_applications(series: &mut Series<'_, '_>, now: &Snapshot, shown: &Shown) {
    let groups = &shown.groups;
    let mut seen = BTreeSet::new();
    for app in &now.slo.host_applications {
        if !seen.insert(&app.name) {
            continue;
        }
        let mut value = |resource, value| {
            series.value(&[&app.name, &app.priority, &app.qos, resource], value);
        };
        if let Some(cpu) = now.usage.group(GroupKind::HostApp, &app.name).and_then(|usage| usage.cpu) {
            value("cpu", cpu.cores());
        }
        let stat = groups.as_ref().and_then(|groups| groups.group(GroupKind::HostApp, &app.name));
        if let Some(memory) = stat.and_then(|stat| stat.memory) {
            value("memory", memory.without_page_cache.0 as f64);
        }
    }
}

fn allocatable(series: &mut Series<'_, '_>, now: &Snapshot) {
    let Some(node) = &now.node else { return };
    for resource in EXTENDED {
        let unit = if matches!(resource, BATCH_CPU | MID_CPU) { "integer" } else { "byte" };
        let amount = node.status.allocatable.get(resource).map_or(0.0, |quantity| quantity.value() as f64);
        series.value(&[resource, unit], amount);
    }
}

/// collection.md 6.12.
fn cache_use(page: &mut Exposition<'_>, shown: &Shown) {
    let Some(cache_use) = &shown.cache_use else { return };
    page.family(Family::ResctrlLlcOccupancy, |series| {
        for ((qos, cache), figures) in &cache_use.groups {
            if let Some(occupancy) = figures.occupancy {
                series.count(&[&cache.to_string(), qos], occupancy.0);
            }
        }
    });
    page.family(Family::ResctrlMemoryBandwidth, |series| {
        for ((qos, cache), figures) in &cache_use.groups {
            let kinds = [("mbm_local_bytes", figures.local), ("mbm_total_bytes", figures.total)];
            for (kind, bytes) in kinds.into_iter().filter_map(|(kind, bytes)| Some((kind, bytes?))) {
                series.count(&[&cache.to_string(), kind, qos], bytes.0);
            }
        }
    });
}
