//! `cpuQOS`, qos.md 1.2: group identity, `cpu.idle` and core expelling, or core scheduling.

use serde::Serialize;

use super::{PerClass, Section, is_neutralised};
use crate::api::qos::QosClass;
use crate::state::slo::fields::{Faults, Fields};

/// Which mechanism `cpuQOS` drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CpuQosPolicy {
    /// `cpu.bvt_warp_ns`.
    #[default]
    GroupIdentity,
    /// Core scheduling cookies and `cpu.idle`.
    CoreSched,
}

/// `cpuQOS` of all classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuStrategy {
    /// `policies.cpuPolicy`; default group identity.
    pub policy: CpuQosPolicy,
    /// Of each class.
    pub classes: PerClass<CpuQos>,
}

/// `cpuQOS` of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuQos {
    /// Switch; default false.
    pub enable: bool,
    /// Value for `cpu.bvt_warp_ns`. Any number: checked at use.
    pub group_identity: i64,
    /// Value for `cpu.idle`. Any number: checked at use.
    pub sched_idle: i64,
    /// Whether other classes are expelled from a core that it runs on.
    pub core_expeller: bool,
}

impl CpuStrategy {
    pub(super) fn read(section: Section<'_>, faults: &mut Faults) -> Self {
        let policies =
            [("groupIdentity", CpuQosPolicy::GroupIdentity), ("coreSched", CpuQosPolicy::CoreSched)];
        Self {
            policy: section.policies(faults).word("cpuPolicy", &policies).unwrap_or_default(),
            classes: section.read_all("cpuQOS", faults, CpuQos::read),
        }
    }
}

impl CpuQos {
    fn default_of(class: QosClass) -> Self {
        let (group_identity, core_expeller) = match class {
            QosClass::Lse | QosClass::Lsr | QosClass::Ls => (2, true),
            QosClass::Be => (-1, false),
            QosClass::System => (0, false),
        };
        Self { enable: false, group_identity, sched_idle: 0, core_expeller }
    }

    fn read(class: QosClass, fields: &mut Fields<'_, '_>) -> Self {
        let default = Self::default_of(class);
        let read = Self {
            enable: fields.boolean("enable").unwrap_or(default.enable),
            group_identity: fields.any_whole("groupIdentity").unwrap_or(default.group_identity),
            sched_idle: fields.any_whole("schedIdle").unwrap_or(default.sched_idle),
            core_expeller: fields.boolean("coreExpeller").unwrap_or(default.core_expeller),
        };
        if read.enable || !is_neutralised(class) { read } else { Self::default() }
    }
}
