//! The policy of a node that has no NodeSLO, from the ConfigMap `slo-controller-config`, qos.md 9: what the manager
//! would have written into the NodeSLO. Only in memory; nothing of it is written anywhere.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::CpuSuppressPolicy;
use super::burst::CpuBurst;
use super::overlay::overlay;
use super::selector::{Labels, Selector};
use super::system::SystemStrategy;
use super::thresholds::EvictThresholds;
use crate::api::annotations::Annotations;
use crate::api::keys;
use crate::api::node_slo::NodeSloSpec;
use crate::api::quantity::Quantity;

const THRESHOLDS: &str = "resource-threshold-config";
const QOS: &str = "resource-qos-config";
const BURST: &str = "cpu-burst-config";
const SYSTEM: &str = "system-config";
const HOST_APPLICATIONS: &str = "host-application-config";

/// A part of the ConfigMap, or an annotation of the Node, that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapNotice {
    /// Key in the ConfigMap, or of the annotation.
    pub key: &'static str,
    /// What is wrong, and what applies instead.
    pub problem: String,
}

impl fmt::Display for ConfigMapNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

/// The ConfigMap as last understood: of a key that cannot be read its last good value.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigMapPolicy {
    thresholds: Strategies,
    qos: Strategies,
    burst: Strategies,
    system: Strategies,
    host_applications: HostApplications,
}

/// A strategy of the cluster, and those of some nodes.
#[derive(Clone, Debug, PartialEq)]
struct Strategies {
    /// The cluster's over the defaults.
    cluster: Value,
    /// In the order in which they are tried.
    nodes: Vec<(Selector, Map<String, Value>)>,
}

/// The applications of the cluster, and of some nodes.
#[derive(Clone, Debug, Default, PartialEq)]
struct HostApplications {
    cluster: Option<Value>,
    nodes: Vec<(Selector, Option<Value>)>,
}

impl Default for ConfigMapPolicy {
    fn default() -> Self {
        let default = |key| Strategies { cluster: defaults(key), nodes: Vec::new() };
        Self {
            thresholds: default(THRESHOLDS),
            qos: default(QOS),
            burst: default(BURST),
            system: default(SYSTEM),
            host_applications: HostApplications::default(),
        }
    }
}

impl ConfigMapPolicy {
    /// Takes the ConfigMap's data. A key that is not there has its default; one that cannot be read keeps what it said
    /// last.
    pub fn take(&mut self, data: &BTreeMap<String, String>) -> Vec<ConfigMapNotice> {
        let mut notices = Vec::new();
        let mut default = Self::default();
        let Self { thresholds, qos, burst, system, host_applications } = self;
        for (key, known, default) in [
            (THRESHOLDS, thresholds, &mut default.thresholds),
            (QOS, qos, &mut default.qos),
            (BURST, burst, &mut default.burst),
            (SYSTEM, system, &mut default.system),
        ] {
            let read = |document: &Document<'_>, notices: &mut Notices| Strategies::read(document, notices);
            renew(known, default, key, data, &mut notices, read);
        }
        let default = &mut default.host_applications;
        renew(host_applications, default, HOST_APPLICATIONS, data, &mut notices, HostApplications::read);
        notices
    }

    /// The spec of a node with these labels and annotations.
    pub fn render(&self, labels: &Labels, annotations: &Annotations) -> (NodeSloSpec, Vec<ConfigMapNotice>) {
        let mut notices = Vec::new();
        let system = with_bandwidth(self.system.of(labels), annotations, &mut notices);
        let spec = NodeSloSpec {
            resource_used_threshold_with_be: Some(self.thresholds.of(labels)),
            resource_qos_strategy: Some(self.qos.of(labels)),
            cpu_burst_strategy: Some(self.burst.of(labels)),
            system_strategy: system,
            host_applications: self.host_applications.of(labels),
            extensions: None,
        };
        (spec, notices)
    }
}

type Notices = Vec<ConfigMapNotice>;

/// Replaces what is known of a key.
fn renew<T>(
    known: &mut T,
    default: &mut T,
    key: &'static str,
    data: &BTreeMap<String, String>,
    notices: &mut Notices,
    read: impl FnOnce(&Document<'_>, &mut Notices) -> Result<T, String>,
) {
    let Some(text) = data.get(key) else {
        std::mem::swap(known, default);
        return;
    };
    let parsed: Result<Map<String, Value>, String> =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON object: {error}"));
    let read = parsed.and_then(|members| read(&Document { key, members: &members }, notices));
    match read {
        Ok(value) => *known = value,
        Err(what) => {
            let problem = format!("{what}; what it said last stays in force");
            notices.push(ConfigMapNotice { key, problem });
        }
    }
}

/// Entries of a list that are for some nodes.
type NodeEntries<'a> = Vec<(Selector, &'a Map<String, Value>)>;

