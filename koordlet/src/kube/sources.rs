//! Starts what this room has: a client, the followers of this node's objects, and those who write.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::DynamicObject;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinSet;

use super::connection::ConnectError;
use super::credentials::CredentialSource;
use super::events::{self, EventRecorder};
use super::kind::Kind;
use super::publish::{NodeMetricWriter, TopologyWriter};
use super::stats::ApiStats;
use super::transport;
use super::update::{KubeUpdates, Slot, Slots, channel};
use super::watch::{Deliver, Following};
use crate::config::kube::KubeSettings;

/// Which optional objects are followed. The Node, the NodeSLO and the policy's ConfigMap always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The NodeMetric, if reports are on.
    pub node_metric: bool,
    /// The NodeResourceTopology, if it is published.
    pub topology: bool,
}

/// What was started. Dropping it ends the followers.
pub struct KubeSources {
    client: Client,
    node_name: String,
    stats: Arc<ApiStats>,
    events: EventRecorder,
    _tasks: JoinSet<()>,
}

impl KubeSources {
    /// Starts following this node's objects, inside a tokio runtime. The server need not be up.
    ///
    /// # Errors
    /// Credentials that cannot be used.
    pub async fn start(
        source: CredentialSource,
        settings: &KubeSettings,
        node_name: &str,
        wanted: Wanted,
    ) -> Result<(Self, KubeUpdates), ConnectError> {
        let stats = Arc::new(ApiStats::default());
        tracing::info!(credentials = %source, node = node_name, "following this node's objects at the API server");
        let client = transport::client(source, settings, &stats).await?;
        let (slots, updates) = channel();
        let mut tasks = JoinSet::new();
        let (events, sender) = events::recorder(client.clone(), node_name, &stats);
        tasks.spawn(sender.run());
        let Slots { node, node_slo, node_metric, topology, slo_config } = slots;
        let cluster = |kind: Kind| {
            let api = Api::all_with(client.clone(), &kind.resource());
            Following::new(kind, api, node_name, Arc::clone(&stats))
        };
        tasks.spawn(cluster(Kind::Node).run(typed(node, same)));
        tasks.spawn(cluster(Kind::NodeSlo).run(typed(node_slo, same)));
        if wanted.node_metric {
            tasks.spawn(cluster(Kind::NodeMetric).run(typed(node_metric, without_status)));
        }
        if wanted.topology {
            tasks.spawn(cluster(Kind::Topology).run(typed(topology, same)));
        }
        let api = config_maps(&client, settings);
        let config = Following::new(Kind::ConfigMap, api, &settings.config_name, Arc::clone(&stats));
        tasks.spawn(config.run(config_data(slo_config)));
        let node_name = node_name.to_owned();
        Ok((Self { client, node_name, stats, events, _tasks: tasks }, updates))
    }

    /// The client, for whoever needs a request of its own; rates, limits and counters are the same.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Counters.
    pub fn stats(&self) -> &Arc<ApiStats> {
        &self.stats
    }

    /// Records Kubernetes events.
    pub fn events(&self) -> &EventRecorder {
        &self.events
    }

    /// Writes NodeMetric's status. Make one.
    pub fn node_metric_writer(&self) -> NodeMetricWriter {
        NodeMetricWriter::new(self.client.clone(), &self.node_name, Arc::clone(&self.stats))
    }

    /// Writes the NodeResourceTopology. Make one.
    pub fn topology_writer(&self) -> TopologyWriter {
        TopologyWriter::new(self.client.clone(), &self.node_name, Arc::clone(&self.stats))
    }
}

fn config_maps(client: &Client, settings: &KubeSettings) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), &settings.config_namespace, &Kind::ConfigMap.resource())
}

/// Puts objects of a slim type into a slot, after `trim`; fields that the type does not have are left behind here.
fn typed<T>(slot: Slot<Option<Arc<T>>>, trim: fn(Value) -> Value) -> impl Deliver
where
    T: DeserializeOwned + PartialEq + Send + Sync + 'static,
{
    move |object| {
        let object = object.map(|object| serde_json::from_value::<T>(trim(object)));
        slot.set(object.transpose().map_err(|error| error.to_string())?.map(Arc::new));
        Ok(())
    }
}

fn same(object: Value) -> Value {
    object
}

/// What others say in a NodeMetric: our own report is no news, and may be large.
fn without_status(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    object
}

fn config_data(slot: Slot<Option<Arc<BTreeMap<String, String>>>>) -> impl Deliver {
    move |object| {
        let data = |mut object: Value| match object.get_mut("data").map(Value::take) {
            None | Some(Value::Null) => Ok(BTreeMap::new()),
            Some(data) => serde_json::from_value(data).map_err(|error| error.to_string()),
        };
        let data = object.map(data).transpose()?;
        slot.set(data.map(Arc::new));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::node::Node;
    use crate::kube::update::KubeUpdate;

    #[test]
    fn an_object_that_cannot_be_read_leaves_the_last_in_force() {
        let (slots, _updates) = channel();
        let mut deliver = typed::<Node>(slots.node, same);
        assert_eq!(deliver(Some(json!({"metadata": {"name": "n1"}, "spec": {"unknown": 1}}))), Ok(()));
        assert!(deliver(Some(json!({"metadata": {"name": []}}))).is_err());
        assert_eq!(deliver(None), Ok(()));
    }

    #[tokio::test]
    async fn our_own_report_is_no_news() {
        let (slots, mut updates) = channel();
        let mut deliver = typed(slots.node_metric, without_status);
        let object = |version: &str, interval: i64| {
            json!({"metadata": {"name": "n1", "resourceVersion": version}, "status": {"updateTime": version},
                   "spec": {"metricCollectPolicy": {"reportIntervalSeconds": interval}}})
        };
        for (version, interval) in [("1", 60), ("2", 60), ("3", 30)] {
            assert_eq!(deliver(Some(object(version, interval))), Ok(()));
            if version == "2" {
                continue;
            }
            let KubeUpdate::NodeMetric(Some(metric)) = updates.next().await else { panic!("another kind") };
            let policy = metric.spec.collect_policy.clone().unwrap();
            assert_eq!(policy.report_interval_seconds, Some(interval), "only what others change is told");
        }
    }

    #[test]
    fn a_config_map_without_data_is_there_and_empty() {
        let (slots, updates) = channel();
        let mut deliver = config_data(slots.slo_config);
        assert_eq!(deliver(Some(json!({"metadata": {"name": "c"}}))), Ok(()));
        assert!(deliver(Some(json!({"data": {"k": 1}}))).is_err());
        drop(updates);
    }
}
