//! Starts the collectors that have a pace of their own: those that are switched on. Why one is off stands in
//! the log once, and in `koordlet doctor`. What a collector needs of the node, it says itself.

use std::sync::Arc;
use std::time::Duration;

use super::node_info::NodeInfo;
use crate::cgroup::layout::Layout;
use crate::cgroup::naming::Naming;
use crate::cgroup::path::CgroupDir;
use crate::config::Config;
use crate::config::collect::DEVICES;
use crate::config::gates::Gate;
use crate::host::offers::Offer;
use crate::host::roots::Roots;
use crate::node::disks::{self, DiskCollector};
use crate::node::rounds::{Collect, Rounds};
use crate::report::metrics::Metrics;
use crate::state::facts::Facts;
use crate::state::hub::Readers;
use crate::state::series::shared::SharedSeries;

/// What collectors read from and publish to.
#[derive(Clone)]
pub(super) struct Surroundings {
    /// Where cgroup files are.
    pub(super) layout: Arc<Layout>,
    /// How the kubelet names directories.
    pub(super) naming: Naming,
    /// Where the host's file systems are.
    pub(super) roots: Roots,
    /// Which pods there are.
    pub(super) readers: Readers,
    /// Where results go.
    pub(super) facts: Facts,
    /// Where their history goes.
    pub(super) series: SharedSeries,
    /// Where rounds are counted.
    pub(super) metrics: Arc<Metrics>,
}

/// Starts them. They end when the answer is dropped.
pub(super) fn start(config: &Config, surroundings: &Surroundings) -> Rounds {
    let mut rounds = Rounds::default();
    start_node_info(&mut rounds, config, surroundings);
    start_disks(&mut rounds, config, surroundings);
    rounds
}

fn start_node_info(rounds: &mut Rounds, config: &Config, surroundings: &Surroundings) {
    let Surroundings { roots, facts, metrics, .. } = surroundings;
    let info = || NodeInfo::new(roots.clone(), facts, Arc::clone(metrics));
    start_if(rounds, Some(config.collect.node_info), info);
}

fn start_disks(rounds: &mut Rounds, config: &Config, surroundings: &Surroundings) {
    let Surroundings { roots, facts, .. } = surroundings;
    start_if(rounds, config.collect.disks, || DiskCollector::new(roots, facts.disks.clone()));
}

/// Starts what has an interval. Without a thread for it the rest of the agent runs on.
fn start_if<C: Collect>(rounds: &mut Rounds, interval: Option<Duration>, collector: impl FnOnce() -> C) {
    let Some(interval) = interval else { return };
    let collector = collector();
    let name = collector.name();
    if let Err(error) = rounds.start(collector, interval) {
        tracing::warn!(collector = name, %error, "cannot start a collector");
    }
}

/// Whether each collector is on, with what this node gives it or lacks, for `koordlet doctor`.
pub fn offers(config: &Config, layout: &Layout, kubepods: Option<&CgroupDir>) -> Vec<Offer> {
    let _ = (layout, kubepods);
    let gates = |gates: &[Gate]| gates.iter().map(|gate| gate.name()).collect::<Vec<_>>().join(", ");
    let on = &config.collect;
    vec![
        gated(disks::OFFER, Gate::BlkIoReconcile, on.disks, || disks::offer(&config.roots)),
        Offer::off(
            "collector-devices",
            format!("GPU and RDMA devices (gates {}) are not supported by this agent", gates(&DEVICES)),
        ),
    ]
}

fn gated(name: &str, gate: Gate, interval: Option<Duration>, offer: impl FnOnce() -> Offer) -> Offer {
    if interval.is_some() { offer() } else { Offer::off(name, format!("gate {} is off", gate.name())) }
}
