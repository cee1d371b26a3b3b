//! BatchResource: best-effort pods hold what their batch resources say (hooks.md 8.3). Acts on pods labelled
//! BE that name batch resources; all others stay as the kubelet set them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::batch_spec::{BatchAmounts, BatchSums};
use super::plugin::{News, Plugin};
use super::ratio::{self, RatioError, RatioRule};
use super::rule_pod::{RulePod, RuleTarget};
use super::rule_set::RuleNotice;
use super::wishes::{ReasonKey, Wishes};
use crate::api::annotations::extended_resource_spec;
use crate::api::keys::EXTENDED_RESOURCE_SPEC;
use crate::api::qos::QosClass;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Owner, Reason};
use crate::state::pods::PodEntry;
use crate::state::slo::{CpuSuppressPolicy, SuppressPolicy};
use crate::state::snapshot::Snapshot;
use crate::units::{CfsQuota, CpuShares, MemoryLimit, MilliCpu};

/// The rule: the node's ratio, and whether batch limits become quotas at all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchResource {
    ratio: RatioRule,
    node_seen: bool,
    /// `None` before the first NodeSLO, when quotas are on.
    quota_on: Option<bool>,
}

impl BatchResource {
    /// Name of the plugin in notices.
    pub const NAME: &'static str = "BatchResource";
    /// Name in notices of the part that follows the NodeSLO, as the reference registers it.
    pub const SLO_RULE: &'static str = "BatchResource (nodeSLO)";
    /// Name in notices of the part that follows the Node.
    pub const NODE_RULE: &'static str = "BatchResource (nodeMeta)";

    /// Takes the node's normalization ratio, which scales batch quotas whatever the CPUNormalization gate
    /// says. Returns whether the rule changed; the first good one always does (hooks.md 5).
    pub fn update_ratio(&mut self, annotation: Option<&str>) -> Result<bool, RatioError> {
        let changed = self.ratio.update(annotation)?;
        Ok(!std::mem::replace(&mut self.node_seen, true) || changed)
    }

    /// Takes the suppress policy. Under `cfsQuota` the best-effort directory carries a quota itself, so pods
    /// and containers are lifted. Returns whether the rule changed; the first policy always does.
    pub fn update_policy(&mut self, policy: &CpuSuppressPolicy) -> bool {
        let on = !(policy.enable && policy.policy == SuppressPolicy::CfsQuota);
        self.quota_on.replace(on) != Some(on)
    }

    /// Whether batch limits become quotas.
    pub fn quota_enabled(&self) -> bool {
        self.quota_on.unwrap_or(true)
    }

    fn wish_values(&self, sums: BatchSums, of_pod: bool, wishes: &mut Wishes) {
        let key = |resource, figure| ReasonKey { owner: Owner::BatchResource, resource, of_pod, figure };
        let whose = if of_pod { "the pod's" } else { "the container's" };

        let request = sums.cpu_request;
        let shares = Value::Shares(CpuShares::from_milli(MilliCpu(request)));
        wishes.push(key(Resource::CpuShares, Some(request)), shares, || Reason {
            text: format!("{whose} batch-cpu request of {request}m (hooks.md 8.3)"),
            inputs: BTreeMap::from([("batchCpuRequest", request.to_string())]),
        });

        let limit = sums.cpu_limit.filter(|_| self.quota_enabled());
        let unscaled = limit.map_or(CfsQuota::Unlimited, |limit| CfsQuota::from_milli(MilliCpu(limit)));
        let quota = Value::Quota(self.ratio.scale(unscaled));
        let reason = || self.quota_reason(sums.cpu_limit, of_pod);
        wishes.push(key(Resource::CfsQuota, sums.cpu_limit), quota, reason);

        let memory = sums.memory_limit.and_then(|bytes| u64::try_from(bytes).ok());
        let value = Value::Memory(memory.map_or(MemoryLimit::Unlimited, MemoryLimit::Bytes));
        wishes.push(key(Resource::MemoryLimit, sums.memory_limit), value, || match memory {
            Some(bytes) => Reason {
                text: format!("{whose} batch-memory limit of {bytes} bytes (hooks.md 8.3)"),
                inputs: BTreeMap::from([("batchMemoryLimit", bytes.to_string())]),
            },
            None => Reason { text: no_limit(of_pod, "batch-memory"), inputs: BTreeMap::new() },
        });
    }

