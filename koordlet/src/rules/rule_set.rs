//! All rules of the node: fed with snapshots, asked for the claims of all pods or of one.

use std::fmt;
use std::sync::Arc;

use super::batch_resource::BatchResource;
use super::cpu_normalization::CpuNormalization;
use super::ratio::RatioError;
use super::rule_pod::{RulePod, RuleTarget};
use super::wishes::{RuleWish, Wishes};
use crate::api::annotations::{AnnotationError, extended_resource_spec};
use crate::api::keys::{CPU_NORMALIZATION_RATIO, EXTENDED_RESOURCE_SPEC};
use crate::api::node::Node;
use crate::api::qos::QosClass;
use crate::claims::claim::{Claim, Owner};
use crate::state::pods::{ContainerEntry, PodEntry, PodTable};
use crate::state::slo::Slo;
use crate::state::snapshot::Snapshot;

/// Which plugins are on (feature gates of hooks.md 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleGates {
    /// `CPUNormalization`, default off.
    pub cpu_normalization: bool,
    /// `BatchResource`, default on.
    pub batch_resource: bool,
}

impl Default for RuleGates {
    fn default() -> Self {
        Self { cpu_normalization: false, batch_resource: true }
    }
}

/// What became of the inputs of a rule; to be told once.
#[derive(Debug)]
pub enum RuleNotice {
    /// A rule changed: pods have to be planned again.
    Changed {
        /// Which rule.
        rule: &'static str,
        /// What it says now.
        now: String,
    },
    /// An object could not be used; the last good rule stays in force.
    Refused {
        /// Which rule.
        rule: &'static str,
        /// Which object, e.g. `node` or `pod ns/name`.
        object: String,
        /// Why; names the annotation.
        error: RuleError,
    },
}

/// Why an input was refused.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// The node's normalization ratio.
    #[error(transparent)]
    Ratio(#[from] RatioError),
    /// An annotation of a pod.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
}

/// The rules and what they were last fed with.
#[derive(Debug, Default)]
pub struct Rules {
    cpu_normalization: Option<CpuNormalization>,
    batch_resource: Option<BatchResource>,
    node: Option<Arc<Node>>,
    slo: Option<Arc<Slo>>,
    pods: Arc<PodTable>,
}

impl Rules {
    /// The plugins whose gates are on, each in its initial state.
    pub fn new(gates: RuleGates) -> Self {
        Self {
            cpu_normalization: gates.cpu_normalization.then(CpuNormalization::default),
            batch_resource: gates.batch_resource.then(BatchResource::default),
            ..Self::default()
        }
    }

    /// Parses what is new in the snapshot, hooks.md 5. Inputs that have not arrived yet leave their rules as
    /// they are; a text that was refused is told once, not again while it stays the same.
    pub fn observe(&mut self, snapshot: &Snapshot) -> Vec<RuleNotice> {
        let mut notices = Vec::new();
        if let Some(node) = &snapshot.node {
            self.observe_node(node, &mut notices);
        }
        if snapshot.slo.synced {
            self.observe_slo(&snapshot.slo, &mut notices);
        }
        self.observe_pods(&snapshot.pods, &mut notices);
        notices
    }

    /// Owners whose inputs have all arrived, so that ledger entries of theirs may be judged. A plugin whose
    /// gate is off needs the pods only.
    pub fn synced(&self, snapshot: &Snapshot) -> impl Iterator<Item = Owner> + use<> {
        let pods = snapshot.pods.synced;
        let node = pods && snapshot.node.is_some();
        let normalization = if self.cpu_normalization.is_some() { node } else { pods };
        let batch = if self.batch_resource.is_some() { node && snapshot.slo.synced } else { pods };
        [(Owner::CpuNormalization, normalization), (Owner::BatchResource, batch)]
            .into_iter()
            .filter_map(|(owner, synced)| synced.then_some(owner))
    }

    /// The claims of all pods.
    pub fn claims(&self, snapshot: &Snapshot) -> Vec<Claim> {
        let mut claims = Vec::new();
        let mut wishes = Wishes::default();
        for pod in snapshot.pods.pods.values() {
            self.push_pod(pod, &mut wishes, &mut claims);
        }
        claims
    }

