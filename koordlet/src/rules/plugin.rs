//! What a rule plugin is: parsed rules of its own, and functions from a target to wishes. Pure.

use std::fmt;
use std::sync::Arc;

use super::injection::Injection;
use super::rule_pod::{RuleGroup, RulePod, RuleTarget};
use super::rule_set::{RuleError, RuleNotice};
use super::wishes::Wishes;
use crate::api::node::Node;
use crate::claims::claim::{Claims, Owner};
use crate::state::kernel::KernelFacts;
use crate::state::pods::{ContainerEntry, PodEntry, PodTable};
use crate::state::slo::Slo;
use crate::state::snapshot::Snapshot;
use crate::state::topology::Topology;

/// A rule plugin, hooks.md 3.
pub trait Plugin: fmt::Debug + Send {
    /// Whose claims it makes; `None` of one that only injects.
    fn owner(&self) -> Option<Owner>;

    /// Parses what is new among its inputs, hooks.md 5: a change is told; of an input that cannot be used the last good
    /// rule stays, and why is told once.
    ///
    /// Claims of a pod are kept until the pod, its sandbox, the Node, the policy, the topology or the kernel's features
    /// change, or a plugin tells of a change. So what a plugin learns from pods and lets other pods' wishes depend on has
    /// to be told.
    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>);

    /// Whether its inputs have all arrived, so that ledger entries of its owner may be judged.
    fn is_synced(&self, snapshot: &Snapshot) -> bool;

    /// Wishes for a pod's directory, or for one in it.
    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        _ = (pod, target, wishes);
    }

    /// Wishes for a directory that is no known pod's.
    fn wish_group(&self, group: &RuleGroup<'_>, wishes: &mut Wishes) {
        _ = (group, wishes);
    }

    /// Claims on what is of the whole node.
    fn claim_node(&self, snapshot: &Snapshot, claims: &mut Claims) {
        _ = (snapshot, claims);
    }

    /// Adds environment, mounts and devices for a container that is about to be made.
    ///
    /// # Errors
    /// An annotation that cannot be used. What was added before that stays (hooks.md 4.1).
    fn inject(
        &self,
        pod: &RulePod<'_>,
        container: &ContainerEntry,
        injection: &mut Injection,
    ) -> Result<(), RuleError> {
        _ = (pod, container, injection);
        Ok(())
    }
}

/// What is new since the last look; an input that stayed the same is `None`.
#[derive(Debug)]
pub struct News<'a> {
    /// Everything as it is now.
    pub snapshot: &'a Snapshot,
    /// The Node.
    pub node: Option<&'a Node>,
    /// The policy, once one was seen.
    pub slo: Option<&'a Slo>,
    /// CPUs and who may use them.
    pub topology: Option<&'a Topology>,
    /// The kernel's features.
    pub kernel: Option<&'a KernelFacts>,
    /// The pods.
    pub pods: Option<PodNews<'a>>,
}

impl News<'_> {
    /// Tells what `fault` finds in the pods whose annotation `key` is new or another one. Annotations are read when a
    /// pod's claims are made; there nothing is told.
    pub fn tell_faults<E: Into<RuleError>>(
        &self,
        rule: &'static str,
        key: &'static str,
        fault: impl Fn(&PodEntry) -> Option<E>,
        notices: &mut Vec<RuleNotice>,
    ) {
        let pods = self.pods.into_iter().flat_map(|pods| pods.with_new_annotation(key));
        notices.extend(pods.filter_map(|pod| Some(RuleNotice::refused(rule, pod, fault(pod)?))));
    }
}

/// Another table of pods than the last one.
#[derive(Clone, Copy, Debug)]
pub struct PodNews<'a> {
    /// The one before.
    pub known: &'a PodTable,
    /// The one now.
    pub now: &'a PodTable,
}

impl<'a> PodNews<'a> {
    /// Pods that are new, or of which the object changed, each with what it was.
    pub fn changed(self) -> impl Iterator<Item = (Option<&'a PodEntry>, &'a PodEntry)> {
        self.now.pods.iter().filter_map(move |(uid, pod)| {
            let known = self.known.pods.get(uid);
            let same = known.is_some_and(|known| Arc::ptr_eq(known, pod));
            (!same).then_some((known.map(|known| &**known), &**pod))
        })
    }

    /// Pods whose annotation `key` is new or another one.
    pub fn with_new_annotation(self, key: &'static str) -> impl Iterator<Item = &'a PodEntry> {
        let text = |pod: &'a PodEntry| pod.pod.metadata.annotations.get(key);
        let differs = move |(known, pod): (Option<&'a PodEntry>, &'a PodEntry)| {
            (known.and_then(text) != text(pod) && text(pod).is_some()).then_some(pod)
        };
        self.changed().filter_map(differs)
    }
}