    /// The whole way from the limit to the quota: its batch limit, the node's ratio, the policy that lifts it.
    fn quota_reason(&self, limit: Option<i64>, of_pod: bool) -> Reason {
        let Some(limit) = limit else {
            return Reason { text: no_limit(of_pod, "batch-cpu"), inputs: BTreeMap::new() };
        };
        let whose = if of_pod { "the pod's" } else { "the container's" };
        let unscaled = CfsQuota::from_milli(MilliCpu(limit));
        let mut text = format!("{whose} batch-cpu limit of {limit}m");
        let mut inputs = BTreeMap::from([("batchCpuLimit", limit.to_string())]);
        if let Some(ratio) = self.ratio.ratio().filter(|ratio| ratio.scale(unscaled) != unscaled) {
            inputs.insert("ratio", ratio.to_string());
            // Writing to a String cannot fail.
            _ = write!(text, ", ceil({unscaled} / {ratio})");
        }
        if !self.quota_enabled() {
            inputs.insert("cpuSuppressPolicy", SuppressPolicy::CfsQuota.to_string());
            text += ", lifted: the suppress policy cfsQuota limits the best-effort directory itself";
        }
        text += " (hooks.md 8.3)";
        Reason { text, inputs }
    }
}

impl Plugin for BatchResource {
    fn owner(&self) -> Option<Owner> {
        Some(Owner::BatchResource)
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        if let Some(node) = news.node {
            let result = self.update_ratio(ratio::annotation(node));
            notices.extend(ratio::notice(Self::NODE_RULE, result, self));
        }
        if let Some(slo) = news.slo
            && self.update_policy(&slo.suppress)
        {
            notices.push(RuleNotice::Changed { rule: Self::SLO_RULE, now: self.to_string() });
        }
        let fault = |pod: &PodEntry| {
            (pod.qos == Some(QosClass::Be)).then(|| extended_resource_spec(&pod.pod).err()).flatten()
        };
        news.tell_faults(Self::NAME, EXTENDED_RESOURCE_SPEC, fault, notices);
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced && snapshot.node.is_some() && snapshot.slo.synced
    }

    /// Wishes shares, quota and memory limit for one target, the table of hooks.md 8.3.
    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        if pod.entry().qos != Some(QosClass::Be) || !pod.is_active() {
            return;
        }
        let (sums, of_pod) = match target {
            RuleTarget::Pod(_) => (pod.batch().sums(), true),
            RuleTarget::Sandbox(_) => return,
            RuleTarget::Container(container) => {
                (pod.batch().container(container).map(BatchSums::from), false)
            }
        };
        if let Some(sums) = sums {
            self.wish_values(sums, of_pod, wishes);
        }
    }
}

fn no_limit(of_pod: bool, resource: &str) -> String {
    if of_pod {
        format!("a container of the pod has no {resource} limit (hooks.md 8.3)")
    } else {
        format!("the container has no {resource} limit (hooks.md 8.3)")
    }
}

impl From<BatchAmounts> for BatchSums {
    fn from(amounts: BatchAmounts) -> Self {
        Self {
            cpu_request: amounts.cpu_request.unwrap_or(0),
            cpu_limit: amounts.cpu_limit,
            memory_limit: amounts.memory_limit,
        }
    }
}

impl fmt::Display for BatchResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = if self.quota_enabled() { "on" } else { "off" };
        write!(f, "{}, quota {quota}", self.ratio)
    }
}
