//! OOMScoreAdj: containers hold the OOM score adjustment that their pod's annotations give (hooks.md 10.2). The
//! sandbox is left alone.

use std::collections::BTreeMap;

use super::plugin::{News, Plugin};
use super::rule_pod::{RulePod, RuleTarget};
use super::rule_set::RuleNotice;
use super::wishes::{TaskReasonKey, Wishes};
use crate::api::annotations::{AnnotationCause, AnnotationError, oom_score_adj, oom_score_adj_spec};
use crate::api::keys;
use crate::api::pod::Pod;
use crate::claims::claim::{Owner, Reason};
use crate::claims::target::{TaskAttribute, TaskValue};
use crate::state::snapshot::Snapshot;

/// What the kernel takes.
const LEAST: i64 = -1000;
const MOST: i64 = 1000;

/// The rule; it has no state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OomScoreAdj;

/// An adjustment and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// -1000 to 1000.
    pub value: i32,
    /// The annotation that gave it.
    pub key: &'static str,
}

impl OomScoreAdj {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "OOMScoreAdj";

    /// The adjustment of a container, hooks.md 10.2: by its name in the one annotation, else from the other.
    ///
    /// # Errors
    /// An annotation that cannot be read, or a number that the kernel does not take. Neither falls back to the other
    /// annotation.
    pub fn score(pod: &Pod, container: &str) -> Result<Option<Score>, AnnotationError> {
        let (key, value) = match oom_score_adj_spec(pod)?.and_then(|mut spec| spec.remove(container)) {
            Some(value) => (keys::OOM_SCORE_ADJ_SPEC, value.unwrap_or(0)),
            None => match oom_score_adj(pod)? {
                Some(value) => (keys::OOM_SCORE_ADJ, value),
                None => return Ok(None),
            },
        };
        in_range(key, value).map(|value| Some(Score { value, key }))
    }
}

fn in_range(key: &'static str, value: i64) -> Result<i32, AnnotationError> {
    let number = i32::try_from(value).ok().filter(|_| (LEAST..=MOST).contains(&value));
    number.ok_or_else(|| {
        let source = AnnotationCause::Range { field: "an adjustment", value, least: LEAST, most: MOST };
        AnnotationError { key, source }
    })
}

/// What is wrong with one of a pod's annotations: the first mistake.
fn mistake(pod: &Pod, key: &'static str) -> Option<AnnotationError> {
    let values: Result<Vec<i64>, AnnotationError> = if key == keys::OOM_SCORE_ADJ_SPEC {
        oom_score_adj_spec(pod)
            .map(|spec| spec.into_iter().flatten().filter_map(|(_, value)| value).collect())
    } else {
        oom_score_adj(pod).map(|value| value.into_iter().collect())
    };
    let check = |values: Vec<i64>| values.into_iter().find_map(|value| in_range(key, value).err());
    values.map_or_else(Some, check)
}

impl Plugin for OomScoreAdj {
    fn owner(&self) -> Option<Owner> {
        Some(Owner::OomScoreAdj)
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        for key in [keys::OOM_SCORE_ADJ_SPEC, keys::OOM_SCORE_ADJ] {
            news.tell_faults(Self::NAME, key, |pod| mistake(&pod.pod, key), notices);
        }
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced
    }

    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        let RuleTarget::Container(container) = target else { return };
        if !pod.is_active() {
            return;
        }
        // A mistake was told when it came.
        let Ok(Some(Score { value, key })) = Self::score(&pod.entry().pod, &container.name) else { return };
        let attribute = TaskAttribute::OomScoreAdj;
        let value = TaskValue::OomScoreAdj(value);
        let reason = TaskReasonKey { owner: Owner::OomScoreAdj, attribute, value, source: key };
        wishes.push_tasks(reason, || Reason {
            text: format!("the pod's annotation {key} (hooks.md 10.2)"),
            inputs: BTreeMap::from([("annotation", key.to_owned())]),
        });
    }
}
