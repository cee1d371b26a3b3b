//! CPUSetAllocator: containers run on the CPUs that the scheduler allocated to their pod, else on those that pods of
//! their class share (hooks.md 8.2). A pod with CPUs of its own has no CPU quota.
//!
//! Nothing waits for a NodeResourceTopology object: without one the pools are those that `state::topology` computes.
//! On a node where no CPU is reserved or allocated these pools keep nobody off anything, and nothing is claimed.

pub mod choice;
pub mod rule;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use choice::{CpuChoice, Subject, Why, choose};
use rule::CpuSetRule;

use super::plugin::{News, Plugin};
use super::rule_pod::{RuleGroup, RulePod, RuleTarget};
use super::rule_set::{RuleError, RuleNotice};
use super::wishes::{ReasonKey, RuleWish, Wishes};
use crate::api::annotations::{AnnotationError, Annotations};
use crate::api::qos::{KubeQos, QosClass};
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Owner, Reason};
use crate::cpuset::CpuSet;
use crate::state::snapshot::Snapshot;
use crate::state::topology::Topology;
use crate::units::CfsQuota;

/// The plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuSetAllocator {
    be_by_node: bool,
    keep_quota: bool,
    rule: Option<CpuSetRule>,
    /// CPUs that are online, once known: no others can be given.
    online: Option<CpuSet>,
}

/// The object that annotations are refused of.
const TOPOLOGY_OBJECT: &str = "NodeResourceTopology";

impl CpuSetAllocator {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "CPUSetAllocator";

    /// A plugin without a rule. `be_by_node`: gate `BECPUManager`; `keep_quota`: `--disable-unset-cpu-quota`.
    pub fn new(be_by_node: bool, keep_quota: bool) -> Self {
        Self { be_by_node, keep_quota, rule: None, online: None }
    }

    /// Takes the annotations of a NodeResourceTopology. Returns whether the rule changed; on an error the last good
    /// rule stays.
    pub fn update(&mut self, annotations: &Annotations) -> Result<bool, AnnotationError> {
        CpuSetRule::of_annotations(annotations).map(|rule| self.replace(rule))
    }

    /// Takes the topology, as [`CpuSetRule::of_topology`] does.
    pub fn update_topology(&mut self, topology: &Topology) -> Result<bool, AnnotationError> {
        self.online = Some(topology.all());
        let rule = CpuSetRule::of_topology(topology)?;
        Ok(rule.is_some_and(|rule| self.replace(rule)))
    }

    /// The rule in force.
    pub fn rule(&self) -> Option<&CpuSetRule> {
        self.rule.as_ref()
    }

    fn replace(&mut self, rule: CpuSetRule) -> bool {
        let changed = self.rule.as_ref() != Some(&rule);
        self.rule = Some(rule);
        changed
    }

    /// What a container or sandbox of the pod gets; `None` where its allocation cannot be read.
    fn choice(&self, pod: &RulePod<'_>) -> Option<CpuChoice> {
        let (entry, status) = (pod.entry(), pod.status()?);
        let in_best_effort = entry.kube_qos == KubeQos::BestEffort;
        let subject = Subject { status, qos: entry.qos, in_best_effort };
        Some(choose(self.rule.as_ref(), subject, self.be_by_node))
    }

    /// The part of `cpus` that is online; `None` if nothing is left of it.
    fn online(&self, cpus: CpuSet) -> Option<CpuSet> {
        let cpus = match &self.online {
            Some(online) => cpus.intersection(online),
            None => cpus,
        };
        (!cpus.is_empty()).then_some(cpus)
    }

    fn wish_cpus(&self, pod: &RulePod<'_>, wishes: &mut Wishes) {
        let (cpus, why) = match self.choice(pod) {
            None | Some(CpuChoice::NoValue) => return,
            Some(CpuChoice::Clear) => (CpuSet::new(), None),
            Some(CpuChoice::Cpus(cpus, why)) => {
                let Some(cpus) = self.online(cpus) else { return };
                (cpus, Some(why))
            }
        };
        push(cpus, why, wishes);
    }

    /// Whether the pod's quota is lifted: it has CPUs of its own, also an LS pod (hooks.md 9.5, 17 row 3). Of BE and
    /// SYSTEM pods it is only where the runtime asks; in a running group their quota is others' (8.2).
    fn lifts_quota(&self, pod: &RulePod<'_>) -> bool {
        let class_shares = matches!(pod.entry().qos, Some(QosClass::Be | QosClass::System));
        let allocated = || match self.choice(pod) {
            Some(CpuChoice::Cpus(cpus, Why::Allocated)) => self.online(cpus).is_some(),
            _ => false,
        };
        !self.keep_quota && (!class_shares || pod.is_starting()) && pod.is_pinned() && allocated()
    }

