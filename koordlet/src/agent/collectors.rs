//! Starts the collectors that have a pace of their own: those that are switched on. Why one is off stands in
//! the log once, and in `koordlet doctor`. What a collector needs of the node, it says itself.

use std::sync::Arc;
use std::time::Duration;

use super::node_info::NodeInfo;
use crate::api::qos::KubeQos;
use crate::cgroup::layout::Layout;
use crate::cgroup::naming::Naming;
use crate::cgroup::path::CgroupDir;
use crate::config::Config;
use crate::config::collect::{CpiSettings, DEVICES};
use crate::config::gates::Gate;
use crate::error_chain::chain;
use crate::host::offers::Offer;
use crate::host::roots::Roots;
use crate::node::be_files::BeFiles;
use crate::node::be_round::BeRound;
use crate::node::cold_memory::{self, ColdMemoryCollector, ColdSources};
use crate::node::collect::{Collector, Scale};
use crate::node::cpi::{self, CPI_EVENTS, CpiCollector};
use crate::node::disks::{self, DiskCollector};
use crate::node::follower::{Follow, Follower};
use crate::node::group_files::GroupFiles;
use crate::node::history::History;
use crate::node::numa_use::NumaUse;
use crate::node::pressure::{self, PressureCollector};
use crate::node::resctrl_use::{self, ResctrlCollector};
use crate::node::rounds::{Collect, Rounds};
use crate::node::system_round::SystemRound;
use crate::report::metrics::Metrics;
use crate::state::facts::Facts;
use crate::state::hub::Readers;
use crate::state::series::shared::SharedSeries;
use crate::units::Nanos;

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
    start_pressure(&mut rounds, config, surroundings);
    start_cold_memory(&mut rounds, config, surroundings);
    start_cpi(&mut rounds, config, surroundings);
    start_resctrl(&mut rounds, config, surroundings);
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

fn start_pressure(rounds: &mut Rounds, config: &Config, surroundings: &Surroundings) {
    let Surroundings { layout, naming, readers, facts, series, .. } = surroundings;
    start_if(rounds, config.collect.pressure, || {
        let (layout, kubepods) = (Arc::clone(layout), naming.kubepods().clone());
        PressureCollector::new(layout, kubepods, readers.pods.clone(), facts.pressure.clone(), series.clone())
    });
}

fn start_cold_memory(rounds: &mut Rounds, config: &Config, surroundings: &Surroundings) {
    let Surroundings { layout, naming, roots, readers, facts, series, .. } = surroundings;
    start_if(rounds, config.collect.cold_memory, || {
        let sources = ColdSources {
            roots: roots.clone(),
            layout: Arc::clone(layout),
            naming: naming.clone(),
            pods: readers.pods.clone(),
            slo: readers.slo.clone(),
        };
        ColdMemoryCollector::new(sources, facts.cold_memory.clone(), series.clone())
    });
}

fn start_cpi(rounds: &mut Rounds, config: &Config, surroundings: &Surroundings) {
    let Surroundings { layout, roots, readers, facts, series, .. } = surroundings;
    let Some(CpiSettings { interval, window }) = config.collect.cpi else { return };
    let (pods, counts) = (readers.pods.clone(), facts.cpi.clone());
    match CpiCollector::new(layout, roots, CPI_EVENTS, window, pods, counts, series.clone()) {
        Ok(collector) => spawn(rounds, interval, collector),
        Err(why) => tracing::info!(collector = "cpi", why = chain(&why), "collector is off"),
    }
}

fn start_resctrl(rounds: &mut Rounds, config: &Config, surroundings: &Surroundings) {
    let Surroundings { roots, facts, series, .. } = surroundings;
    let Some(interval) = config.collect.resctrl else { return };
    match ResctrlCollector::new(roots, facts.cache_use.clone(), series.clone()) {
        Ok(collector) => spawn(rounds, interval, collector),
        Err(why) => tracing::info!(collector = "resctrl", why, "collector is off"),
    }
}

