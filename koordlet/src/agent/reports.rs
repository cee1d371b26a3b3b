//! Starts those who report to the API server: use, what is learnt of it, topology. Each is a task of its own that
//! works on snapshots; what takes long is done by another thread, so that the loop never waits for a report.

mod node_metric;
mod prediction;
#[cfg(test)]
mod testing;
mod topology;

use std::sync::Arc;

use tokio::task::JoinSet;

use self::node_metric::NodeMetricReporter;
use self::prediction::{Learner, SharedModels};
use self::topology::TopologyPublisher;
use super::collectors::Surroundings;
use super::sources::Sources;
use crate::config::Config;
use crate::report::metrics::reports::ReportStats;

/// Starts them, where there is an API server. They end when the answer is dropped.
pub(super) fn start(config: &Config, sources: &Sources, around: &Surroundings) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let (Some(server), Some(kubelet)) = (&sources.server, sources.kubelet_config()) else { return tasks };
    let stats = Arc::<ReportStats>::default();
    around.metrics.add_reports(Arc::clone(&stats));
    if config.dry_run {
        tracing::info!("dry run: what would be reported is made and shown, and not sent");
    }
    if config.report.node_metric {
        let models = SharedModels::new(&config.predict);
        let learner = Learner::new(config, around, models.clone(), Arc::clone(&stats));
        tasks.spawn(learner.run());
        let writer = (!config.dry_run).then(|| server.objects.node_metric_writer());
        let reporter = NodeMetricReporter::new(config, around, models, writer, Arc::clone(&stats));
        tasks.spawn(reporter.run(server.updates.node_metric()));
    }
    if let Some(interval) = config.report.topology {
        let writer = (!config.dry_run).then(|| server.objects.topology_writer());
        let publisher = TopologyPublisher::new(config, around, kubelet, writer, stats);
        tasks.spawn(publisher.run(interval, server.updates.topology()));
    }
    tasks
}
