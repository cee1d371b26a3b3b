//! All Prometheus series of the agent, collection.md 12: the reference's names and labels for what exists so
//! far, and own series for eBPF, executor and inputs.
//!
//! Most are read from the snapshots and from other rooms' counters when they are scraped (`live`), so that
//! they cost nothing in between and a series ends with its pod.

mod executor;
pub mod live;
mod plain_counter;
mod sensors;
mod snapshot;

use std::fmt::Write;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

pub use self::live::{Live, LiveKind, Sample};
use self::plain_counter::PlainCounter;
use crate::ebpf::sensors::{SensorHandle, SensorMode};
use crate::executor::ExecutorStats;
use crate::state::hub::Readers;
use crate::units::MilliCpu;

/// Content type of the exposition.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Which series a path shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `/internal-metrics`: health and actions of the agent.
    Internal,
    /// `/external-metrics`: resources.
    External,
    /// `/metrics`: both.
    All,
}

/// Which facts of the machine were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFacts {
    /// CPUs.
    Cpu,
    /// NUMA nodes.
    Numa,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SuppressLabels {
    r#type: &'static str,
}

type FloatGauge = Gauge<f64, AtomicU64>;
/// A family without labels: unlike a plain gauge it shows nothing before its first value.
type NoLabels = [(&'static str, &'static str); 0];

/// The series. Shared by whoever counts and the HTTP server.
#[derive(Debug)]
pub struct Metrics {
    internal: RwLock<Registry>,
    external: Registry,
    plain: [PlainCounter; 2],
    suppress: Family<SuppressLabels, FloatGauge>,
    ls_used: Family<NoLabels, FloatGauge>,
    slo_refused: Counter,
    ticks: Counter,
}

impl Metrics {
    /// The series of the node `node_name`, with what `readers` shows.
    pub fn new(node_name: &str, readers: &Readers) -> Self {
        let registry = || Registry::with_prefix("koordlet");
        let (mut internal, mut external) = (registry(), registry());
        let node = || std::iter::once(("node".into(), node_name.to_owned().into()));

        let metrics = {
            let of_node = internal.sub_registry_with_labels(node());
            let start: FloatGauge = Gauge::default();
            start.set(
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64().floor()),
            );
            of_node.register("start_time", "Start of the agent, unix seconds", start);
            let suppress = Family::default();
            of_node.register("be_suppress_cpu_cores", "CPU left to BE by suppression", suppress.clone());
            let ls_used = Family::default();
            of_node.register(
                "be_suppress_ls_used_cpu_cores",
                "CPU use of LS pods that suppression saw",
                ls_used.clone(),
            );
            let slo_refused = Counter::default();
            of_node.register(
                "nodeslo_refused_fields",
                "Fields of NodeSLO that were refused",
                slo_refused.clone(),
            );
            let ticks = Counter::default();
            of_node.register("collect_ticks", "Samples of use", ticks.clone());
            (suppress, ls_used, slo_refused, ticks)
        };
        let (suppress, ls_used, slo_refused, ticks) = metrics;
        snapshot::register_internal(internal.sub_registry_with_labels(node()), readers);
        snapshot::register_external(external.sub_registry_with_labels(node()), readers);
        let status = |name, help| PlainCounter::new(name, help, node_name);
        let plain = [
            status("koordlet_collect_node_cpu_info_status", "Rounds of reading CPUs"),
            status("koordlet_collect_node_numa_info_status", "Rounds of reading NUMA nodes"),
        ];
        Self { internal: RwLock::new(internal), external, plain, suppress, ls_used, slo_refused, ticks }
    }

    /// Adds an own series (without the label `node`) that is read when scraped. Its name gets the prefix.
    pub fn add(&self, live: Live) {
        self.internal.write().unwrap_or_else(PoisonError::into_inner).register_collector(Box::new(live));
    }

    /// Adds the executor's series.
    pub fn add_executor(&self, stats: &Arc<ExecutorStats>) {
        executor::register(&mut self.internal.write().unwrap_or_else(PoisonError::into_inner), stats);
    }

    /// Adds the sensors' series: where events and CPU time come from, and their counters.
    pub fn add_sensors(&self, events: &SensorMode, usage: &SensorMode, handle: &Arc<SensorHandle>) {
        let mut registry = self.internal.write().unwrap_or_else(PoisonError::into_inner);
        sensors::register(&mut registry, events, usage, handle);
    }

    /// Suppression has decided: use of LS, and what it leaves to BE under `policy` (`cpuset`, `cfsQuota`).
    pub fn suppressed(&self, policy: &'static str, left: Option<MilliCpu>, ls_used: MilliCpu) {
        self.ls_used.get_or_create(&[]).set(cores(ls_used));
        if let Some(left) = left {
            self.suppress.get_or_create(&SuppressLabels { r#type: policy }).set(cores(left));
        }
    }

    /// Fields of a NodeSLO were refused.
    pub fn slo_refused(&self, fields: usize) {
        self.slo_refused.inc_by(fields as u64);
    }

    /// A sample of use was taken.
    pub fn ticked(&self) {
        self.ticks.inc();
    }

    /// Facts of the machine were read, or could not be.
    pub fn node_facts_read<T, E>(&self, facts: NodeFacts, outcome: &Result<T, E>) {
        let [cpu, numa] = &self.plain;
        match facts {
            NodeFacts::Cpu => cpu.count(outcome.is_ok()),
            NodeFacts::Numa => numa.count(outcome.is_ok()),
        }
    }

    /// The exposition in the classic text format.
    pub fn encode(&self, scope: Scope) -> Result<String, std::fmt::Error> {
        let mut text = String::with_capacity(8 << 10);
        if scope != Scope::External {
            let internal = self.internal.read().unwrap_or_else(PoisonError::into_inner);
            prometheus_text::encode(&mut text, &internal)?;
            for counter in &self.plain {
                write!(text, "{counter}")?;
            }
        }
        if scope != Scope::Internal {
            prometheus_text::encode(&mut text, &self.external)?;
        }
        Ok(text)
    }
}

fn cores(milli: MilliCpu) -> f64 {
    milli.0 as f64 / 1000.0
}

#[cfg(test)]
mod tests;