/// Starts what has an interval.
fn start_if<C: Collect>(rounds: &mut Rounds, interval: Option<Duration>, collector: impl FnOnce() -> C) {
    if let Some(interval) = interval {
        spawn(rounds, interval, collector());
    }
}

/// Starts a collector. Without a thread for it the rest of the agent runs on.
fn spawn(rounds: &mut Rounds, interval: Duration, collector: impl Collect) {
    let name = collector.name();
    if let Err(error) = rounds.start(collector, interval) {
        tracing::warn!(collector = name, %error, "cannot start a collector");
    }
}

/// What takes the samples of use.
pub(super) fn usage(surroundings: &Surroundings) -> Collector {
    let Surroundings { naming, roots, facts, .. } = surroundings;
    let scale = Scale::of_this_machine();
    let numa = NumaUse::new(&roots.sys, scale.jiffy, facts.cpus.clone(), facts.numa.clone());
    let be_dir = naming.qos_dir(KubeQos::BestEffort).clone();
    Collector::new(&roots.proc, scale).with_numa(numa).with_best_effort(be_dir)
}

/// Starts what reads files of groups after each sample of use; `None` if the system gives no thread.
pub(super) fn follow(config: &Config, surroundings: &Surroundings) -> Option<Follower> {
    let Surroundings { layout, naming, readers, facts, series, .. } = surroundings;
    let history = History::new(series.clone(), facts, config.collect.page_cache);
    let be_files = BeFiles::new(Arc::clone(layout), naming.qos_dir(KubeQos::BestEffort));
    let outdated = u64::try_from(config.collect.outdated.as_nanos()).map_or(Nanos(u64::MAX), Nanos);
    let steps: Vec<Box<dyn Follow>> = vec![
        Box::new(GroupFiles::new(Arc::clone(layout), facts.clone(), history)),
        Box::new(BeRound::new(be_files, readers, facts.be.clone(), series.clone())),
        // After the files of groups, whose memory it takes off.
        Box::new(SystemRound::new(facts, series.clone(), outdated)),
    ];
    Follower::start(steps)
        .inspect_err(|error| tracing::error!(%error, "files of groups are not read: no thread"))
        .ok()
}

/// Whether each collector is on, with what this node gives it or lacks, for `koordlet doctor`.
pub fn offers(config: &Config, layout: &Arc<Layout>, kubepods: Option<&CgroupDir>) -> Vec<Offer> {
    let gates = |gates: &[Gate]| gates.iter().map(|gate| gate.name()).collect::<Vec<_>>().join(", ");
    let on = &config.collect;
    let resctrl = match (config.gates.is_on(Gate::ResctrlCollector), on.resctrl) {
        (true, None) => Offer::off(resctrl_use::OFFER, "flag --enable-resctrl-collector is off"),
        (_, interval) => gated(resctrl_use::OFFER, Gate::ResctrlCollector, interval.is_some(), || {
            resctrl_use::offer(&config.roots)
        }),
    };
    vec![
        gated(pressure::OFFER, Gate::PsiCollector, on.pressure.is_some(), || {
            pressure::offer(layout, kubepods)
        }),
        gated(cold_memory::OFFER, Gate::ColdPageCollector, on.cold_memory.is_some(), || {
            cold_memory::offer(&config.roots, layout)
        }),
        gated(disks::OFFER, Gate::BlkIoReconcile, on.disks.is_some(), || disks::offer(&config.roots)),
        gated(cpi::OFFER, Gate::CpiCollector, on.cpi.is_some(), || cpi::offer(layout, &config.roots)),
        resctrl,
        Offer::off(
            "collector-devices",
            format!("GPU and RDMA devices (gates {}) are not supported by this agent", gates(&DEVICES)),
        ),
    ]
}

fn gated(name: &str, gate: Gate, on: bool, offer: impl FnOnce() -> Offer) -> Offer {
    if on { offer() } else { Offer::off(name, format!("gate {} is off", gate.name())) }
}
