//! All Prometheus series of the agent, collection.md 12: the reference's families as far as their source exists, and
//! own ones for eBPF, executor, inputs and the agent's parts.
//!
//! `families` is the table of all of them, `exposition` writes a page, the others hold what is shown. Nearly all is
//! read from the snapshots and from other rooms' counters when a page is asked for: that costs nothing in between,
//! never shows half of a round (collection.md 15 row 19), and a series ends with its pod.

mod accept;
pub mod ages;
mod api_server;
mod executor;
mod exposition;
pub mod families;
mod kubelet;
mod node;
mod node_metric;
mod parts;
mod pods;
pub mod reports;
mod scaled;
mod sensors;
mod table;
mod tasks;
mod updates;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::ages::{Ages, Shown};
pub use self::exposition::{Exposition, Format, Scope, Series};
pub use self::families::Family;
pub use self::parts::Part;
use self::parts::PartTimes;
use self::reports::ReportStats;
use self::sensors::{CgroupEventCounts, SensorSeries};
pub use self::table::markdown;
pub use self::updates::Update;
use self::updates::UpdateCounts;
use super::audit::stats::AuditStats;
use crate::ebpf::events::CgroupEvent;
use crate::ebpf::load::EMBEDDED;
use crate::ebpf::sensors::{SensorHandle, SensorMode};
use crate::executor::ExecutorStats;
use crate::host::clock::monotonic;
use crate::kube::kubelet_stats::KubeletStats;
use crate::kube::stats::ApiStats;
use crate::node::follower::FollowerStats;
use crate::node::round_log::RoundStats;
use crate::node::rounds::Rounds;
use crate::state::facts::Facts;
use crate::state::hub::Readers;
use crate::state::scaled::ScaledContainer;
use crate::state::series::shared::SharedSeries;
use crate::units::{MilliCpu, Nanos};

/// Which facts of the machine were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFacts {
    /// CPUs.
    Cpu,
    /// NUMA nodes.
    Numa,
}

/// Families that gates switch on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gated {
    /// A series for each CPU of a pool (`PerCPUMetric`).
    pub per_cpu: bool,
    /// The last report of use (`NodeMetricPromMetrics`).
    pub node_metric: bool,
}

