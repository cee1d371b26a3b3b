//! What a round of learning learns: the use of each pod and of the node over the last interval, from the series
//! (collection.md 11.2).

use std::sync::Arc;
use std::time::Duration;

use crate::api::qos::PriorityClass;
use crate::state::pods::PodTable;
use crate::state::series::aggregates::Aggregates;
use crate::state::series::class::Scope;
use crate::state::series::key::SeriesKey;
use crate::state::series::metric::Metric;
use crate::state::series::shared::SharedSeries;
use crate::units::Nanos;

/// Who asks the series to keep samples.
const ASKER: &str = "prediction";

/// Use of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSample {
    /// The pod.
    pub uid: Arc<str>,
    /// Its priority class, with default.
    pub class: PriorityClass,
    /// Cores.
    pub cores: f64,
    /// Bytes.
    pub bytes: f64,
}

/// The samples of one round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingRound {
    /// Pods whose use is known.
    pub pods: Vec<PodSample>,
    /// Cores and bytes of the node, if known.
    pub node: Option<(f64, f64)>,
}

/// Asks the series to keep what a round needs.
pub fn keep_in(series: &SharedSeries, interval: Duration) {
    series.keep(ASKER, Scope::Node, interval);
    series.keep(ASKER, Scope::Workload, interval);
}

impl TrainingRound {
    /// The p90 of all samples of the `interval` up to `now` (`CLOCK_MONOTONIC`). A pod of which CPU or memory is not
    /// known is left out.
    pub fn of_series(series: &SharedSeries, pods: &PodTable, interval: Duration, now: Nanos) -> Self {
        let from = now - Nanos(u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
        let p90 = |key: &SeriesKey| {
            let Aggregates { p90, .. } = series.query_one(key, from, now);
            p90
        };
        let node = |metric| p90(&SeriesKey::node(metric));
        let samples = pods.pods.values().filter_map(|entry| {
            Some(PodSample {
                uid: entry.uid.clone(),
                class: entry.pod.priority_class(),
                cores: p90(&SeriesKey::pod(Metric::PodCpuUsage, &entry.uid))?,
                bytes: p90(&SeriesKey::pod(Metric::PodMemoryUsage, &entry.uid))?,
            })
        });
        Self { pods: samples.collect(), node: node(Metric::NodeCpuUsage).zip(node(Metric::NodeMemoryUsage)) }
    }

    /// Cores and bytes of all pods of a class; no pod, no use.
    pub fn of_class(&self, class: Option<PriorityClass>) -> (f64, f64) {
        sum(self.pods.iter().filter(|pod| Some(pod.class) == class))
    }

    /// Cores and bytes of the node that are no pod's, so those of host applications among them; unknown where the
    /// node's use is: nothing is learnt then (collection.md 15 row 20).
    pub fn of_system(&self) -> Option<(f64, f64)> {
        let (cores, bytes) = self.node?;
        let (of_pods, bytes_of_pods) = sum(self.pods.iter());
        Some(((cores - of_pods).max(0.0), (bytes - bytes_of_pods).max(0.0)))
    }
}

fn sum<'a>(pods: impl Iterator<Item = &'a PodSample>) -> (f64, f64) {
    pods.fold((0.0, 0.0), |(cores, bytes), pod| (cores + pod.cores, bytes + pod.bytes))
}

#[cfg(test)]
mod tests;
