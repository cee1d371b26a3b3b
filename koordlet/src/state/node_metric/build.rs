//! The status of a NodeMetric, made of the series (collection.md 9.3).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::policy::ReportPolicy;
use crate::api::duration::GoDuration;
use crate::api::node_metric::{
    AggregatedUsage, HostApplicationMetricInfo, NodeMetricInfo, NodeMetricStatus, NumaUsageInfo,
    PodMetricInfo, PredictedMetric, ResourceMap,
};
use crate::api::node_slo::HostApplication;
use crate::state::cpu_memory::CpuMemory;
use crate::state::pods::{PodEntry, PodTable};
use crate::state::predict::prod::{Predicted, ProdPrediction};
use crate::state::series::aggregates::{Aggregate, Aggregates};
use crate::state::series::key::SeriesKey;
use crate::state::series::metric::Metric;
use crate::state::series::shared::SharedSeries;
use crate::units::Nanos;

/// The figures of a window, by name.
const AGGREGATES: [(&str, Aggregate); 5] = [
    ("avg", Aggregate::Avg),
    ("p50", Aggregate::P50),
    ("p90", Aggregate::P90),
    ("p95", Aggregate::P95),
    ("p99", Aggregate::P99),
];

/// What a report is made of.
#[derive(Clone, Debug)]
pub struct ReportInputs<'a> {
    /// Samples.
    pub series: &'a SharedSeries,
    /// Pods, whatever their phase.
    pub pods: &'a PodTable,
    /// Host applications of the NodeSLO.
    pub host_apps: &'a [HostApplication],
    /// Ids of the NUMA nodes.
    pub numa_nodes: &'a [u32],
    /// What the NodeMetric asks for.
    pub policy: &'a ReportPolicy,
    /// Whether cold memory is measured.
    pub cold_memory: bool,
    /// The end of all windows (`CLOCK_MONOTONIC`).
    pub now: Nanos,
}

/// A report, and the prediction in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What is sent.
    pub status: NodeMetricStatus,
    /// What both predictors said.
    pub prediction: ProdPrediction,
}

impl Report {
    /// The report of time `at`. `predict` is asked once, for the pods whose use is reported.
    pub fn build(
        inputs: &ReportInputs<'_>,
        at: Timestamp,
        predict: impl FnOnce(&[Arc<PodEntry>]) -> ProdPrediction,
    ) -> Self {
        let (reported, pods_metric) = inputs.pods_metric();
        let prediction = predict(&reported);
        let Predicted { reclaimable, peak } = &prediction.reported;
        let metric = |amount: CpuMemory| PredictedMetric { resource: map(Some(amount)) };
        let status = NodeMetricStatus {
            update_time: Some(at),
            node_metric: Some(inputs.node_metric()),
            pods_metric,
            host_application_metric: inputs.host_applications(),
            prod_reclaimable_metric: Some(
                reclaimable.as_ref().map_or_else(|_| PredictedMetric::default(), |amount| metric(*amount)),
            ),
            prod_peak_metric: peak.as_ref().ok().map(|amount| metric(*amount)),
        };
        Self { status, prediction }
    }
}

