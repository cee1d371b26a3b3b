//! What a page of metrics costs at 1,000 containers with every figure that is known of them.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use koordlet::api::pod::Pod;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::read::{Pressure, PressureLine};
use koordlet::report::metrics::{Format, Gated, Metrics, Scope};
use koordlet::state::cpi::{Cpi, CpiCounts};
use koordlet::state::facts::Facts;
use koordlet::state::hub::hub;
use koordlet::state::pods::PodTable;
use koordlet::state::pressure::{GroupPressure, NodePressure};
use serde_json::json;

use crate::row::Row;

const PODS: usize = 100;
const CONTAINERS: usize = 10;
const SCRAPES: usize = 50;

/// A page with requests and limits alone, and one with pressure and CPI of each container, too.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let (writers, readers) = hub();
    let facts = Facts::default();
    let metrics = Metrics::new("node-1", &readers, &facts, Gated::default());
    let naming = Naming::new(CgroupDriver::Systemd, "")?;
    let pods: Vec<Pod> = (0..PODS).map(pod).collect::<Result<_>>()?;
    writers.pods.set(Arc::new(PodTable::build(pods, &naming, &PodTable::default()).0));
    let (usual, usual_bytes) = scrape(&metrics, Format::Classic);
    observe(&facts, &readers.pods.borrow());
    let (full, full_bytes) = scrape(&metrics, Format::Classic);
    let (open, _) = scrape(&metrics, Format::OpenMetrics);
    Ok(vec![
        Row::new("a page of metrics, 1,000 containers", usual, "us"),
        Row::new("its size", usual_bytes / 1024.0, "KiB"),
        Row::new("the same with pressure and CPI of each", full, "us"),
        Row::new("its size with pressure and CPI", full_bytes / 1024.0, "KiB"),
        Row::new("the same in OpenMetrics", open, "us"),
    ])
}

fn container_id(pod: usize, container: usize) -> String {
    format!("containerd://{:064x}", pod * CONTAINERS + container)
}

fn pod(number: usize) -> Result<Pod> {
    let batch = json!({"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"});
    let spec = |each| json!({"name": format!("container-{each}"), "resources": {"requests": batch, "limits": batch}});
    let status =
        |each| json!({"name": format!("container-{each}"), "containerID": container_id(number, each)});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": format!("some-deployment-7d9c5b8f6-{number:05}"), "namespace": "production",
                     "uid": format!("{number:08}-1111-2222-3333-444444444444")},
        "spec": {"containers": (0..CONTAINERS).map(spec).collect::<Vec<_>>()},
        "status": {"containerStatuses": (0..CONTAINERS).map(status).collect::<Vec<_>>()},
    }))?)
}

/// What the collectors of pressure and CPI would have found.
fn observe(facts: &Facts, pods: &PodTable) {
    let line = Some(PressureLine { avg10: 1.25, avg60: 0.5, avg300: 0.04, total: 1 });
    let all = Pressure { some: line, full: line };
    let group = GroupPressure { cpu: all, memory: all, io: all };
    let cpi = Cpi { cycles: 1_234_567_890.0, instructions: 987_654_321.0 };
    let ids = |uid: &Arc<str>| {
        let containers = &pods.pods[uid].containers;
        let uid = Arc::clone(uid);
        containers.iter().filter_map(move |each| Some((Arc::clone(&uid), each.id.as_deref()?.into())))
    };
    let containers: Vec<(Arc<str>, Arc<str>)> = pods.pods.keys().flat_map(ids).collect();
    let counts = containers.iter().map(|of| (of.clone(), cpi)).collect();
    facts.cpi.set(CpiCounts { containers: counts, ..CpiCounts::default() });
    facts.pressure.set(NodePressure {
        pods: pods.pods.keys().map(|uid| (Arc::clone(uid), group)).collect(),
        containers: containers.into_iter().map(|of| (of, group)).collect(),
        ..NodePressure::default()
    });
}

/// Median time of a page in microseconds, and its bytes.
fn scrape(metrics: &Metrics, format: Format) -> (f64, f64) {
    let mut bytes = 0;
    let mut times: Vec<f64> = (0..SCRAPES)
        .map(|_| {
            let begin = Instant::now();
            bytes = metrics.page(format, Scope::All).len();
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    (times.get(SCRAPES / 2).copied().unwrap_or_default(), bytes as f64)
}