    /// The claims of one pod and its started containers.
    pub fn pod_claims(&self, pod: &PodEntry) -> Vec<Claim> {
        let mut claims = Vec::new();
        self.push_pod(pod, &mut Wishes::default(), &mut claims);
        claims
    }

    /// What all rules wish for one container, which need not have started: the hook server's question.
    pub fn container_wishes(&self, pod: &PodEntry, container: &ContainerEntry) -> Vec<RuleWish> {
        let mut wishes = Wishes::default();
        let pod = RulePod::new(pod);
        if pod.reaches(RuleTarget::Container(container)) {
            self.wish(&pod, RuleTarget::Container(container), &mut wishes);
        }
        wishes.drain().collect()
    }

    fn push_pod(&self, pod: &PodEntry, wishes: &mut Wishes, claims: &mut Vec<Claim>) {
        let pod = RulePod::new(pod);
        for target in pod.targets() {
            let Some(dir) = target.dir() else { continue };
            self.wish(&pod, target, wishes);
            claims.extend(wishes.drain().map(|wish| wish.into_claim(dir)));
        }
    }

    /// The one place where the plugins are called.
    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        if let Some(rule) = &self.batch_resource {
            rule.wish(pod, target, wishes);
        }
        if let Some(rule) = &self.cpu_normalization {
            rule.wish(pod, target, wishes);
        }
    }

    fn observe_node(&mut self, node: &Arc<Node>, notices: &mut Vec<RuleNotice>) {
        let ratio = |node: &Arc<Node>| node.metadata.annotations.get(CPU_NORMALIZATION_RATIO).cloned();
        let text = ratio(node);
        let known = self.node.replace(Arc::clone(node));
        if known.is_some_and(|known| Arc::ptr_eq(&known, node) || ratio(&known) == text) {
            return;
        }
        if let Some(rule) = &mut self.cpu_normalization {
            let result = rule.update(text.as_deref());
            notices.extend(ratio_notice(CpuNormalization::NAME, result, rule.ratio()));
        }
        if let Some(rule) = &mut self.batch_resource {
            let result = rule.update_ratio(text.as_deref());
            notices.extend(ratio_notice(BatchResource::NODE_RULE, result, rule));
        }
    }

    fn observe_slo(&mut self, slo: &Arc<Slo>, notices: &mut Vec<RuleNotice>) {
        let known = self.slo.replace(Arc::clone(slo));
        if known.is_some_and(|known| Arc::ptr_eq(&known, slo)) {
            return;
        }
        if let Some(rule) = &mut self.batch_resource
            && rule.update_policy(&slo.suppress)
        {
            notices.push(RuleNotice::Changed { rule: BatchResource::SLO_RULE, now: rule.to_string() });
        }
    }

    /// Pods' annotations are read when a pod's claims are made; here only their faults are told.
    fn observe_pods(&mut self, pods: &Arc<PodTable>, notices: &mut Vec<RuleNotice>) {
        let known = std::mem::replace(&mut self.pods, Arc::clone(pods));
        if self.batch_resource.is_none() || Arc::ptr_eq(&known, pods) {
            return;
        }
        let spec = |pod: &PodEntry| pod.pod.metadata.annotations.get(EXTENDED_RESOURCE_SPEC).cloned();
        for (uid, pod) in pods.pods.iter().filter(|(_, pod)| pod.qos == Some(QosClass::Be)) {
            let told =
                known.pods.get(uid).is_some_and(|known| Arc::ptr_eq(known, pod) || spec(known) == spec(pod));
            if !told && let Err(error) = extended_resource_spec(&pod.pod) {
                let meta = &pod.pod.metadata;
                let object = format!("pod {}/{}", meta.namespace, meta.name);
                let rule = BatchResource::NAME;
                notices.push(RuleNotice::Refused { rule, object, error: error.into() });
            }
        }
    }
}

fn ratio_notice(
    rule: &'static str,
    result: Result<bool, RatioError>,
    now: &impl fmt::Display,
) -> Option<RuleNotice> {
    match result {
        Ok(true) => Some(RuleNotice::Changed { rule, now: now.to_string() }),
        Ok(false) => None,
        Err(error) => Some(RuleNotice::Refused { rule, object: "node".to_owned(), error: error.into() }),
    }
}
