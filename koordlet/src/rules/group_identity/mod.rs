//! GroupIdentity: the identity that the scheduler of some vendors' kernels knows a cgroup by, `cpu.bvt_warp_ns`
//! (hooks.md 8.1): -1 yields to all others, 0 is nobody special, 1 and 2 go first. Excludes core scheduling.
//!
//! One function for all callers, so that a pod's own annotation counts in each of them (17 row 16). On a kernel
//! without the feature nothing is wished at all, unless `--mainline-equivalents` lets something else stand in; what
//! that is, `claims::mainline` says.

pub mod identities;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use super::plugin::{News, Plugin};
use super::rule_pod::{RuleGroup, RulePod, RuleTarget};
use super::rule_set::RuleNotice;
use super::wishes::{RuleWish, Wishes};
use crate::api::annotations::{AnnotationError, PodCpuQos, pod_cpu_qos};
use crate::api::keys::CPU_QOS;
use crate::api::qos::QosClass;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Claims, Owner, Reason};
use crate::claims::target::HostFile;
use crate::state::kernel::{KernelFacts, Switch};
use crate::state::pods::PodEntry;
use crate::state::slo::qos::cpu::CpuStrategy;
use crate::state::snapshot::Snapshot;

use identities::{Identities, IdentityError, Subject};

/// The rule, and what the kernel makes of it.
#[derive(Debug, Default)]
pub struct GroupIdentity {
    /// `None` before the first policy.
    identities: Option<Identities>,
    reasons: HashMap<Subject, Arc<Reason>>,
    kernel: Kernel,
    mainline_equivalents: bool,
    /// What was told last.
    told: Option<String>,
}

/// What the kernel has of the feature. Looked at again from time to time (17 row 13).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kernel {
    files: bool,
    switch: Switch,
    sched_core: Switch,
}

/// By which means identities take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// None at all.
    None,
    /// The kernel's own.
    Kernel,
    /// What stands in for it.
    Equivalents,
}

impl GroupIdentity {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "GroupIdentity";

    /// Before any policy. `mainline_equivalents`: whether something may stand in where the kernel lacks the feature.
    pub fn new(mainline_equivalents: bool) -> Self {
        Self { mainline_equivalents, ..Self::default() }
    }

    /// Takes the policy. Returns whether the rule changed; the first one always does (hooks.md 5).
    ///
    /// # Errors
    /// An identity that no kernel knows; the last rule stays.
    pub fn update(&mut self, policy: &CpuStrategy) -> Result<bool, IdentityError> {
        let identities = Identities::of_policy(policy)?;
        if self.identities == Some(identities) {
            return Ok(false);
        }
        self.identities = Some(identities);
        self.reasons =
            Subject::all().map(|subject| (subject, Arc::new(reason(identities, subject)))).collect();
        Ok(true)
    }

    fn means(&self) -> Means {
        if self.kernel.files || self.kernel.switch.is_there() {
            Means::Kernel
        } else if self.mainline_equivalents {
            Means::Equivalents
        } else {
            Means::None
        }
    }

    /// The rule, where directories are to hold something because of it. Before the first policy they keep what an
    /// agent before this one gave them. With every class off, directories are only kept at 0 where the kernel's
    /// switch is on; a switch that cannot be read leaves all as it is.
    fn rule(&self) -> Option<Identities> {
        let identities = self.identities?;
        let has_effect = match self.means() {
            Means::None => false,
            Means::Equivalents => identities.is_enabled(),
            Means::Kernel => match self.kernel.switch {
                Switch::Absent => true,
                Switch::Reads(on) => on == 1 || identities.is_enabled(),
                Switch::Unreadable => false,
            },
        };
        has_effect.then_some(identities)
    }

    fn push(&self, identities: Identities, subject: Subject, wishes: &mut Wishes) {
        let Some(reason) = self.reasons.get(&subject) else { return };
        push(identities.of(subject), Arc::clone(reason), wishes);
    }

    /// Wishes for one directory of a pod. A pod whose annotation is malformed gets nothing new.
    fn push_pod(&self, pod: &PodEntry, wishes: &mut Wishes) {
        let Some(identities) = self.rule() else { return };
        let Ok(own) = own_qos(pod) else { return };
        let subject = Subject::pod(pod.qos, pod.kube_qos);
        match own.filter(|_| pod.qos == Some(QosClass::Ls)) {
            None => self.push(identities, subject, wishes),
            Some(own) => {
                let value = overridden(identities.of(subject), &own);
                push(value, Arc::new(own_reason(value, &own)), wishes);
            }
        }
    }

    /// Tells what the rule is, if that is news and the kernel makes anything of it.
    fn tell(&mut self, notices: &mut Vec<RuleNotice>) {
        let now = (self.means() != Means::None && self.identities.is_some()).then(|| self.to_string());
        if self.told != now {
            self.told.clone_from(&now);
            let now = now.unwrap_or_else(|| "this kernel does not have it any more".to_owned());
            notices.push(RuleNotice::Changed { rule: Self::NAME, now });
        }
    }
}

