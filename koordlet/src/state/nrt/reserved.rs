//! The Node's annotations that are published again, collection.md 10.3: its reservation with the CPUs that follow from
//! it, and the CPUs of the SYSTEM class.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::api::annotations::{self, AnnotationError, Annotations};
use crate::api::keys;
use crate::api::quantity::Quantity;
use crate::api::topology::SystemQosResource;
use crate::cpuset::CpuSet;
use crate::state::cpu_sources::{TopologyNotice, exclusive_cpus, problem};
use crate::state::reserve::reservation_cpus;
use crate::state::topology::CpuInfo;

/// `reservation`, normalised.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reservation {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    resources: BTreeMap<String, String>,
    #[serde(rename = "reservedCPUs", skip_serializing_if = "CpuSet::is_empty")]
    pub(super) reserved_cpus: CpuSet,
    #[serde(skip_serializing_if = "String::is_empty")]
    apply_policy: String,
}

impl Reservation {
    /// From the Node's annotations. One that cannot be read is empty; CPUs that cannot be named are left out.
    pub(super) fn of(node: &Annotations, cpus: &[CpuInfo], notices: &mut Vec<TopologyNotice>) -> Self {
        let mut say = |problem| notices.push(notice(keys::NODE_RESERVATION, problem));
        let reservation = match annotations::node_reservation(node) {
            Ok(reservation) => reservation.unwrap_or_default(),
            Err(error) => {
                say(problem(&error));
                return Self::default();
            }
        };
        let reserved_cpus = reservation_cpus(&reservation, cpus).unwrap_or_else(|error| {
            say(error.to_string());
            CpuSet::new()
        });
        Self { resources: amounts(node), reserved_cpus, apply_policy: reservation.apply_policy }
    }
}

/// The amounts as Kubernetes writes them: binary where they were given so. The typed list has lost that.
fn amounts(node: &Annotations) -> BTreeMap<String, String> {
    let text = node.get(keys::NODE_RESERVATION).map_or("", String::as_str);
    let written: Value = serde_json::from_str(text).unwrap_or_default();
    let written = written.get("resources").and_then(Value::as_object);
    let amount = |(name, value): (&String, &Value)| {
        let quantity: Quantity = serde_json::from_value(value.clone()).ok()?;
        let is_binary = value.as_str().is_some_and(|text| text.ends_with('i'));
        let text = if is_binary { quantity.binary_text() } else { quantity.decimal_text() };
        Some((name.clone(), text))
    };
    written.into_iter().flatten().filter_map(amount).collect()
}

/// `system-qos-resource`.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SystemQos {
    #[serde(skip_serializing_if = "String::is_empty")]
    cpuset: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpuset_exclusive: Option<bool>,
    #[serde(skip)]
    pub(super) exclusive: CpuSet,
}

impl SystemQos {
    /// From the Node's annotations; `None`, published as `null`, for a Node without any. A CPU list that is none takes
    /// no CPU from others.
    pub(super) fn of(
        node: &Annotations,
        notices: &mut Vec<TopologyNotice>,
    ) -> Result<Option<Self>, AnnotationError> {
        if node.is_empty() {
            return Ok(None);
        }
        let system = annotations::system_qos_resource(node)?.unwrap_or_default();
        let exclusive = exclusive_cpus(&system).unwrap_or_else(|problem| {
            notices.push(notice(keys::SYSTEM_QOS_RESOURCE, problem));
            CpuSet::new()
        });
        let SystemQosResource { cpuset, cpuset_exclusive } = system;
        Ok(Some(Self { cpuset, cpuset_exclusive, exclusive }))
    }
}

fn notice(key: &'static str, problem: String) -> TopologyNotice {
    TopologyNotice { object: "node".to_owned(), key, problem }
}
