//! NodeMetric (`slo.koordinator.sh/v1alpha1`, cluster scoped, named for its node), collection.md 9.1: the policy that
//! the control plane writes, and the status that the agent reports. Field names and what is left out when empty are
//! the API's.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::duration::GoDuration;
use super::pod::{ObjectMeta, ResourceList};
use super::{keys, null_default, rfc3339};

/// The object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeMetric {
    /// Its name is the node's.
    #[serde(deserialize_with = "null_default")]
    pub metadata: ObjectMeta,
    /// What to report.
    #[serde(deserialize_with = "null_default")]
    pub spec: NodeMetricSpec,
    /// What was reported last.
    #[serde(deserialize_with = "null_default")]
    pub status: NodeMetricStatus,
}

/// What to report, as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeMetricSpec {
    /// How to collect.
    #[serde(rename = "metricCollectPolicy", skip_serializing_if = "Option::is_none")]
    pub collect_policy: Option<MetricCollectPolicy>,
}

/// How to collect, as written: nothing checked, no defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricCollectPolicy {
    /// Seconds that a mean is made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_duration_seconds: Option<i64>,
    /// Seconds between two reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report_interval_seconds: Option<i64>,
    /// Windows of the percentiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_aggregate_policy: Option<NodeAggregatePolicy>,
    /// Which memory counts: `usageWithoutPageCache`, `usageWithHotPageCache`, `usageWithPageCache`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_memory_collect_policy: Option<String>,
}

/// Windows of the percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAggregatePolicy {
    /// Durations in Go's syntax, as text: one that nobody can read does not spoil the others.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub durations: Vec<String>,
}

/// What is reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeMetricStatus {
    /// When it was made, whole seconds.
    #[serde(with = "rfc3339", skip_serializing_if = "Option::is_none")]
    pub update_time: Option<Timestamp>,
    /// The node, the system and NUMA nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_metric: Option<NodeMetricInfo>,
    /// Pods, by namespace and name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub pods_metric: Vec<PodMetricInfo>,
    /// Host applications, by name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub host_application_metric: Vec<HostApplicationMetricInfo>,
    /// What of the requests of prod pods is predicted to stay unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prod_reclaimable_metric: Option<PredictedMetric>,
    /// Predicted peak of prod pods and the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prod_peak_metric: Option<PredictedMetric>,
}

/// Use of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeMetricInfo {
    /// Mean use of the node.
    #[serde(deserialize_with = "null_default")]
    pub node_usage: ResourceMap,
    /// Mean and percentiles of the node by window.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub aggregated_node_usages: Vec<AggregatedUsage>,
    /// Mean use of the system.
    #[serde(deserialize_with = "null_default")]
    pub system_usage: ResourceMap,
    /// Mean and percentiles of the system by window.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub aggregated_system_usages: Vec<AggregatedUsage>,
    /// NUMA nodes, by id.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub numa_usages: Vec<NumaUsageInfo>,
}

/// Figures of one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AggregatedUsage {
    /// By `avg`, `p50`, `p90`, `p95`, `p99`.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub usage: BTreeMap<String, ResourceMap>,
    /// The window.
    pub duration: GoDuration,
}

/// Mean use of a NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NumaUsageInfo {
    /// Id.
    #[serde(rename = "numaNodeID")]
    pub numa_node_id: u32,
    /// All of it.
    #[serde(deserialize_with = "null_default")]
    pub node_usage: ResourceMap,
    /// The system's.
    #[serde(deserialize_with = "null_default")]
    pub system_usage: ResourceMap,
}

/// Mean use of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodMetricInfo {
    /// Name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Namespace.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its use.
    #[serde(deserialize_with = "null_default")]
    pub pod_usage: ResourceMap,
    /// Priority class, with default.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub priority: String,
    /// QoS class, with default.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub qos: String,
    /// For third parties; the agent writes none.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, Value>,
}

/// Mean use of a host application.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostApplicationMetricInfo {
    /// Name.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its use.
    #[serde(deserialize_with = "null_default")]
    pub usage: ResourceMap,
    /// Priority class as in the NodeSLO.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub priority: String,
    /// QoS class as in the NodeSLO.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "String::is_empty")]
    pub qos: String,
}

/// A predicted amount.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PredictedMetric {
    /// The amount; empty if it could not be predicted.
    #[serde(deserialize_with = "null_default")]
    pub resource: ResourceMap,
}

/// Amounts by resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceMap {
    /// `cpu` and `memory`.
    #[serde(
        deserialize_with = "null_default",
        serialize_with = "canonical",
        skip_serializing_if = "ResourceList::is_empty"
    )]
    pub resources: ResourceList,
    /// Devices as others wrote them; the agent reads none and writes none.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Value>,
}

/// Each quantity in the spelling that goes with its resource, collection.md 9.4.
fn canonical<S: Serializer>(resources: &ResourceList, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(resources.iter().map(|(name, quantity)| {
        let text = if name == keys::MEMORY { quantity.binary_text() } else { quantity.decimal_text() };
        (name, text)
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::api::quantity::Quantity;

    fn map(milli: i64, bytes: i64) -> ResourceMap {
        let resources = [
            ("cpu".to_owned(), Quantity::from_milli(milli)),
            ("memory".to_owned(), Quantity::from_integer(bytes)),
        ];
        ResourceMap { resources: resources.into(), devices: Vec::new() }
    }

    #[test]
    fn what_is_empty_is_left_out_save_what_its_parent_always_holds() {
        assert_eq!(serde_json::to_value(NodeMetricStatus::default()).unwrap(), json!({}));
        let status = NodeMetricStatus {
            node_metric: Some(NodeMetricInfo {
                node_usage: map(1760, 8_912_896_000),
                aggregated_node_usages: vec![AggregatedUsage {
                    usage: [("avg".to_owned(), ResourceMap::default())].into(),
                    duration: GoDuration(Duration::from_mins(5)),
                }],
                numa_usages: vec![NumaUsageInfo::default()],
                ..NodeMetricInfo::default()
            }),
            pods_metric: vec![PodMetricInfo { name: "p".into(), ..PodMetricInfo::default() }],
            prod_reclaimable_metric: Some(PredictedMetric::default()),
            update_time: rfc3339::parse("2024-01-01T00:00:00.5Z"),
            ..NodeMetricStatus::default()
        };
        let written = json!({
            "updateTime": "2024-01-01T00:00:00Z",
            "nodeMetric": {
                "nodeUsage": {"resources": {"cpu": "1760m", "memory": "8500Mi"}},
                "aggregatedNodeUsages": [{"usage": {"avg": {}}, "duration": "5m0s"}],
                "systemUsage": {},
                "numaUsages": [{"numaNodeID": 0, "nodeUsage": {}, "systemUsage": {}}],
            },
            "podsMetric": [{"name": "p", "podUsage": {}}],
            "prodReclaimableMetric": {"resource": {}},
        });
        assert_eq!(serde_json::to_value(&status).unwrap(), written);
        let read: NodeMetricStatus = serde_json::from_value(written).unwrap();
        assert_eq!(read.node_metric, status.node_metric);
    }

    #[test]
    fn nulls_and_unknown_fields_are_read() {
        let object: NodeMetric = serde_json::from_value(json!({
            "metadata": {"name": "n"}, "spec": {"metricCollectPolicy": {"nodeAggregatePolicy": {"durations": null}, "new": 1}},
            "status": {"podsMetric": null, "nodeMetric": null, "updateTime": null},
        }))
        .unwrap();
        assert_eq!(object.status, NodeMetricStatus::default());
        assert!(object.spec.collect_policy.is_some());
    }
}