impl ReportInputs<'_> {
    fn node_metric(&self) -> NodeMetricInfo {
        let node = (Metric::NodeCpuUsage, self.policy.memory.series(self.cold_memory).node);
        let system = (Metric::SysCpuUsage, Metric::SysMemoryUsage);
        NodeMetricInfo {
            node_usage: map(self.mean(&SeriesKey::node(node.0), &SeriesKey::node(node.1))),
            aggregated_node_usages: self.windows(node),
            system_usage: map(self.mean(&SeriesKey::node(system.0), &SeriesKey::node(system.1))),
            aggregated_system_usages: self.windows(system),
            numa_usages: self.numa_usages(),
        }
    }

    /// Each window with its figures; without any, if the samples of CPU span less than half of it.
    fn windows(&self, (cpu, memory): (Metric, Metric)) -> Vec<AggregatedUsage> {
        let window = |window: &Duration| {
            let cpu = self.query(&SeriesKey::node(cpu), *window);
            let memory = self.query(&SeriesKey::node(memory), *window);
            let warm = u128::from(cpu.duration().0).saturating_mul(2) >= window.as_nanos();
            let figure = |aggregate| both(cpu.get(aggregate).filter(|_| warm), memory.get(aggregate));
            let usage = AGGREGATES.map(|(name, aggregate)| (name.to_owned(), map(figure(aggregate))));
            AggregatedUsage { usage: usage.into(), duration: GoDuration(*window) }
        };
        self.policy.windows.iter().map(window).collect()
    }

    fn numa_usages(&self) -> Vec<NumaUsageInfo> {
        let mut ids = self.numa_nodes.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let usage = |id| {
            let mean = |cpu, memory| self.mean(&SeriesKey::numa(cpu, id), &SeriesKey::numa(memory, id));
            let node = mean(Metric::NodeNumaCpuUsage, Metric::NodeNumaMemoryUsage)?;
            let system = mean(Metric::SysNumaCpuUsage, Metric::SysNumaMemoryUsage);
            Some(NumaUsageInfo { numa_node_id: id, node_usage: map(Some(node)), system_usage: map(system) })
        };
        ids.into_iter().filter_map(usage).collect()
    }

    /// Pods that have samples of both, by namespace and name.
    fn pods_metric(&self) -> (Vec<Arc<PodEntry>>, Vec<PodMetricInfo>) {
        let memory = self.policy.memory.series(self.cold_memory).pod;
        let used = |entry: &Arc<PodEntry>| {
            let key = |metric| SeriesKey::pod(metric, &entry.uid);
            Some((Arc::clone(entry), self.mean(&key(Metric::PodCpuUsage), &key(memory))?))
        };
        let mut pods: Vec<_> = self.pods.pods.values().filter_map(used).collect();
        pods.sort_by(|(a, _), (b, _)| {
            let name =
                |entry: &PodEntry| (entry.pod.metadata.namespace.clone(), entry.pod.metadata.name.clone());
            name(a).cmp(&name(b))
        });
        let info = |(entry, used): (Arc<PodEntry>, CpuMemory)| {
            let info = PodMetricInfo {
                name: entry.pod.metadata.name.clone(),
                namespace: entry.pod.metadata.namespace.clone(),
                pod_usage: map(Some(used)),
                priority: entry.pod.priority_class().label().to_owned(),
                qos: entry.pod.effective_qos().label().to_owned(),
                ..PodMetricInfo::default()
            };
            (entry, info)
        };
        pods.into_iter().map(info).unzip()
    }

    fn host_applications(&self) -> Vec<HostApplicationMetricInfo> {
        let memory = self.policy.memory.series(self.cold_memory).host_app;
        let used = |app: &HostApplication| {
            let name: Arc<str> = app.name.as_str().into();
            let key = |metric| SeriesKey::host_app(metric, &name);
            let used = self.mean(&key(Metric::HostAppCpuUsage), &key(memory))?;
            Some(HostApplicationMetricInfo {
                name: app.name.clone(),
                usage: map(Some(used)),
                priority: app.priority.clone(),
                qos: app.qos.clone(),
            })
        };
        let mut apps: Vec<_> = self.host_apps.iter().filter_map(used).collect();
        apps.sort_by(|a, b| a.name.cmp(&b.name));
        apps
    }

    /// The mean of the aggregate duration; `None` unless there are samples of both.
    fn mean(&self, cpu: &SeriesKey, memory: &SeriesKey) -> Option<CpuMemory> {
        let mean = |key| self.query(key, self.policy.aggregate).avg;
        both(mean(cpu), mean(memory))
    }

    fn query(&self, key: &SeriesKey, window: Duration) -> Aggregates {
        let window = Nanos(u64::try_from(window.as_nanos()).unwrap_or(u64::MAX));
        self.series.query_one(key, self.now - window, self.now)
    }
}

fn both(cores: Option<f64>, bytes: Option<f64>) -> Option<CpuMemory> {
    Some(CpuMemory::of_floats(cores?, bytes?))
}

/// An amount as the API has it; empty if it is not known.
fn map(amount: Option<CpuMemory>) -> ResourceMap {
    let resources = amount.map(CpuMemory::to_list).unwrap_or_default();
    ResourceMap { resources, ..ResourceMap::default() }
}

#[cfg(test)]
mod tests;
