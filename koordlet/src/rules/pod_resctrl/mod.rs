//! Resctrl: a pod with the annotation `node.koordinator.sh/resctrl` has a group of its own, with a part of the
//! last-level cache and of memory bandwidth (hooks.md 11.1). All tasks beneath the pod's directory belong to it.

pub mod lines;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::lines::{PodLines, ResctrlFault, pod_lines};
use super::injection::Injection;
use super::plugin::{News, Plugin, PodNews};
use super::rule_pod::{RulePod, RuleTarget};
use super::rule_set::{RuleError, RuleNotice};
use super::wishes::Wishes;
use crate::api::keys;
use crate::api::pod_resctrl::{PodResctrl as Annotation, pod_resctrl};
use crate::claims::claim::{Claim, Claims, Owner, Reason};
use crate::claims::resctrl::{ResctrlTarget, ResctrlValue};
use crate::resctrl::group::ResctrlGroup;
use crate::resctrl::schemata::SchemataLine;
use crate::state::pods::{ContainerEntry, PodEntry};
use crate::state::resctrl::ResctrlFacts;
use crate::state::snapshot::Snapshot;

/// The rule: what the host offers, and the last good annotation of each pod.
#[derive(Debug, Default)]
pub struct PodResctrl {
    facts: ResctrlFacts,
    good: BTreeMap<Arc<str>, Annotation>,
}

impl PodResctrl {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "Resctrl";

    /// A look that finds nothing mounted may be one at the wrong moment: what was known of the tree stays, as nothing
    /// can come of it if there is none.
    fn take_facts(&mut self, facts: &ResctrlFacts, notices: &mut Vec<RuleNotice>) -> bool {
        let tree = facts.tree.clone().or_else(|| self.facts.tree.take());
        let facts = ResctrlFacts { tree, ..facts.clone() };
        if facts == self.facts {
            return false;
        }
        self.facts = facts;
        let now = match (&self.facts.tree, self.facts.is_offered()) {
            (_, false) => "the CPU offers no groups of cache and bandwidth".to_owned(),
            (None, true) => "resctrl is not mounted yet".to_owned(),
            (Some(tree), true) => format!("resctrl with {} caches", tree.caches.len()),
        };
        notices.push(RuleNotice::Changed { rule: Self::NAME, now });
        true
    }

    fn take_pods(&mut self, pods: PodNews<'_>, notices: &mut Vec<RuleNotice>) {
        for pod in pods.with_new_annotation(keys::RESCTRL) {
            match pod_resctrl(&pod.pod.metadata.annotations) {
                Ok(Some(annotation)) => {
                    self.tell_faults(pod, &annotation, notices);
                    self.good.insert(Arc::clone(&pod.uid), annotation);
                }
                // An empty text is none.
                Ok(None) => _ = self.good.remove(&pod.uid),
                Err(error) => notices.push(RuleNotice::refused(Self::NAME, pod, error)),
            }
        }
        let has_one = |pod: &Arc<PodEntry>| pod.pod.metadata.annotations.contains_key(keys::RESCTRL);
        self.good.retain(|uid, _| pods.now.pods.get(uid).is_some_and(has_one));
    }

    fn tell_faults(&self, pod: &PodEntry, annotation: &Annotation, notices: &mut Vec<RuleNotice>) {
        let group = ResctrlGroup::of_pod(&pod.uid).err().map(ResctrlFault::Group);
        let faults = pod_lines(annotation, &self.facts).faults;
        notices
            .extend(faults.into_iter().chain(group).map(|fault| RuleNotice::refused(Self::NAME, pod, fault)));
    }

    /// The group and its lines; `None` of a pod that needs none.
    fn group_of(&self, pod: &PodEntry) -> Result<Option<(ResctrlGroup, Vec<SchemataLine>)>, RuleError> {
        if !self.facts.is_offered() {
            return Ok(None);
        }
        let annotation = match self.good.get(&pod.uid) {
            Some(annotation) => Some(annotation.clone()),
            // A pod that a hook knows first.
            None => pod_resctrl(&pod.pod.metadata.annotations)?,
        };
        let Some(annotation) = annotation else { return Ok(None) };
        let PodLines { lines, .. } = pod_lines(&annotation, &self.facts);
        if lines.is_empty() {
            return Ok(None);
        }
        let group = ResctrlGroup::of_pod(&pod.uid).map_err(ResctrlFault::Group)?;
        Ok(Some((group, lines)))
    }

    fn reason(&self, lines: &[SchemataLine]) -> Arc<Reason> {
        let said: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let text = format!("annotation {} comes to {} (hooks.md 11.1)", keys::RESCTRL, said.join(" "));
        let cache = self.facts.tree.iter().filter_map(|tree| tree.l3.as_ref());
        let inputs = cache.flat_map(|cache| {
            [
                ("cbmMask", cache.cbm_mask.clone()),
                ("minCbmBits", cache.min_cbm_bits.to_string()),
                ("shareableBits", cache.shareable_bits.clone()),
            ]
        });
        Arc::new(Reason { text, inputs: inputs.collect() })
    }
}

impl Plugin for PodResctrl {
    fn owner(&self) -> Option<Owner> {
        Some(Owner::PodResctrl)
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        let changed = news.kernel.is_some_and(|kernel| self.take_facts(&kernel.resctrl, notices));
        if let Some(pods) = news.pods {
            self.take_pods(pods, notices);
        }
        if changed {
            // Another host is another question for annotations that are known already.
            for (uid, annotation) in &self.good {
                if let Some(pod) = news.snapshot.pods.pods.get(uid) {
                    self.tell_faults(pod, annotation, notices);
                }
            }
        }
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced
    }

    /// Wishes for a pod its group's lines, and its tasks in that group. Without a line there is no group.
    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        let RuleTarget::Pod(entry) = target else { return };
        if !pod.is_active() {
            return;
        }
        // What is wrong was told when the annotation came.
        let Ok(Some((group, lines))) = self.group_of(entry) else { return };
        let reason = self.reason(&lines);
        let tasks = (ResctrlTarget::Tasks(entry.dir.clone()), ResctrlValue::Group(group.clone()));
        let lines = lines
            .into_iter()
            .map(|line| (ResctrlTarget::Line(group.clone(), line.resource), ResctrlValue::Line(line)));
        for (target, value) in lines.chain([tasks]) {
            wishes.push_resctrl(Claim::hold(target, value, Owner::PodResctrl, Arc::clone(&reason)));
        }
    }

    /// Mounts the file system where the CPU has what it takes.
    fn claim_node(&self, _: &Snapshot, claims: &mut Claims) {
        if self.facts.is_offered() {
            let text = "the gate Resctrl is on and the CPU has cat_l3 and mba (hooks.md 11.1)".to_owned();
            let reason = Arc::new(Reason { text, inputs: BTreeMap::new() });
            let (target, value) = (ResctrlTarget::Mount, ResctrlValue::Mounted);
            claims.resctrl.push(Claim::hold(target, value, Owner::PodResctrl, reason));
        }
    }

    fn inject(
        &self,
        pod: &RulePod<'_>,
        _: &ContainerEntry,
        injection: &mut Injection,
    ) -> Result<(), RuleError> {
        if let Some((group, _)) = self.group_of(pod.entry())? {
            injection.rdt_class = Some(group.name().to_owned());
        }
        Ok(())
    }
}
