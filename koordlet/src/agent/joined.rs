//! What the manifests, the API server and the kubelet say, joined. A manifest fills in what the API server does not
//! give, and wins where both give an object; pods are those of all sources, by UID. A source that is away has its last
//! word stay in force.
//!
//! Nothing waits for a source, but two things are final and want all of them: to fall back from one policy to
//! another, and to call the pods complete (after which values of unknown pods are let go). They wait, for a while,
//! for sources that have never answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::node::Node;
use crate::api::node_slo::NodeSlo;
use crate::api::pod::Pod;
use crate::kube::KubeUpdate;
use crate::manifests::objects::Located;
use crate::manifests::{Object, Objects};
use crate::units::Nanos;

/// How long a source that has never answered can keep others from being final.
const PATIENCE: Nanos = Nanos(30_000_000_000);

/// Data of the policy's ConfigMap.
pub(super) type ConfigData = Arc<BTreeMap<String, String>>;

/// Which sources there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Present {
    /// A directory of manifests.
    pub(super) manifests: bool,
    /// An API server.
    pub(super) server: bool,
    /// A kubelet that is asked for pods.
    pub(super) kubelet: bool,
}

/// Where the policy comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PolicySource<'a> {
    /// Not everybody who may have one has answered: what is in force stays.
    Open,
    /// Nobody has one, and there is nothing to fall back to: what is in force stays (design.md 5).
    Stays,
    /// A manifest.
    Manifest(&'a Located, &'a Arc<NodeSlo>),
    /// The API server.
    NodeSlo(&'a Arc<NodeSlo>),
    /// There is no NodeSLO; the ConfigMap says what would be in it.
    ConfigMap(&'a ConfigData),
    /// There is neither.
    Defaults,
}

/// What a server said of an object.
#[derive(Clone, Debug, PartialEq)]
enum Told<T> {
    /// It has not answered.
    Nothing,
    /// There is none.
    Absent,
    /// This is it.
    Is(T),
}

impl<T> From<Option<T>> for Told<T> {
    fn from(answer: Option<T>) -> Self {
        answer.map_or(Self::Absent, Self::Is)
    }
}

/// The last word of each source.
#[derive(Debug)]
pub(super) struct Joined {
    present: Present,
    started: Nanos,
    manifests: Option<Objects>,
    node: Option<Arc<Node>>,
    node_slo: Told<Arc<NodeSlo>>,
    config: Told<ConfigData>,
    pods: Option<Arc<BTreeMap<String, Arc<Pod>>>>,
}

impl Joined {
    /// Nobody has said anything, as of `now` (`CLOCK_MONOTONIC`).
    pub(super) fn new(present: Present, now: Nanos) -> Self {
        Self {
            present,
            started: now,
            manifests: None,
            node: None,
            node_slo: Told::Nothing,
            config: Told::Nothing,
            pods: None,
        }
    }

    /// The manifests have other objects.
    pub(super) fn take_manifests(&mut self, objects: Objects) {
        self.manifests = Some(objects);
    }

    /// The API server says something; whether it matters here.
    pub(super) fn take_server(&mut self, update: KubeUpdate) -> bool {
        match update {
            // A Node that is gone still has its capacity.
            KubeUpdate::Node(None) | KubeUpdate::NodeMetric(_) | KubeUpdate::Topology(_) => return false,
            KubeUpdate::Node(node) => self.node = node,
            KubeUpdate::NodeSlo(slo) => self.node_slo = slo.into(),
            KubeUpdate::SloConfig(data) => self.config = data.into(),
        }
        true
    }

    /// The kubelet lists its pods.
    pub(super) fn take_pods(&mut self, pods: Arc<BTreeMap<String, Arc<Pod>>>) {
        self.pods = Some(pods);
    }

    /// The Node in force.
    pub(super) fn node(&self) -> Option<&Arc<Node>> {
        self.manifest_node().or(self.node.as_ref())
    }

    /// The Node that knows where its kubelet is, and what its UID is: the API server's, if there is one.
    pub(super) fn server_node(&self) -> Option<&Arc<Node>> {
        self.node.as_ref().or(self.manifest_node())
    }

    fn manifest_node(&self) -> Option<&Arc<Node>> {
        self.manifests.as_ref()?.node.as_ref()
    }

    /// Annotations that win over the Node's. Only a manifest's: what is at the API server was made of the Node, by this
    /// agent or another.
    pub(super) fn overrides(&self) -> Option<&BTreeMap<String, String>> {
        let topology = self.manifests.as_ref()?.topology.as_ref()?;
        Some(&topology.metadata.annotations)
    }

    /// All pods. Empty before any source has told of pods.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<Pod>> {
        let manifests = self.manifests.as_ref().map(|objects| &objects.pods);
        let is_replaced = move |uid: &String| manifests.is_some_and(|pods| pods.contains_key(uid));
        let listed = self.pods.iter().flat_map(|pods| pods.iter());
        let listed = listed.filter(move |(uid, _)| !is_replaced(uid)).map(|(_, pod)| pod);
        manifests.into_iter().flat_map(BTreeMap::values).chain(listed)
    }

    /// Whether `pods` are all pods of the node.
    pub(super) fn has_all_pods(&self, now: Nanos) -> bool {
        let Present { manifests, kubelet, server: _ } = self.present;
        if !kubelet {
            return manifests && self.have_manifests();
        }
        let told = |objects: &Objects| !objects.pods.is_empty();
        let can_do_without = self.is_late(now) && self.manifests.as_ref().is_some_and(told);
        self.have_manifests() && (self.pods.is_some() || can_do_without)
    }

    /// Where the policy comes from.
    pub(super) fn policy(&self, now: Nanos) -> PolicySource<'_> {
        if let Some(located) = self.manifests.as_ref().and_then(|objects| objects.node_slo.as_ref())
            && let Object::NodeSlo(slo) = &located.object
        {
            return PolicySource::Manifest(located, slo);
        }
        if !self.have_manifests() {
            return PolicySource::Open;
        }
        if !self.present.server {
            return PolicySource::Stays;
        }
        match (&self.node_slo, &self.config) {
            (Told::Is(slo), _) => PolicySource::NodeSlo(slo),
            // Which of the ConfigMap's strategies is meant depends on the Node's labels.
            (Told::Absent, Told::Is(data)) if self.node().is_some() || self.is_late(now) => {
                PolicySource::ConfigMap(data)
            }
            (Told::Absent, Told::Absent) => PolicySource::Defaults,
            // Perhaps nobody may read it.
            (Told::Absent, Told::Nothing) if self.is_late(now) => PolicySource::Defaults,
            _ => PolicySource::Open,
        }
    }

    /// Whether time alone changes nothing any more.
    pub(super) fn is_final(&self, now: Nanos) -> bool {
        self.policy(now) != PolicySource::Open && self.has_all_pods(now)
    }

    /// Objects of manifests that take the place of one of the API server or of the kubelet.
    pub(super) fn replaced(&self) -> Vec<String> {
        let Some(objects) = &self.manifests else { return Vec::new() };
        let node =
            objects.node.iter().filter(|_| self.node.is_some()).map(|node| Object::Node(Arc::clone(node)));
        let slo = objects.node_slo.iter().filter(|_| matches!(self.node_slo, Told::Is(_)));
        let slo = slo.map(|located| located.object.clone());
        let listed = |uid: &String| self.pods.as_ref().is_some_and(|pods| pods.contains_key(uid));
        let pods = objects.pods.iter().filter(|(uid, _)| listed(uid));
        let pods = pods.map(|(_, pod)| Object::Pod(Arc::clone(pod)));
        node.chain(slo).chain(pods).map(|object| object.to_string()).collect()
    }

    fn have_manifests(&self) -> bool {
        !self.present.manifests || self.manifests.is_some()
    }

    fn is_late(&self, now: Nanos) -> bool {
        now >= self.started + PATIENCE
    }
}

#[cfg(test)]
mod tests;
