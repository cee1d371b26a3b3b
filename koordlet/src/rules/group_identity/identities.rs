//! Which identity each class has: the table of hooks.md 8.1 (and the bvt table of 19).

use std::fmt;

use crate::api::annotations::GROUP_IDENTITIES;
use crate::api::qos::{KubeQos, QosClass};
use crate::state::slo::qos::cpu::{CpuQosPolicy, CpuStrategy};

/// The identities of the policy, each `None` where its class is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identities {
    lsr: Option<i64>,
    ls: Option<i64>,
    be: Option<i64>,
}

/// A class whose identity no kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cpuQOS of {} has groupIdentity {value}, not {} to {}", class.label(), GROUP_IDENTITIES.start(),
    GROUP_IDENTITIES.end()
)]
pub struct IdentityError {
    /// The class.
    pub class: QosClass,
    /// Its value.
    pub value: i64,
}

/// Whose identity is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Pods with this label; SYSTEM counts as none.
    Labelled(QosClass),
    /// Pods without a label, by the Kubernetes class.
    Unlabelled(KubeQos),
    /// A class's directory, and what is in it of pods that nobody knows.
    Directory(KubeQos),
    /// A host application with this class.
    HostApp(Option<QosClass>),
}

impl Subject {
    /// What a pod is.
    pub fn pod(label: Option<QosClass>, kube_qos: KubeQos) -> Self {
        match label {
            None | Some(QosClass::System) => Self::Unlabelled(kube_qos),
            Some(class) => Self::Labelled(class),
        }
    }

    /// All that there are.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let classes = [QosClass::Lse, QosClass::Lsr, QosClass::Ls, QosClass::Be, QosClass::System];
        let kube = [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort];
        let labelled =
            classes.into_iter().flat_map(|class| [Self::Labelled(class), Self::HostApp(Some(class))]);
        let unlabelled = kube.into_iter().flat_map(|class| [Self::Unlabelled(class), Self::Directory(class)]);
        labelled.chain(unlabelled).chain([Self::HostApp(None)])
    }
}

impl Identities {
    /// What the policy says. Group identity is one of two mechanisms; under the other all classes are off.
    ///
    /// # Errors
    /// The first class that is on and has an identity outside -1 to 2.
    pub fn of_policy(policy: &CpuStrategy) -> Result<Self, IdentityError> {
        let identity = |class| {
            let qos = policy.classes.of(class);
            if policy.policy != CpuQosPolicy::GroupIdentity || !qos.enable {
                return Ok(None);
            }
            let value = qos.group_identity;
            if GROUP_IDENTITIES.contains(&value) {
                Ok(Some(value))
            } else {
                Err(IdentityError { class, value })
            }
        };
        Ok(Self { lsr: identity(QosClass::Lsr)?, ls: identity(QosClass::Ls)?, be: identity(QosClass::Be)? })
    }

    /// Whether any class is on.
    pub fn is_enabled(self) -> bool {
        self.lsr.or(self.ls).or(self.be).is_some()
    }

    /// The identity of `subject`, 0 where nothing is said of it.
    pub fn of(self, subject: Subject) -> i64 {
        let Self { lsr, ls, be } = self;
        let identity = match subject {
            Subject::Labelled(class) | Subject::HostApp(Some(class)) => match class {
                QosClass::Lse | QosClass::Lsr => lsr,
                QosClass::Ls => ls,
                QosClass::Be => be,
                QosClass::System => None,
            },
            Subject::Unlabelled(KubeQos::Guaranteed) => lsr.or(ls),
            Subject::Unlabelled(KubeQos::Burstable) | Subject::Directory(KubeQos::Burstable) => ls,
            Subject::Unlabelled(KubeQos::BestEffort) | Subject::Directory(KubeQos::BestEffort) => be,
            Subject::Directory(KubeQos::Guaranteed) | Subject::HostApp(None) => None,
        };
        identity.unwrap_or(0)
    }
}

