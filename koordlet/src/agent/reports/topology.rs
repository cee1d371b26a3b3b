//! Keeps this node's NodeResourceTopology up to date (collection.md 10.2): made where there is none, changed where
//! something of ours differs. Nothing is computed, and nothing sent, while no input has changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::node_metric::result_of;
use crate::agent::collectors::Surroundings;
use crate::agent::once::Once;
use crate::api::node::Node;
use crate::config::Config;
use crate::error_chain::chain;
use crate::host::numa::NodeNumaInfo;
use crate::host::text_file;
use crate::host::topology::NodeCpuInfo;
use crate::kube::backoff::{Backoff, random};
use crate::kube::kubelet_config::KnownConfig;
use crate::kube::publish::TopologyWriter;
use crate::kube::update::Reader;
use crate::report::metrics::reports::{ReportResult, ReportStats, Reported};
use crate::state::facts::Facts;
use crate::state::hub::Readers;
use crate::state::nrt::{NrtInput, WantedNrt, new_object, patch};
use crate::state::pods::PodTable;

/// Longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Whoever publishes.
pub(super) struct TopologyPublisher {
    readers: Readers,
    facts: Facts,
    kubelet: watch::Receiver<KnownConfig>,
    /// Whether the kubelet is asked for its configuration.
    asks_kubelet: bool,
    state_file: PathBuf,
    hugepages: bool,
    /// `None` in a dry run.
    writer: Option<TopologyWriter>,
    stats: Arc<ReportStats>,
    /// What the last round was made from, if nothing is left to do for it.
    settled: Option<Inputs>,
    said: Once,
}

/// What an object is made from. Shared values are replaced only by different ones, so that comparing addresses tells
/// whether anything is new.
struct Inputs {
    cpus: Arc<NodeCpuInfo>,
    numa: Arc<NodeNumaInfo>,
    node: Arc<Node>,
    pods: Arc<PodTable>,
    config: KnownConfig,
    cpu_manager_state: Option<String>,
    existing: Option<Arc<Value>>,
}

impl Inputs {
    fn are(&self, other: &Self) -> bool {
        let Self { cpus, numa, node, pods, config, cpu_manager_state, existing } = self;
        Arc::ptr_eq(cpus, &other.cpus)
            && Arc::ptr_eq(numa, &other.numa)
            && Arc::ptr_eq(node, &other.node)
            && Arc::ptr_eq(pods, &other.pods)
            && *config == other.config
            && *cpu_manager_state == other.cpu_manager_state
            && *existing == other.existing
    }
}

impl TopologyPublisher {
    /// Publishes through `writer`.
    pub(super) fn new(
        config: &Config,
        around: &Surroundings,
        kubelet: watch::Receiver<KnownConfig>,
        writer: Option<TopologyWriter>,
        stats: Arc<ReportStats>,
    ) -> Self {
        Self {
            readers: around.readers.clone(),
            facts: around.facts.clone(),
            kubelet,
            asks_kubelet: config.kubelet.query_config,
            state_file: config.roots.var_lib_kubelet.join("cpu_manager_state"),
            hugepages: config.collect.hugepages,
            writer,
            stats,
            settled: None,
            said: Once::default(),
        }
    }

    /// Publishes until dropped.
    pub(super) async fn run(mut self, pace: Duration, object: Reader<Option<Arc<Value>>>) {
        let mut look = interval(pace);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut retry = after_failures(pace);
        loop {
            look.tick().await;
            let existing = object.borrow().clone();
            // Before the first list, whether to make one is not known.
            let inputs = existing.and_then(|existing| self.inputs(existing));
            let Some(inputs) = inputs else {
                self.stats.round(Reported::Topology, ReportResult::NotReady);
                continue;
            };
            if self.settled.as_ref().is_some_and(|settled| settled.are(&inputs)) {
                continue;
            }
            let result = self.round(&inputs).await;
            self.stats.round(Reported::Topology, result);
            if result == ReportResult::Failed {
                look.reset_at(Instant::now() + retry.next(random()));
            } else {
                retry.reset();
                self.settled = Some(inputs);
            }
        }
    }

    /// All inputs; `None` while one is missing. The kubelet's configuration is one, if it is asked for it: without it
    /// what others have published would be replaced by less.
    fn inputs(&self, existing: Option<Arc<Value>>) -> Option<Inputs> {
        let pods = self.readers.pods.borrow().clone();
        let config = self.kubelet.borrow().clone();
        if !pods.synced || (self.asks_kubelet && config.is_none()) {
            return None;
        }
        Some(Inputs {
            cpus: self.facts.cpus.get()?,
            numa: self.facts.numa.get()?,
            node: self.readers.node.borrow().clone()?,
            pods,
            config,
            cpu_manager_state: text_file::read(&self.state_file).ok(),
            existing,
        })
    }

    async fn round(&mut self, inputs: &Inputs) -> ReportResult {
        let wanted = match self.wanted(inputs) {
            Ok(wanted) => wanted,
            Err(error) => {
                self.say([error]);
                return ReportResult::Failed;
            }
        };
        self.say(wanted.notices.iter().map(ToString::to_string));
        let Some(existing) = &inputs.existing else {
            // The object belongs to the Node, by its UID; a Node of a manifest may have none.
            if inputs.node.metadata.uid.is_empty() {
                return ReportResult::NotReady;
            }
            let Some(writer) = &mut self.writer else { return ReportResult::DryRun };
            let created = writer.create(&new_object(&inputs.node, &wanted)).await;
            if created.is_ok() {
                tracing::info!(zones = wanted.zones.len(), "NodeResourceTopology created");
            }
            return result_of(created.as_ref());
        };
        let Some(change) = patch(existing, &wanted) else { return ReportResult::Unchanged };
        let Some(writer) = &mut self.writer else { return ReportResult::DryRun };
        let sent = writer.patch(&change.body).await;
        if sent.is_ok() {
            tracing::info!(changed = change.changed.join(", "), "NodeResourceTopology changed");
        }
        result_of(sent.as_ref())
    }

    fn wanted(&self, inputs: &Inputs) -> Result<WantedNrt, String> {
        let input = NrtInput {
            cpus: &inputs.cpus,
            numa: &inputs.numa,
            node: &inputs.node,
            pods: &inputs.pods,
            kubelet: inputs.config.as_deref(),
            cpu_manager_state: inputs.cpu_manager_state.as_deref(),
            hugepages: self.hugepages,
        };
        WantedNrt::compute(&input).map_err(|error| chain(&error))
    }

    fn say(&mut self, lines: impl IntoIterator<Item = String>) {
        for news in self.said.news(lines) {
            tracing::warn!(what = news, "NodeResourceTopology");
        }
    }
}

/// Waits after failures: at first no shorter than the pace, then twice as long each time, and another for each agent,
/// so that those who failed together do not come back together (case C142).
fn after_failures(pace: Duration) -> Backoff {
    let shortest = pace.saturating_mul(2);
    Backoff::half_jitter(shortest, LONGEST_PAUSE.max(shortest))
}

#[cfg(test)]
mod tests;