/// Writes families of a room that the series do not know.
type Source = Box<dyn Fn(&mut Exposition<'_>) + Send + Sync>;

/// The series. Shared by whoever counts and the HTTP server.
pub struct Metrics {
    node: String,
    readers: Readers,
    facts: Facts,
    gated: Gated,
    ages: Ages,
    started: Duration,
    cpu_reads: RoundStats,
    numa_reads: RoundStats,
    suppressed: Mutex<Option<Suppressed>>,
    scaled: Mutex<Arc<Vec<ScaledContainer>>>,
    slo_refused: AtomicU64,
    parts: PartTimes,
    /// Bytes of the page that was written last.
    last_page: AtomicUsize,
    cgroup_events: CgroupEventCounts,
    updates: UpdateCounts,
    executor: OnceLock<Arc<ExecutorStats>>,
    sensors: OnceLock<SensorSeries>,
    rounds: OnceLock<Vec<(&'static str, Arc<RoundStats>)>>,
    follower: OnceLock<Arc<FollowerStats>>,
    series: OnceLock<SharedSeries>,
    audit: OnceLock<Arc<AuditStats>>,
    kubelet: OnceLock<Arc<KubeletStats>>,
    sources: RwLock<Vec<Source>>,
}

/// What suppression decided last.
#[derive(Clone, Copy, Debug)]
struct Suppressed {
    at: Nanos,
    policy: &'static str,
    left: Option<MilliCpu>,
    ls_used: MilliCpu,
}

impl Metrics {
    /// The series of the node `node_name`, with what `readers` and `facts` hold, and the families that are `gated`.
    pub fn new(node_name: &str, readers: &Readers, facts: &Facts, gated: Gated) -> Self {
        Self {
            node: node_name.to_owned(),
            readers: readers.clone(),
            facts: facts.clone(),
            gated,
            ages: Ages::default(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            cpu_reads: RoundStats::default(),
            numa_reads: RoundStats::default(),
            suppressed: Mutex::default(),
            scaled: Mutex::default(),
            slo_refused: AtomicU64::new(0),
            parts: PartTimes::default(),
            last_page: AtomicUsize::new(0),
            cgroup_events: CgroupEventCounts::default(),
            updates: UpdateCounts::default(),
            executor: OnceLock::new(),
            sensors: OnceLock::new(),
            rounds: OnceLock::new(),
            follower: OnceLock::new(),
            series: OnceLock::new(),
            audit: OnceLock::new(),
            kubelet: OnceLock::new(),
            sources: RwLock::default(),
        }
    }

    /// Figures are shown up to these ages.
    #[must_use]
    pub fn with_ages(self, ages: Ages) -> Self {
        Self { ages, ..self }
    }

    /// Adds families of another room. `source` is asked for each page; it must be cheap and must not wait.
    pub fn add(&self, source: impl Fn(&mut Exposition<'_>) + Send + Sync + 'static) {
        self.sources.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(source));
    }

    /// Adds the executor's series; once.
    pub fn add_executor(&self, stats: &Arc<ExecutorStats>) {
        drop(self.executor.set(Arc::clone(stats)));
    }

    /// Adds the sensors' series: where events and CPU time come from, and their counters; once.
    pub fn add_sensors(&self, events: &SensorMode, usage: &SensorMode, handle: &Arc<SensorHandle>) {
        drop(self.sensors.set(SensorSeries::new(events, usage, handle)));
    }

    /// Adds the series of the collectors that run; once.
    pub fn add_rounds(&self, rounds: &Rounds) {
        drop(self.rounds.set(rounds.stats().to_vec()));
    }

    /// Adds the series of what follows each sample of use; once.
    pub fn add_follower(&self, stats: Arc<FollowerStats>) {
        drop(self.follower.set(stats));
    }

    /// Adds the series of the metric cache; once.
    pub fn add_series(&self, series: &SharedSeries) {
        drop(self.series.set(series.clone()));
    }

    /// Adds the counters of the audit log; once.
    pub fn add_audit(&self, stats: Arc<AuditStats>) {
        drop(self.audit.set(stats));
    }

    /// Adds the counters of the kubelet's client; once.
    pub fn add_kubelet(&self, stats: Arc<KubeletStats>) {
        drop(self.kubelet.set(stats));
    }

    /// Adds the counters of the API server's client; once.
    pub fn add_api_server(&self, stats: Arc<ApiStats>) {
        self.add(move |page| api_server::show(page, &stats));
    }

    /// Adds the counters of what is reported; once.
    pub fn add_reports(&self, stats: Arc<ReportStats>) {
        self.add(move |page| reports::show(page, &stats));
    }

    /// Decisions are made anew after an update.
    pub fn updated(&self, update: Update) {
        self.updates.note(update);
    }

    /// Suppression has decided: use of LS, and what it leaves to BE under `policy` (`cpuset`, `cfsQuota`).
    pub fn suppressed(&self, policy: &'static str, left: Option<MilliCpu>, ls_used: MilliCpu) {
        let decided = Suppressed { at: monotonic(), policy, left, ls_used };
        *self.suppressed.lock().unwrap_or_else(PoisonError::into_inner) = Some(decided);
    }

    /// CPU burst has looked at these containers. They are shown until it looks again (qos.md 12, Q21).
    pub fn scaled(&self, containers: &Arc<Vec<ScaledContainer>>) {
        *self.scaled.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(containers);
    }

    /// Fields of a NodeSLO were refused.
    pub fn slo_refused(&self, fields: usize) {
        self.slo_refused.fetch_add(fields as u64, Ordering::Relaxed);
    }

    /// A part has run.
    pub fn ran(&self, part: Part, took: Duration) {
        self.parts.note(part, took);
    }

    /// The kernel told of a cgroup.
    pub fn cgroup_event(&self, event: &CgroupEvent) {
        self.cgroup_events.note(event);
    }

    /// Facts of the machine were read, or could not be.
    pub fn node_facts_read<T, E>(&self, facts: NodeFacts, outcome: &Result<T, E>) {
        let stats = match facts {
            NodeFacts::Cpu => &self.cpu_reads,
            NodeFacts::Numa => &self.numa_reads,
        };
        let count = if outcome.is_ok() { &stats.succeeded } else { &stats.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// The page of `scope`.
    pub fn page(&self, format: Format, scope: Scope) -> String {
        let begin = Instant::now();
        // A page is about as long as the last one: growing by doubling would take twice the memory.
        let last = self.last_page.load(Ordering::Relaxed);
        let mut page = Exposition::new(format, scope, &self.node, last.saturating_add(last / 16));
        let at = monotonic();
        let shown = Shown::at(at, &self.facts, &self.ages);
        self.show_own(&mut page, at);
        let now = self.readers.snapshot();
        node::show(&mut page, &now, &shown, self.gated.per_cpu);
        if let Some(report) = self.facts.report.get() {
            node_metric::show(&mut page, &report, self.gated.node_metric);
        }
        pods::show(&mut page, &now.pods, &shown);
        let scaled = Arc::clone(&self.scaled.lock().unwrap_or_else(PoisonError::into_inner));
        scaled::show(&mut page, &scaled);
        if let Some(stats) = self.executor.get() {
            executor::show(&mut page, stats);
            tasks::show(&mut page, &stats.tasks, &now.pods, at);
        }
        if let Some(sensors) = self.sensors.get() {
            sensors.show(&mut page);
        }
        let follower = self.follower.get();
        let steps = follower.map(|follower| &*follower.steps).unwrap_or_default();
        parts::show_rounds(&mut page, self.rounds.get().map_or(&[], Vec::as_slice), steps);
        if let Some(follower) = follower {
            let missed = follower.missed.load(Ordering::Relaxed);
            page.family(Family::CollectorMissedSamples, |series| series.count(&[], missed));
        }
        if let Some(series) = self.series.get() {
            parts::show_series(&mut page, &series.stats());
        }
        if let Some(stats) = self.audit.get() {
            parts::show_audit(&mut page, stats);
        }
        if let Some(stats) = self.kubelet.get() {
            kubelet::show(&mut page, stats);
        }
        for source in self.sources.read().unwrap_or_else(PoisonError::into_inner).iter() {
            source(&mut page);
        }
        let page = page.finish();
        self.last_page.store(page.len(), Ordering::Relaxed);
        self.ran(Part::Scrape, begin.elapsed());
        page
    }

    /// What is counted here.
    fn show_own(&self, page: &mut Exposition<'_>, now: Nanos) {
        page.family(Family::StartTime, |series| series.count(&[], self.started.as_secs()));
        page.family(Family::BuildInfo, |series| {
            let ebpf = if EMBEDDED.is_some() { "yes" } else { "no" };
            series.count(&[env!("CARGO_PKG_VERSION"), ebpf], 1);
        });
        let reads =
            [(Family::CollectNodeCpuInfo, &self.cpu_reads), (Family::CollectNodeNumaInfo, &self.numa_reads)];
        for (family, stats) in reads {
            parts::show_reads(page, family, stats);
        }
        let decided = *self.suppressed.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = self.ages.suppression;
        if let Some(decided) = decided.filter(|decided| ages::is_young(decided.at, now, longest)) {
            let Suppressed { policy, left, ls_used, .. } = decided;
            page.family(Family::BeSuppressLsUsedCpuCores, |series| series.value(&[], cores(ls_used)));
            if let Some(left) = left {
                page.family(Family::BeSuppressCpuCores, |series| series.value(&[policy], cores(left)));
            }
        }
        let refused = self.slo_refused.load(Ordering::Relaxed);
        page.family(Family::NodeSloRefusedFields, |series| series.count(&[], refused));
        self.cgroup_events.show(page);
        self.updates.show(page);
        self.parts.show(page);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("node", &self.node).finish_non_exhaustive()
    }
}

fn cores(milli: MilliCpu) -> f64 {
    milli.0 as f64 / 1000.0
}

#[cfg(test)]
mod tests;
