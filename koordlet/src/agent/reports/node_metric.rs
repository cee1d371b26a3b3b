//! Reports use in this node's NodeMetric, at the pace of its spec (collection.md 9.2). Reports start once there is
//! such an object, and go on while there is one. A report is made by another thread.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::prediction::SharedModels;
use crate::agent::collectors::Surroundings;
use crate::agent::once::Once;
use crate::api::node_metric::NodeMetric;
use crate::config::Config;
use crate::host::clock::monotonic;
use crate::kube::publish::{NodeMetricWriter, PublishError, Published};
use crate::kube::update::Reader;
use crate::report::metrics::reports::{ReportResult, ReportStats, Reported};
use crate::state::facts::Facts;
use crate::state::hub::Readers;
use crate::state::node_metric::build::{Report, ReportInputs};
use crate::state::node_metric::pace::ReportPace;
use crate::state::node_metric::policy::ReportPolicy;
use crate::state::predict::prod::predict;
use crate::state::predict::settings::ProdSettings;
use crate::state::series::shared::SharedSeries;
use crate::sys::trim_heap;
use crate::units::Nanos;

/// How soon it is looked again whether there is anything to report.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Whoever reports.
pub(super) struct NodeMetricReporter {
    source: Source,
    facts: Facts,
    /// `None` in a dry run.
    writer: Option<NodeMetricWriter>,
    stats: Arc<ReportStats>,
    /// What the object asks for; `None` without an object.
    policy: Option<ReportPolicy>,
    pace: ReportPace,
    said_of_spec: Once,
    said_of_node: Once,
}

/// What a report is made of; clones go to another thread.
#[derive(Clone)]
struct Source {
    readers: Readers,
    facts: Facts,
    series: SharedSeries,
    models: SharedModels,
    settings: ProdSettings,
}

impl NodeMetricReporter {
    /// Reports through `writer`.
    pub(super) fn new(
        config: &Config,
        around: &Surroundings,
        models: SharedModels,
        writer: Option<NodeMetricWriter>,
        stats: Arc<ReportStats>,
    ) -> Self {
        // An object may come at any time, and asks for the usual windows then, most likely.
        ReportPolicy::default().keep_in(&around.series);
        let settings = ProdSettings { cold_start: config.predict.cold_start, margin: config.predict.margin };
        let source = Source {
            readers: around.readers.clone(),
            facts: around.facts.clone(),
            series: around.series.clone(),
            models,
            settings,
        };
        Self {
            source,
            facts: around.facts.clone(),
            writer,
            stats,
            policy: None,
            pace: ReportPace::starting(monotonic()),
            said_of_spec: Once::default(),
            said_of_node: Once::default(),
        }
    }

    /// Reports until dropped.
    pub(super) async fn run(mut self, mut object: Reader<Option<Arc<NodeMetric>>>) {
        loop {
            let wait = self.policy.as_ref().map(|policy| {
                let left = self.pace.due(policy.interval) - monotonic();
                Duration::from_nanos(left.0)
            });
            tokio::select! {
                biased;
                changed = object.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let newest = object.borrow_and_update().clone();
                    self.take(newest.flatten().as_deref());
                }
                () = pause(wait) => self.round().await,
            }
        }
    }

    /// Takes what the object asks for. It counts at once, also for a report that is being waited for.
    fn take(&mut self, object: Option<&NodeMetric>) {
        let Some(object) = object else {
            if self.policy.take().is_some() {
                tracing::info!("there is no NodeMetric any more: nothing is reported");
            }
            self.facts.page_cache_asked.set(false);
            return;
        };
        let (policy, problems) = ReportPolicy::of_spec(&object.spec);
        for news in self.said_of_spec.news(problems) {
            tracing::warn!(what = news, "NodeMetric");
        }
        policy.keep_in(&self.source.series);
        self.facts.page_cache_asked.set(policy.wants_page_cache());
        if self.policy.as_ref() != Some(&policy) {
            tracing::info!(interval = ?policy.interval, aggregate = ?policy.aggregate, "use is reported");
            self.policy = Some(policy);
        }
    }

    async fn round(&mut self) {
        let Some(policy) = self.policy.clone() else { return };
        let source = self.source.clone();
        if !source.is_ready() {
            self.stats.round(Reported::NodeMetric, ReportResult::NotReady);
            return sleep(LOOK_AGAIN).await;
        }
        let made = spawn_blocking(move || source.report(&policy, monotonic(), Timestamp::now()));
        let Ok(report) = made.await else { return };
        self.pace.reported(monotonic());
        for news in self.said_of_node.news(report.prediction.notice.clone()) {
            tracing::warn!(what = news, "prediction");
        }
        let result = match &mut self.writer {
            // What went wrong is told by the writer.
            Some(writer) => result_of(writer.report(&report.status).await.as_ref()),
            None => ReportResult::DryRun,
        };
        self.stats.round(Reported::NodeMetric, result);
        self.facts.report.set(report);
        // A report of many pods takes megabytes while it is made, sent and answered.
        spawn_blocking(trim_heap);
    }
}

/// What became of a write.
pub(super) fn result_of(outcome: Result<&Published, &PublishError>) -> ReportResult {
    match outcome {
        Ok(Published::Written) => ReportResult::Written,
        Ok(Published::Unchanged) => ReportResult::Unchanged,
        Ok(Published::Absent | Published::Exists) => ReportResult::Missed,
        Err(_) => ReportResult::Failed,
    }
}

impl Source {
    /// A report without pods or without the node's use would tell a scheduler that nothing runs here; an old one is
    /// known to be old.
    fn is_ready(&self) -> bool {
        self.readers.pods.borrow().synced && self.readers.usage.borrow().node_cpu.is_some()
    }

    fn report(&self, policy: &ReportPolicy, now: Nanos, at: Timestamp) -> Report {
        let (node, pods, slo) = {
            let Readers { node, pods, slo, .. } = &self.readers;
            (node.borrow().clone(), pods.borrow().clone(), slo.borrow().clone())
        };
        let numa = self.facts.numa.get();
        let numa_nodes: Vec<u32> =
            numa.iter().flat_map(|numa| &numa.numa_infos).map(|info| info.node).collect();
        let inputs = ReportInputs {
            series: &self.series,
            pods: &pods,
            host_apps: &slo.host_applications,
            numa_nodes: &numa_nodes,
            policy,
            cold_memory: self.facts.cold_memory.get().is_some(),
            now,
        };
        Report::build(&inputs, at, |reported| {
            let models = self.models.lock();
            predict(reported, node.as_deref(), &self.settings, at, |key| models.peak(key))
        })
    }
}

async fn pause(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
