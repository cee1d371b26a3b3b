//! CoreSched: containers of one group share a core scheduling cookie, so that no two groups run on the threads of one
//! core at a time, and best-effort pods may be `cpu.idle` (hooks.md 10.1). It takes GroupIdentity's place where the
//! policy `cpuPolicy` says so; each of the two switches the other one's kernel switch off before its own on.
//!
//! The reference sets `cpu.idle` on the directory of a Kubernetes class. Here it is claimed on the directory of each
//! pod of that class: an idle class directory would refuse the shares that the kubelet writes there (design.md 4).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::plugin::{News, Plugin};
use super::rule_pod::{RulePod, RuleTarget};
use super::rule_set::RuleNotice;
use super::wishes::{ReasonKey, TaskReasonKey, Wishes};
use crate::api::keys;
use crate::api::qos::{KubeQos, QosClass};
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Claims, Owner, Reason};
use crate::claims::target::{HostFile, TaskAttribute, TaskValue};
use crate::state::kernel::{CoreSchedSwitch, KernelFacts};
use crate::state::pods::PodEntry;
use crate::state::slo::qos::cpu::{CpuQos, CpuQosPolicy, CpuStrategy};
use crate::state::snapshot::Snapshot;

/// What is appended to the group of a pod whose class expels others.
const EXPELLER: &str = "-expeller";

/// The rule and what the kernel can do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CoreSched {
    /// `None` before the first policy.
    rule: Option<ClassRules>,
    switch: CoreSchedSwitch,
}

/// What a class gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassRule {
    /// Whether its pods get cookies.
    pub enabled: bool,
    /// Whether they expel others from their cores.
    pub expeller: bool,
    /// Whether they are `cpu.idle`.
    pub idle: bool,
}

/// All classes; LSE is treated as LSR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClassRules {
    lsr: ClassRule,
    ls: ClassRule,
    be: ClassRule,
}

/// The core scheduling group of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreSchedGroup {
    /// Whether its containers get the group's cookie; else they get none.
    pub enabled: bool,
    /// Name.
    pub name: String,
}

impl ClassRules {
    /// Neutral while no class is enabled.
    fn of(strategy: &CpuStrategy) -> Self {
        if strategy.policy != CpuQosPolicy::CoreSched {
            return Self::default();
        }
        let rule = |class: &CpuQos| ClassRule {
            enabled: class.enable,
            expeller: class.core_expeller,
            idle: class.sched_idle == 1,
        };
        let classes = &strategy.classes;
        let rules = Self { lsr: rule(&classes.lsr), ls: rule(&classes.ls), be: rule(&classes.be) };
        if rules.is_enabled() { rules } else { Self::default() }
    }

    fn is_enabled(&self) -> bool {
        self.lsr.enabled || self.ls.enabled || self.be.enabled
    }

    fn of_kube_qos(&self, class: KubeQos) -> (ClassRule, &'static str) {
        match class {
            KubeQos::Guaranteed if self.lsr.enabled => (self.lsr, "LSR"),
            KubeQos::Guaranteed | KubeQos::Burstable => (self.ls, "LS"),
            KubeQos::BestEffort => (self.be, "BE"),
        }
    }

    /// Pods without a class, and SYSTEM ones, go by their Kubernetes class.
    fn of_pod(&self, pod: &PodEntry) -> (ClassRule, &'static str) {
        match pod.qos {
            Some(QosClass::Lse | QosClass::Lsr) => (self.lsr, "LSR"),
            Some(QosClass::Ls) => (self.ls, "LS"),
            Some(QosClass::Be) => (self.be, "BE"),
            Some(QosClass::System) | None => self.of_kube_qos(pod.kube_qos),
        }
    }
}

impl CoreSched {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "CoreSched (nodeSLO)";

    /// Takes the policy. Returns whether the rule changed; the first one always does (hooks.md 5).
    pub fn update(&mut self, strategy: &CpuStrategy) -> bool {
        let rules = ClassRules::of(strategy);
        self.rule.replace(rules) != Some(rules)
    }

    /// Takes what the kernel can do. Without core scheduling nothing is wished.
    pub fn set_kernel(&mut self, kernel: &KernelFacts) {
        self.switch = kernel.core_sched;
    }

    /// Whether any class is enabled.
    pub fn is_enabled(&self) -> bool {
        self.rule.is_some_and(|rule| rule.is_enabled())
    }

    /// The group of a pod, hooks.md 10.1.
    pub fn group(&self, pod: &PodEntry) -> CoreSchedGroup {
        let rules = self.rule.unwrap_or_default();
        let (class, _) = rules.of_pod(pod);
        let label = |key| pod.pod.metadata.labels.get(key).map_or("", String::as_str);
        let (enabled, name) = match label(keys::CORE_SCHED_POLICY) {
            "exclusive" => (class.enabled, &*pod.uid),
            "none" => (false, label(keys::CORE_SCHED_GROUP_ID)),
            _ => (class.enabled, label(keys::CORE_SCHED_GROUP_ID)),
        };
        let expeller = if class.expeller { EXPELLER } else { "" };
        CoreSchedGroup { enabled, name: format!("{name}{expeller}") }
    }