impl fmt::Display for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_enabled() {
            return f.write_str("off");
        }
        let text = |value: Option<i64>| value.map_or_else(|| "off".to_owned(), |value| value.to_string());
        write!(f, "LSR {}, LS {}, BE {}", text(self.lsr), text(self.ls), text(self.be))
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Labelled(class) => write!(f, "{} pods", class.label()),
            Self::Unlabelled(class) => write!(f, "{class:?} pods without a class of their own"),
            Self::Directory(class) => write!(f, "the {class:?} directory and unknown pods in it"),
            Self::HostApp(Some(class)) => write!(f, "{} host applications", class.label()),
            Self::HostApp(None) => f.write_str("host applications without a class"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::slo::qos::PerClass;
    use crate::state::slo::qos::cpu::CpuQos;

    /// A policy of group identity with what LSR, LS and BE have.
    fn policy(lsr: Option<i64>, ls: Option<i64>, be: Option<i64>) -> CpuStrategy {
        let qos = |identity: Option<i64>| CpuQos {
            enable: identity.is_some(),
            group_identity: identity.unwrap_or(0),
            ..CpuQos::default()
        };
        CpuStrategy {
            policy: CpuQosPolicy::GroupIdentity,
            classes: PerClass { lsr: qos(lsr), ls: qos(ls), be: qos(be), system: CpuQos::default() },
        }
    }

    /// The rows of the bvt table of hooks.md 19.
    #[test]
    fn identities_by_rule() {
        use KubeQos::{BestEffort, Burstable, Guaranteed};
        use QosClass::{Be, Ls, Lse, Lsr, System};
        let off = CpuStrategy { policy: CpuQosPolicy::CoreSched, ..policy(Some(2), Some(2), Some(-1)) };
        for (policy, dirs, labels, without, apps) in [
            (policy(Some(2), Some(2), Some(-1)), [0, 2, -1], [2, 2, -1], [2, 2, -1], [2, 2, -1, 0]),
            (policy(None, Some(2), Some(-1)), [0, 2, -1], [0, 2, -1], [2, 2, -1], [0, 2, -1, 0]),
            (policy(None, None, Some(-1)), [0, 0, -1], [0, 0, -1], [0, 0, -1], [0, 0, -1, 0]),
            (policy(Some(1), None, None), [0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0, 0]),
            (off, [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0, 0]),
            (policy(None, None, None), [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0, 0]),
        ] {
            let rule = Identities::of_policy(&policy).unwrap();
            let kube = [Guaranteed, Burstable, BestEffort];
            assert_eq!(kube.map(|class| rule.of(Subject::Directory(class))), dirs, "{rule}");
            assert_eq!([Lsr, Ls, Be].map(|c| rule.of(Subject::pod(Some(c), Burstable))), labels, "{rule}");
            assert_eq!(rule.of(Subject::pod(Some(Lse), Burstable)), labels[0], "{rule}");
            for label in [None, Some(System)] {
                assert_eq!(
                    kube.map(|class| rule.of(Subject::pod(label, class))),
                    without,
                    "{rule} {label:?}"
                );
            }
            let classes = [Some(Lsr), Some(Ls), Some(Be), None];
            assert_eq!(classes.map(|class| rule.of(Subject::HostApp(class))), apps, "{rule}");
            assert_eq!(rule.of(Subject::HostApp(Some(System))), 0);
        }
    }

    #[test]
    fn an_identity_that_no_kernel_knows_is_refused_where_its_class_is_on() {
        let refused = Identities::of_policy(&policy(None, Some(3), None)).unwrap_err();
        assert_eq!(refused.to_string(), "cpuQOS of LS has groupIdentity 3, not -1 to 2");
        let mut off = policy(None, Some(-2), None);
        off.classes.ls.enable = false;
        assert_eq!(Identities::of_policy(&off), Ok(Identities::default()));
    }
}