/// The JSON document of a key.
struct Document<'a> {
    key: &'static str,
    members: &'a Map<String, Value>,
}

impl<'a> Document<'a> {
    fn member(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// The entries of list `name` that are for some nodes. One without a selector is for none (qos.md 9), and neither is
    /// one with a selector that cannot be read.
    fn node_entries(&self, name: &str, notices: &mut Notices) -> Result<NodeEntries<'a>, String> {
        let entries = match self.member(name) {
            None => return Ok(Vec::new()),
            Some(list) => list.as_array().ok_or_else(|| format!("{name} is not a list"))?,
        };
        let mut usable = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let entry = entry.as_object().ok_or_else(|| format!("{name}[{index}] is not an object"))?;
            match entry.get("nodeSelector").filter(|selector| !selector.is_null()).map(Selector::parse) {
                None => {}
                Some(Ok(selector)) => usable.push((selector, entry)),
                Some(Err(what)) => {
                    let problem = format!("{name}[{index}].nodeSelector: {what}; the entry is for no node");
                    notices.push(ConfigMapNotice { key: self.key, problem });
                }
            }
        }
        Ok(usable)
    }
}

impl Strategies {
    fn read(document: &Document<'_>, notices: &mut Notices) -> Result<Self, String> {
        let mut cluster = defaults(document.key);
        if let Some(strategy) = document.member("clusterStrategy") {
            if !strategy.is_object() {
                return Err("clusterStrategy is not an object".to_owned());
            }
            overlay(&mut cluster, strategy);
        }
        let inline = |(selector, entry): (Selector, &Map<String, Value>)| {
            let mut fields = entry.clone();
            fields.retain(|name, _| name != "name" && name != "nodeSelector");
            (selector, fields)
        };
        let nodes = document.node_entries("nodeStrategies", notices)?.into_iter().map(inline).collect();
        Ok(Self { cluster, nodes })
    }

    /// The first strategy that is for the node, over the cluster's.
    fn of(&self, labels: &Labels) -> Value {
        let mut strategy = self.cluster.clone();
        if let Some((_, fields)) = self.nodes.iter().find(|(selector, _)| selector.matches(labels)) {
            overlay(&mut strategy, &Value::Object(fields.clone()));
        }
        strategy
    }
}

impl HostApplications {
    fn read(document: &Document<'_>, notices: &mut Notices) -> Result<Self, String> {
        let list = |value: Option<&Value>| match value.filter(|value| !value.is_null()) {
            Some(list) if !list.is_array() => Err("applications is not a list".to_owned()),
            list => Ok(list.cloned()),
        };
        let mut nodes = Vec::new();
        for (selector, entry) in document.node_entries("nodeConfigs", notices)? {
            nodes.push((selector, list(entry.get("applications"))?));
        }
        Ok(Self { cluster: list(document.member("applications"))?, nodes })
    }

    /// The first list that is for the node, in place of the cluster's.
    fn of(&self, labels: &Labels) -> Option<Value> {
        let node = self.nodes.iter().find(|(selector, _)| selector.matches(labels));
        node.map_or_else(|| self.cluster.clone(), |(_, list)| list.clone())
    }
}

/// What a key's strategies are laid over. QoS of the classes has no defaults here: they depend on what is switched on.
fn defaults(key: &str) -> Value {
    match key {
        THRESHOLDS => {
            let mut thresholds = json_of(&CpuSuppressPolicy::default());
            overlay(&mut thresholds, &json_of(&EvictThresholds::default()));
            thresholds
        }
        BURST => json_of(&CpuBurst::default()),
        SYSTEM => json_of(&SystemStrategy::default()),
        _ => json!({}),
    }
}

fn json_of(part: &impl Serialize) -> Value {
    serde_json::to_value(part).unwrap_or_default()
}

/// The Node's annotation wins over the policy's bandwidth; one that is no quantity leaves the node without the whole
/// section, as the manager does.
fn with_bandwidth(mut system: Value, annotations: &Annotations, notices: &mut Notices) -> Option<Value> {
    let Some(text) = annotations.get(keys::NETWORK_BANDWIDTH) else { return Some(system) };
    match text.parse::<Quantity>() {
        Ok(bandwidth) => {
            overlay(&mut system, &json!({"totalNetworkBandwidth": bandwidth.decimal_text()}));
            Some(system)
        }
        Err(error) => {
            let problem = format!("{error}; no system strategy applies");
            notices.push(ConfigMapNotice { key: keys::NETWORK_BANDWIDTH, problem });
            None
        }
    }
}

#[cfg(test)]
mod tests;