impl Plugin for GroupIdentity {
    fn owner(&self) -> Option<Owner> {
        Some(Owner::GroupIdentity)
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        if let Some(kernel) = news.kernel {
            self.kernel = Kernel::from(kernel);
        }
        let refused = news.slo.and_then(|slo| self.update(&slo.qos.cpu).err());
        self.tell(notices);
        if self.means() == Means::None {
            return;
        }
        notices.extend(refused.map(|error| RuleNotice::Refused {
            rule: Self::NAME,
            object: "NodeSLO".to_owned(),
            error: error.into(),
        }));
        news.tell_faults(Self::NAME, CPU_QOS, |pod| own_qos(pod).err(), notices);
    }

    /// A switch that cannot be read means that nothing is to be touched, not even to put it back.
    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced && snapshot.slo.synced && self.kernel.switch != Switch::Unreadable
    }

    /// All directories of a pod hold the pod's identity. Sandboxes come by the tree, with whatever else is in the
    /// pod's directory.
    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        match target {
            RuleTarget::Pod(_) | RuleTarget::Container(_) => self.push_pod(pod.entry(), wishes),
            RuleTarget::Sandbox(_) => {}
        }
    }

    fn wish_group(&self, group: &RuleGroup<'_>, wishes: &mut Wishes) {
        let Some(identities) = self.rule() else { return };
        match group {
            RuleGroup::Class(class, _) | RuleGroup::Stray(class, _) => {
                self.push(identities, Subject::Directory(*class), wishes);
            }
            RuleGroup::InPod(pod, _) => self.push_pod(pod, wishes),
            RuleGroup::HostApp(app, _) => {
                self.push(identities, Subject::HostApp(QosClass::from_label(&app.qos)), wishes);
            }
        }
    }

    /// Core scheduling goes off before group identity goes on: the kernel has either. Also where the latter's switch
    /// cannot be read and stays as it is.
    fn claim_node(&self, _: &Snapshot, claims: &mut Claims) {
        let Kernel { switch, sched_core, .. } = &self.kernel;
        if !switch.is_there() || !self.identities.is_some_and(Identities::is_enabled) {
            return;
        }
        let mut claim = |name: &str, text: &str, why: &str| {
            let reason = Reason { text: format!("{why} (hooks.md 8.1)"), inputs: BTreeMap::new() };
            let (file, text) = (HostFile::sysctl(name), text.to_owned());
            claims.host_files.push(Claim::hold(file, text, Owner::GroupIdentity, Arc::new(reason)));
        };
        if sched_core.is_there() {
            claim("kernel/sched_core", "0", "core scheduling and group identity exclude each other");
        }
        if *switch != Switch::Unreadable {
            claim("kernel/sched_group_identity_enabled", "1", "the policy gives classes a group identity");
        }
    }
}

fn push(value: i64, reason: Arc<Reason>, wishes: &mut Wishes) {
    let (resource, owner) = (Resource::BvtWarpNs, Owner::GroupIdentity);
    wishes.push_wish(RuleWish { resource, value: Value::Int(value), owner, reason });
}

/// A pod's own CPU QoS; read of every pod, so that a malformed one is told whatever the class.
fn own_qos(pod: &PodEntry) -> Result<Option<PodCpuQos>, AnnotationError> {
    if pod.pod.metadata.annotations.contains_key(CPU_QOS) { pod_cpu_qos(&pod.pod) } else { Ok(None) }
}

/// The identity of an LS pod with a CPU QoS of its own, hooks.md 8.1: without `enable` there is none.
fn overridden(class: i64, own: &PodCpuQos) -> i64 {
    if own.enable == Some(true) { own.group_identity.unwrap_or(class) } else { 0 }
}

fn reason(identities: Identities, subject: Subject) -> Reason {
    let value = identities.of(subject);
    Reason {
        text: format!("group identity of {subject} (hooks.md 8.1)"),
        inputs: BTreeMap::from([("groupIdentity", value.to_string()), ("policy", identities.to_string())]),
    }
}

fn own_reason(value: i64, own: &PodCpuQos) -> Reason {
    let text = match (own.enable, own.group_identity) {
        (Some(true), Some(_)) => "group identity of the pod itself",
        (Some(true), None) => "the pod itself enables the group identity of its class",
        _ => "the pod itself does not enable group identity",
    };
    Reason {
        text: format!("{text}, annotation {CPU_QOS} (hooks.md 8.1)"),
        inputs: BTreeMap::from([("groupIdentity", value.to_string())]),
    }
}

impl From<&KernelFacts> for Kernel {
    fn from(facts: &KernelFacts) -> Self {
        let KernelFacts { bvt, group_identity, sched_core, .. } = facts;
        Self { files: *bvt, switch: group_identity.clone(), sched_core: sched_core.clone() }
    }
}

impl fmt::Display for GroupIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.identities {
            Some(identities) => identities.fmt(f)?,
            None => f.write_str("no policy yet")?,
        }
        if self.means() == Means::Equivalents { f.write_str(", by mainline equivalents") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