    /// `cpu.idle` of the pods of a Kubernetes class, hooks.md 10.1; `None` before the first policy.
    pub fn cpu_idle(&self, class: KubeQos) -> Option<bool> {
        self.rule.map(|rules| rules.of_kube_qos(class).0.idle)
    }

    fn is_supported(&self) -> bool {
        self.switch != CoreSchedSwitch::Unsupported
    }

    /// One that is not wished falls back to what was there before: 0, unless somebody else made the pod idle.
    fn wish_idle(&self, pod: &PodEntry, wishes: &mut Wishes) {
        if self.cpu_idle(pod.kube_qos) != Some(true) {
            return;
        }
        let key = ReasonKey {
            owner: Owner::CoreSched,
            resource: Resource::CpuIdle,
            of_pod: true,
            figure: Some(pod.kube_qos as i64),
        };
        wishes.push(key, Value::Int(1), || Reason {
            text: format!("schedIdle is 1 for {:?} pods (hooks.md 10.1)", pod.kube_qos),
            inputs: BTreeMap::from([("kubeQOS", format!("{:?}", pod.kube_qos))]),
        });
    }

    fn wish_cookie(&self, rules: ClassRules, pod: &PodEntry, wishes: &mut Wishes) {
        let CoreSchedGroup { enabled, name } = self.group(pod);
        let (_, class) = rules.of_pod(pod);
        let value = if enabled { TaskValue::CookieOf(name.as_str().into()) } else { TaskValue::NoCookie };
        let attribute = TaskAttribute::CoreSchedCookie;
        let key = TaskReasonKey { owner: Owner::CoreSched, attribute, value, source: class };
        wishes.push_tasks(key, || {
            let text = if enabled {
                format!("{class} pods share a cookie by group, here {name:?} (hooks.md 10.1)")
            } else {
                format!("no cookie for the pod, or for {class} pods (hooks.md 10.1)")
            };
            Reason { text, inputs: BTreeMap::from([("class", class.to_owned()), ("group", name)]) }
        });
    }
}

impl Plugin for CoreSched {
    fn owner(&self) -> Option<Owner> {
        Some(Owner::CoreSched)
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        if let Some(kernel) = news.kernel {
            self.set_kernel(kernel);
        }
        if let Some(slo) = news.slo
            && self.update(&slo.qos.cpu)
        {
            notices.push(RuleNotice::Changed { rule: Self::NAME, now: self.to_string() });
        }
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced && snapshot.slo.synced
    }

    /// Wishes a cookie for the tasks of containers and sandbox, and `cpu.idle` for the pod. SYSTEM pods and finished
    /// ones are left out.
    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        let Some(rules) = self.rule.filter(|_| self.is_supported()) else { return };
        if pod.entry().qos == Some(QosClass::System) || !pod.is_active() {
            return;
        }
        match target {
            RuleTarget::Pod(pod) => self.wish_idle(pod, wishes),
            RuleTarget::Sandbox(_) | RuleTarget::Container(_) => {
                self.wish_cookie(rules, pod.entry(), wishes);
            }
        }
    }

    /// Claims the kernel's switches: GroupIdentity's off, core scheduling's on. The executor switches off first.
    fn claim_node(&self, snapshot: &Snapshot, claims: &mut Claims) {
        if !self.is_enabled() || !self.is_supported() {
            return;
        }
        let mut hold = |file, text: &str, why: &str| {
            let reason = Reason { text: format!("{why} (hooks.md 10.1)"), inputs: BTreeMap::new() };
            claims.host_files.push(Claim::hold(file, text.to_owned(), Owner::CoreSched, Arc::new(reason)));
        };
        if snapshot.kernel.group_identity.is_there() {
            let file = HostFile::sysctl("kernel/sched_group_identity_enabled");
            hold(file, "0", "core scheduling and group identity exclude each other");
        }
        let on = "the policy is coreSched and a class is enabled";
        match self.switch {
            CoreSchedSwitch::Unsupported | CoreSchedSwitch::None => {}
            CoreSchedSwitch::Sysctl => hold(HostFile::sysctl("kernel/sched_core"), "1", on),
            CoreSchedSwitch::Feature => {
                hold(HostFile::sys("kernel/debug/sched_features"), "CORE_SCHED", on);
            }
        }
    }
}

impl fmt::Display for CoreSched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_enabled() {
            return f.write_str("off");
        }
        let ClassRules { lsr, ls, be } = self.rule.unwrap_or_default();
        let mut between = "";
        for (class, rule) in [("LSR", lsr), ("LS", ls), ("BE", be)] {
            if rule.enabled {
                let expeller = if rule.expeller { " expelling others" } else { "" };
                let idle = if rule.idle { " idle" } else { "" };
                write!(f, "{between}{class}{expeller}{idle}")?;
                between = ", ";
            }
        }
        if !self.is_supported() {
            f.write_str("; this kernel has no core scheduling")?;
        }
        Ok(())
    }
}
