//! What the sources of this room have seen: the newest of each kind, in order, with nothing lost in between that
//! was not replaced by something newer. Memory holds one object of each kind, however slow the reader is.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::api::node::Node;
use crate::api::node_metric::NodeMetric;
use crate::api::node_slo::NodeSlo;

/// The newest of one kind. `None` means that the server was asked and has no such object; a kind that was not
/// asked for yet gives no update at all.
#[derive(Clone, Debug, PartialEq)]
pub enum KubeUpdate {
    /// This node. A Node that vanished is told as `None`; whoever needs its capacity may keep the last one.
    Node(Option<Arc<Node>>),
    /// Its policy. `None`: the ConfigMap or defaults apply (collection.md 15 row 24).
    NodeSlo(Option<Arc<NodeSlo>>),
    /// What to report, without what was reported: the status is empty.
    NodeMetric(Option<Arc<NodeMetric>>),
    /// Its NodeResourceTopology, whole: what others wrote into it must survive.
    Topology(Option<Arc<Value>>),
    /// Data of the policy's ConfigMap.
    SloConfig(Option<Arc<BTreeMap<String, String>>>),
}

/// The writing end of one kind.
#[derive(Debug)]
pub struct Slot<T>(watch::Sender<Option<T>>);

impl<T: PartialEq> Slot<T> {
    /// Publishes what is there now; nobody is woken by what is equal to the last. Whether it differed.
    pub fn set(&self, value: T) -> bool {
        self.0.send_if_modified(|held| {
            let differs = held.as_ref() != Some(&value);
            if differs {
                *held = Some(value);
            }
            differs
        })
    }
}

impl<T: Clone> Slot<T> {
    /// What was published last; `None` before the first time.
    pub fn get(&self) -> Option<T> {
        self.0.borrow().clone()
    }
}

/// The writing ends, one for each source.
#[derive(Debug)]
pub struct Slots {
    /// The Node.
    pub node: Slot<Option<Arc<Node>>>,
    /// The policy.
    pub node_slo: Slot<Option<Arc<NodeSlo>>>,
    /// What is to be reported.
    pub node_metric: Slot<Option<Arc<NodeMetric>>>,
    /// The topology object.
    pub topology: Slot<Option<Arc<Value>>>,
    /// The policy's ConfigMap.
    pub slo_config: Slot<Option<Arc<BTreeMap<String, String>>>>,
}

/// Reads one kind: `None` before it was asked for.
pub type Reader<T> = watch::Receiver<Option<T>>;

/// The reading end. Clone it for a second reader, which then gets everything there is at once.
#[derive(Clone, Debug)]
pub struct KubeUpdates {
    node: Reader<Option<Arc<Node>>>,
    node_slo: Reader<Option<Arc<NodeSlo>>>,
    node_metric: Reader<Option<Arc<NodeMetric>>>,
    topology: Reader<Option<Arc<Value>>>,
    slo_config: Reader<Option<Arc<BTreeMap<String, String>>>>,
}

/// A channel where nothing has been seen.
pub fn channel() -> (Slots, KubeUpdates) {
    let (node, node_reader) = watch::channel(None);
    let (node_slo, node_slo_reader) = watch::channel(None);
    let (node_metric, node_metric_reader) = watch::channel(None);
    let (topology, topology_reader) = watch::channel(None);
    let (slo_config, slo_config_reader) = watch::channel(None);
    let slots = Slots {
        node: Slot(node),
        node_slo: Slot(node_slo),
        node_metric: Slot(node_metric),
        topology: Slot(topology),
        slo_config: Slot(slo_config),
    };
    let updates = KubeUpdates {
        node: node_reader,
        node_slo: node_slo_reader,
        node_metric: node_metric_reader,
        topology: topology_reader,
        slo_config: slo_config_reader,
    };
    (slots, updates)
}

impl KubeUpdates {
    /// The NodeMetric alone, for whoever reports.
    pub fn node_metric(&self) -> Reader<Option<Arc<NodeMetric>>> {
        self.node_metric.clone()
    }

    /// The NodeResourceTopology alone, for whoever publishes it.
    pub fn topology(&self) -> Reader<Option<Arc<Value>>> {
        self.topology.clone()
    }

    /// Waits for something new. A source that has ended gives no more updates; waits for ever once all have.
    pub async fn next(&mut self) -> KubeUpdate {
        // The Node and the policy come first: what is decided about pods depends on both.
        tokio::select! {
            biased;
            node = news(&mut self.node) => KubeUpdate::Node(node),
            slo = news(&mut self.node_slo) => KubeUpdate::NodeSlo(slo),
            config = news(&mut self.slo_config) => KubeUpdate::SloConfig(config),
            topology = news(&mut self.topology) => KubeUpdate::Topology(topology),
            metric = news(&mut self.node_metric) => KubeUpdate::NodeMetric(metric),
        }
    }
}

/// The next value of one kind.
async fn news<T: Clone>(reader: &mut Reader<T>) -> T {
    loop {
        if reader.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        if let Some(value) = reader.borrow_and_update().clone() {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Arc<BTreeMap<String, String>> {
        Arc::new(BTreeMap::from([("key".to_owned(), text.to_owned())]))
    }

    #[tokio::test]
    async fn the_newest_of_each_kind_wins_and_none_is_lost() {
        let (slots, mut updates) = channel();
        for n in 0..1000 {
            slots.slo_config.set(Some(config(&n.to_string())));
        }
        slots.node_slo.set(None);
        assert_eq!(updates.next().await, KubeUpdate::NodeSlo(None));
        assert_eq!(updates.next().await, KubeUpdate::SloConfig(Some(config("999"))));
        assert!(!slots.slo_config.set(Some(config("999"))), "equal values are no news");
        assert!(slots.slo_config.set(None));
        assert_eq!(updates.next().await, KubeUpdate::SloConfig(None));
    }

    #[tokio::test]
    async fn an_ended_source_does_not_hold_up_the_others() {
        let (slots, mut updates) = channel();
        let Slots { node, node_slo, .. } = slots;
        node_slo.set(Some(Arc::default()));
        drop(node_slo);
        assert_eq!(
            updates.next().await,
            KubeUpdate::NodeSlo(Some(Arc::default())),
            "what it said last counts"
        );
        node.set(Some(Arc::default()));
        assert_eq!(updates.next().await, KubeUpdate::Node(Some(Arc::default())));
    }
}
