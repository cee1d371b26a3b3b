//! Starts the collectors that have a pace of their own: those that are switched on. Why one is off stands in
//! the log once, and in `koordlet doctor`. What a collector needs of the node, it says itself.

use std::sync::Arc;
use std::time::Duration;

use super::node_info::NodeInfo;
use crate::api::qos::KubeQos;
use crate::cgroup::layout::Layout;
use crate::cgroup::naming::Naming;
use crate::cgroup::path::CgroupDir;
use crate::config::collect::{CpiSettings, DEVICES};
use crate::config::gates::Gate;
use crate::config::{Config, Mode};
use crate::error_chain::chain;
use crate::host::mountinfo::MountsOf;
use crate::host::offers::{Offer, State};
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

/// What the resctrl collector needs beside its gate.
const RESCTRL_FLAG: &str = "--enable-resctrl-collector";

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
    start_if(rounds, config.collect.disks, || {
        DiskCollector::new(roots, mounts_of(config), facts.disks.clone())
    });
}

fn mounts_of(config: &Config) -> MountsOf {
    match config.mode {
        Mode::DaemonSet => MountsOf::HostInit,
        Mode::Host => MountsOf::Agent,
    }
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
    let scale = Scale::of_machine(roots);
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

/// Whether each optional collector is on and how it is switched on, with what this node gives it or lacks, for
/// `koordlet doctor`.
pub fn offers(config: &Config, layout: &Arc<Layout>, kubepods: Option<&CgroupDir>) -> Vec<Offer> {
    let on = &config.collect;
    let switch = |gate: Gate| format!("--feature-gates={}=true", gate.name());
    let gated = |gate: Gate, on: bool, offer| told(offer, on, &switch(gate));
    let resctrl_switch = if config.gates.is_on(Gate::ResctrlCollector) {
        RESCTRL_FLAG.to_owned()
    } else {
        format!("{} with {RESCTRL_FLAG}", switch(Gate::ResctrlCollector))
    };
    vec![
        gated(Gate::PsiCollector, on.pressure.is_some(), pressure::offer(layout, kubepods)),
        gated(Gate::ColdPageCollector, on.cold_memory.is_some(), cold_memory::offer(&config.roots, layout)),
        gated(Gate::BlkIoReconcile, on.disks.is_some(), disks::offer(&config.roots, mounts_of(config))),
        gated(Gate::CpiCollector, on.cpi.is_some(), cpi::offer(layout, &config.roots)),
        told(resctrl_use::offer(&config.roots), on.resctrl.is_some(), &resctrl_switch),
        told(page_cache_offer(), on.page_cache, "--enable-pagecache-collector"),
        devices_offer(),
    ]
}

/// An offer that a switch keeps from being used says so, and what would come of it.
fn told(offer: Offer, on: bool, switch: &str) -> Offer {
    if on {
        return offer;
    }
    let here = match offer.state {
        State::Ok => "this node has what it needs".to_owned(),
        State::Missing | State::Failed | State::Off => format!("it would find nothing: {}", offer.detail),
    };
    Offer::off(offer.name, format!("{switch} switches it on; {here}"))
}

fn page_cache_offer() -> Offer {
    Offer::ok("collector-page-cache", "on: memory use with page cache is kept, whether a policy asks or not")
}

fn devices_offer() -> Offer {
    let gates = DEVICES.map(Gate::name).join(", ");
    let detail = format!("GPU and RDMA devices (gates {gates}) are not supported by this agent");
    Offer::off("collector-devices", detail)
}
