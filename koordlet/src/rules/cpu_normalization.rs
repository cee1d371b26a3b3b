//! CPUNormalization: on a node whose CPUs are faster than the baseline, the quota of LS and unclassed pods is
//! divided by the node's ratio (hooks.md 9). Shares and memory are untouched.

use std::collections::BTreeMap;

use super::plugin::{News, Plugin};
use super::ratio::{self, NormalizationRatio, RatioError, RatioRule};
use super::rule_pod::{RulePod, RuleTarget};
use super::rule_set::RuleNotice;
use super::wishes::{ReasonKey, Wishes};
use crate::api::qos::QosClass;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Owner, Reason};
use crate::state::snapshot::Snapshot;
use crate::units::{CfsQuota, MIN_QUOTA_US};

/// The rule. Without a ratio it wishes nothing, so that the quotas of the pods' own specs come back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuNormalization {
    ratio: RatioRule,
}

impl CpuNormalization {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "CPUNormalization";

    /// Takes the node's annotation (`None` when absent). Returns whether the rule changed.
    pub fn update(&mut self, annotation: Option<&str>) -> Result<bool, RatioError> {
        self.ratio.update(annotation)
    }

    /// The rule in force.
    pub fn ratio(&self) -> &RatioRule {
        &self.ratio
    }
}

impl Plugin for CpuNormalization {
    fn owner(&self) -> Option<Owner> {
        Some(Owner::CpuNormalization)
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        if let Some(node) = news.node {
            let result = self.update(ratio::annotation(node));
            notices.extend(ratio::notice(Self::NAME, result, self.ratio()));
        }
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced && snapshot.node.is_some()
    }

    /// Wishes for one target the quota of its CPU limit divided by the ratio, hooks.md 9.4. Nothing where
    /// there is no limit: for a pod, where one of the containers that run with it has none and the pod's own
    /// `resources` have none either (9.5).
    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        let Some(ratio) = self.ratio.ratio().filter(|_| is_for(pod)) else { return };
        let (native, of_pod) = match target {
            RuleTarget::Pod(_) => (pod.native().pod(), true),
            RuleTarget::Sandbox(_) => return,
            RuleTarget::Container(container) => (pod.native().container(container), false),
        };
        let Some(limit) = native.quota.micros() else { return };
        let key = ReasonKey {
            owner: Owner::CpuNormalization,
            resource: Resource::CfsQuota,
            of_pod,
            figure: Some(limit),
        };
        let quota = ratio.scale(native.quota);
        wishes.push(key, Value::Quota(quota), || reason(limit, ratio, of_pod));
    }
}

/// Whether the rule is for this pod: LS or without a class, not pinned to CPUs, not finished (hooks.md 9.3). A
/// pinned pod's quota is lifted whatever its class (9.5).
fn is_for(pod: &RulePod<'_>) -> bool {
    let class = matches!(pod.entry().qos, None | Some(QosClass::Ls));
    class && pod.is_active() && !pod.is_pinned()
}

fn reason(limit: i64, ratio: NormalizationRatio, of_pod: bool) -> Reason {
    let whose = if of_pod { "the pod's" } else { "the container's" };
    let text = if ratio.get() <= 1.0 {
        format!("{whose} CPU limit as it is: a ratio of {ratio} does not scale (hooks.md 9.4)")
    } else if ratio.scale(CfsQuota::Micros(limit)) == CfsQuota::Micros(MIN_QUOTA_US) {
        format!("{whose} CPU limit, ceil({limit} / {ratio}), at least {MIN_QUOTA_US} (hooks.md 9.5)")
    } else {
        format!("{whose} CPU limit, ceil({limit} / {ratio}) (hooks.md 9.4)")
    };
    Reason { text, inputs: BTreeMap::from([("limitQuota", limit.to_string()), ("ratio", ratio.to_string())]) }
}