    fn wish_quota(&self, pod: &RulePod<'_>, of_pod: bool, wishes: &mut Wishes) {
        if !self.lifts_quota(pod) {
            return;
        }
        let key =
            ReasonKey { owner: Owner::CpuSetAllocator, resource: Resource::CfsQuota, of_pod, figure: None };
        wishes.push(key, Value::Quota(CfsQuota::Unlimited), || Reason {
            text: "no quota beside CPUs of the pod's own (hooks.md 8.2)".to_owned(),
            inputs: BTreeMap::new(),
        });
    }
}

impl Plugin for CpuSetAllocator {
    fn owner(&self) -> Option<Owner> {
        Some(Owner::CpuSetAllocator)
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        let Some(topology) = news.topology else { return };
        let refused = |error: AnnotationError| RuleNotice::Refused {
            rule: Self::NAME,
            object: TOPOLOGY_OBJECT.to_owned(),
            error: RuleError::Annotation(error),
        };
        match self.update_topology(topology) {
            Err(error) => notices.push(refused(error)),
            Ok(false) => {}
            Ok(true) => {
                let Some(rule) = &self.rule else { return };
                notices.push(RuleNotice::Changed { rule: Self::NAME, now: rule.to_string() });
                notices.extend(rule.unreadable().map(refused));
            }
        }
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced && snapshot.topology.is_some()
    }

    /// Wishes CPUs for containers and sandboxes, and no quota for them and their pod where the CPUs are the pod's own.
    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        if !pod.is_active() {
            return;
        }
        match target {
            RuleTarget::Pod(_) => self.wish_quota(pod, true, wishes),
            RuleTarget::Sandbox(_) | RuleTarget::Container(_) => {
                self.wish_cpus(pod, wishes);
                self.wish_quota(pod, false, wishes);
            }
        }
    }

    /// Host applications of class LS get what LS pods share; others have no value, which is no error (hooks.md 17 row
    /// 18).
    fn wish_group(&self, group: &RuleGroup<'_>, wishes: &mut Wishes) {
        let RuleGroup::HostApp(app, _) = group else { return };
        let Some(rule) = self.rule.as_ref().filter(|rule| !rule.all_shared()) else { return };
        if QosClass::from_label(&app.qos) != Some(QosClass::Ls) {
            return;
        }
        let Some(cpus) = rule.ls_pool().and_then(|cpus| self.online(cpus)) else { return };
        push(cpus, Some(Why::Shared), wishes);
    }
}

/// Wishes CPUs; pods that share theirs share the reason. Without a `why` the list of a request is cleared.
fn push(cpus: CpuSet, why: Option<Why>, wishes: &mut Wishes) {
    let (owner, resource) = (Owner::CpuSetAllocator, Resource::Cpus);
    let key = |figure| ReasonKey { owner, resource, of_pod: false, figure: Some(figure) };
    match why {
        None => wishes.push(key(0), Value::Cpus(cpus), cleared),
        Some(Why::Shared) => wishes.push(key(1), Value::Cpus(cpus.clone()), || reason(&Why::Shared, &cpus)),
        Some(Why::System) => wishes.push(key(2), Value::Cpus(cpus.clone()), || reason(&Why::System, &cpus)),
        Some(why) => {
            let reason = Arc::new(reason(&why, &cpus));
            wishes.push_wish(RuleWish { resource, value: Value::Cpus(cpus), owner, reason });
        }
    }
}

fn cleared() -> Reason {
    Reason {
        text: "no list of its own: CPU suppression says which CPUs best-effort pods use (hooks.md 8.2)"
            .to_owned(),
        inputs: BTreeMap::new(),
    }
}

fn reason(why: &Why, cpus: &CpuSet) -> Reason {
    let mut inputs = BTreeMap::new();
    let text = match why {
        Why::Allocated => {
            format!("{cpus}: the scheduler allocated them to the pod (resource-status, hooks.md 8.2)")
        }
        Why::Numa { nodes, be } => {
            let nodes = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            let whose = if *be { "BE" } else { "LS" };
            let text = format!(
                "{cpus}: what {whose} pods share on NUMA node {nodes}, where the scheduler placed the pod \
                 (hooks.md 8.2)"
            );
            inputs.insert("numaNodes", nodes);
            text
        }
        Why::System => format!("{cpus}: the SYSTEM class's own (system-qos-resource, hooks.md 8.2)"),
        Why::Shared => format!("{cpus}: all CPUs that LS pods share (cpu-shared-pools, hooks.md 8.2)"),
    };
    Reason { text, inputs }
}
