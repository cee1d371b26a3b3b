//! `networkQOS`, qos.md 1.2: bandwidth that a class is promised and may use at most. A member that is off keeps its
//! fields: consumers look at `enable`.

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{PerClass, Section};
use crate::api::quantity::Quantity;
use crate::state::slo::fields::{Faults, Fields};
use crate::state::slo::system::decimal;
use crate::units::Percent;

/// Who brings network QoS about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum NetworkQosPolicy {
    /// Traffic control of the kernel.
    #[default]
    #[serde(rename = "tc")]
    Tc,
    /// The network plugin Terway, which reads our files.
    #[serde(rename = "terway-qos")]
    TerwayQos,
}

/// `networkQOS` of all classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkStrategy {
    /// `policies.netQOSPolicy`; default `tc`.
    pub policy: NetworkQosPolicy,
    /// Of each class.
    pub classes: PerClass<NetworkQos>,
}

/// An amount of bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bandwidth {
    /// Of the node's total, 0 to 100.
    Percent(Percent),
    /// Bits a second.
    Amount(Quantity),
}

impl Default for Bandwidth {
    fn default() -> Self {
        Self::Percent(Percent(0))
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Percent(Percent(percent)) => serializer.serialize_i64(*percent),
            Self::Amount(amount) => decimal(amount, serializer),
        }
    }
}

/// `networkQOS` of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkQos {
    /// Switch; default false.
    pub enable: bool,
    /// Promised to what comes in.
    pub ingress_request: Bandwidth,
    /// Most of what comes in.
    pub ingress_limit: Bandwidth,
    /// Promised to what goes out.
    pub egress_request: Bandwidth,
    /// Most of what goes out.
    pub egress_limit: Bandwidth,
}

impl NetworkStrategy {
    pub(super) fn read(section: Section<'_>, faults: &mut Faults) -> Self {
        let policies = [("tc", NetworkQosPolicy::Tc), ("terway-qos", NetworkQosPolicy::TerwayQos)];
        Self {
            policy: section.policies(faults).word("netQOSPolicy", &policies).unwrap_or_default(),
            classes: section.read_all("networkQOS", faults, |_, fields| NetworkQos::read(fields)),
        }
    }
}

impl NetworkQos {
    fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            enable: fields.boolean("enable").unwrap_or(false),
            ingress_request: bandwidth(fields, "ingressRequest"),
            ingress_limit: bandwidth(fields, "ingressLimit"),
            egress_request: bandwidth(fields, "egressRequest"),
            egress_limit: bandwidth(fields, "egressLimit"),
        }
    }
}

fn bandwidth(fields: &mut Fields<'_, '_>, name: &'static str) -> Bandwidth {
    let problem = "is neither a whole number from 0 to 100 nor a quantity";
    let read = fields.get(name, problem, |value| match value {
        Value::String(text) => {
            let amount: Option<Quantity> = text.parse().ok();
            amount.filter(|amount| *amount >= Quantity::default()).map(Bandwidth::Amount)
        }
        _ => {
            value.as_i64().filter(|percent| (0..=100).contains(percent)).map(Percent).map(Bandwidth::Percent)
        }
    });
    read.unwrap_or_default()
}
