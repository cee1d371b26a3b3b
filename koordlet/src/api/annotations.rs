//! Annotations with a JSON value, typed. An error names the key; an absent or empty annotation is `None`.

use std::collections::BTreeMap;
use std::num::ParseIntError;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::keys;
use super::null_default;
use super::pod::{Pod, ResourceList, ResourceRequirements};
use super::quantity::Quantity;
use super::topology::{CpuManagerPolicy, NodeReservation, SharedPool, SystemQosResource};
use crate::cpuset::{CpuSet, CpuSetError};

/// Annotations of any object.
pub type Annotations = BTreeMap<String, String>;

/// An annotation whose value cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("annotation {key} cannot be read")]
pub struct AnnotationError {
    /// The annotation.
    pub key: &'static str,
    /// The cause.
    #[source]
    pub source: AnnotationCause,
}

/// What is wrong with an annotation.
#[derive(Debug, thiserror::Error)]
pub enum AnnotationCause {
    /// It is not the JSON that is expected.
    #[error("not the expected JSON")]
    Json(#[source] serde_json::Error),
    /// A number in it is none of those that are allowed.
    #[error("{field} is {value}, not {least} to {most}")]
    Range {
        /// Name of the member.
        field: &'static str,
        /// Its value.
        value: i64,
        /// Least allowed.
        least: i64,
        /// Largest allowed.
        most: i64,
    },
    /// A CPU list in it is malformed.
    #[error("a CPU list is malformed")]
    Cpus(#[source] CpuSetError),
    /// It is no whole number.
    #[error("{text:?} is no whole number")]
    Whole {
        /// What it is.
        text: String,
        /// The cause.
        #[source]
        source: ParseIntError,
    },
}

/// `scheduling.koordinator.sh/resource-status`: what the scheduler allocated to a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceStatus {
    /// CPU list; empty without one.
    #[serde(deserialize_with = "null_default")]
    pub cpuset: String,
    /// Resources taken from each NUMA node.
    #[serde(deserialize_with = "null_default")]
    pub numa_node_resources: Vec<NumaNodeResource>,
}

impl ResourceStatus {
    /// The CPU list, empty without one.
    pub fn cpus(&self) -> Result<CpuSet, AnnotationError> {
        self.cpuset.parse().map_err(|error| AnnotationError {
            key: keys::RESOURCE_STATUS,
            source: AnnotationCause::Cpus(error),
        })
    }
}

/// Resources taken from one NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NumaNodeResource {
    /// NUMA node id.
    #[serde(deserialize_with = "null_default")]
    pub node: u32,
    /// Amounts by resource name.
    #[serde(deserialize_with = "null_default")]
    pub resources: ResourceList,
}

/// `node.koordinator.sh/extended-resource-spec`: batch resources of each container, from the webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceSpec {
    /// Requests and limits by container name.
    #[serde(deserialize_with = "null_default")]
    pub containers: BTreeMap<String, ResourceRequirements>,
}

/// `koordinator.sh/cpuQOS`: CPU QoS of one pod, hooks.md 8.1. Members that nothing uses are there for their types,
/// which count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCpuQos {
    /// Whether the pod has an identity at all; absent means no.
    pub enable: Option<bool>,
    /// Identity in place of its class's, -1 to 2.
    pub group_identity: Option<i64>,
    /// Not used for single pods.
    pub sched_idle: Option<i64>,
    /// Not used for single pods.
    pub core_expeller: Option<bool>,
}

/// Values that `cpu.bvt_warp_ns` takes.
pub const GROUP_IDENTITIES: std::ops::RangeInclusive<i64> = -1..=2;

/// A pod's CPU QoS; an identity that the kernel does not know is an error.
pub fn pod_cpu_qos(pod: &Pod) -> Result<Option<PodCpuQos>, AnnotationError> {
    let qos: Option<PodCpuQos> = parse(&pod.metadata.annotations, keys::CPU_QOS)?;
    let identity = qos.as_ref().and_then(|qos| qos.group_identity);
    match identity.filter(|identity| !GROUP_IDENTITIES.contains(identity)) {
        None => Ok(qos),
        Some(value) => {
            let (least, most) = (*GROUP_IDENTITIES.start(), *GROUP_IDENTITIES.end());
            let source = AnnotationCause::Range { field: "groupIdentity", value, least, most };
            Err(AnnotationError { key: keys::CPU_QOS, source })
        }
    }
}

/// `koordinator.sh/cpuBurst`: CPU burst of one pod in place of the node's, qos.md 5.4. What is absent is the node's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCpuBurst {
    /// What bursts.
    pub policy: Option<String>,
    /// Budget of the kernel in percent of the CPU limit, 0 to 10000.
    pub cpu_burst_percent: Option<i64>,
    /// Highest quota in percent of the base one.
    pub cfs_quota_burst_percent: Option<i64>,
    /// Seconds that a container may stay at the highest quota; negative is for ever.
    pub cfs_quota_burst_period_seconds: Option<i64>,
}

/// Budgets that a policy may ask for, in percent of the CPU limit.
pub const CPU_BURST_PERCENTS: std::ops::RangeInclusive<i64> = 0..=10_000;

/// A pod's CPU burst; a budget out of range is an error.
pub fn pod_cpu_burst(pod: &Pod) -> Result<Option<PodCpuBurst>, AnnotationError> {
    let burst: Option<PodCpuBurst> = parse(&pod.metadata.annotations, keys::CPU_BURST)?;
    let percent = burst.as_ref().and_then(|burst| burst.cpu_burst_percent);
    match percent.filter(|percent| !CPU_BURST_PERCENTS.contains(percent)) {
        None => Ok(burst),
        Some(value) => {
            let (least, most) = (*CPU_BURST_PERCENTS.start(), *CPU_BURST_PERCENTS.end());
            let source = AnnotationCause::Range { field: "cpuBurstPercent", value, least, most };
            Err(AnnotationError { key: keys::CPU_BURST, source })
        }
    }
}

/// A pod's resource-status annotation.
pub fn resource_status(pod: &Pod) -> Result<Option<ResourceStatus>, AnnotationError> {
    parse(&pod.metadata.annotations, keys::RESOURCE_STATUS)
}

/// A pod's extended resource spec; one without containers counts as absent (hooks.md 8.3).
pub fn extended_resource_spec(pod: &Pod) -> Result<Option<ExtendedResourceSpec>, AnnotationError> {
    let spec: Option<ExtendedResourceSpec> = parse(&pod.metadata.annotations, keys::EXTENDED_RESOURCE_SPEC)?;
    Ok(spec.filter(|spec| !spec.containers.is_empty()))
}

/// `koordinator.sh/networkQOS`: limits of a pod's bandwidth, in bits a second.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodNetworkQos {
    /// Most of what comes in; absent without one.
    pub ingress_limit: Option<Quantity>,
    /// Most of what goes out; absent without one.
    pub egress_limit: Option<Quantity>,
}

/// A pod's network QoS.
pub fn network_qos(pod: &Pod) -> Result<Option<PodNetworkQos>, AnnotationError> {
    parse(&pod.metadata.annotations, keys::NETWORK_QOS)
}

/// OOM score adjustments by container name, hooks.md 10.2; a JSON `null` in it is 0, as for Go's decoder. Any number:
/// checked at use.
pub fn oom_score_adj_spec(pod: &Pod) -> Result<Option<BTreeMap<String, Option<i64>>>, AnnotationError> {
    parse(&pod.metadata.annotations, keys::OOM_SCORE_ADJ_SPEC)
}

/// The OOM score adjustment of a pod's containers, hooks.md 10.2. Any number: checked at use.
pub fn oom_score_adj(pod: &Pod) -> Result<Option<i64>, AnnotationError> {
    let text = pod.metadata.annotations.get(keys::OOM_SCORE_ADJ).filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(|source| (text, source))).transpose().map_err(|(text, source)| {
        let source = AnnotationCause::Whole { text: text.clone(), source };
        AnnotationError { key: keys::OOM_SCORE_ADJ, source }
    })
}

/// The node's reservation, from the annotations of Node or NodeResourceTopology.
pub fn node_reservation(annotations: &Annotations) -> Result<Option<NodeReservation>, AnnotationError> {
    parse(annotations, keys::NODE_RESERVATION)
}

/// The SYSTEM class's CPUs, from the annotations of Node or NodeResourceTopology.
pub fn system_qos_resource(annotations: &Annotations) -> Result<Option<SystemQosResource>, AnnotationError> {
    parse(annotations, keys::SYSTEM_QOS_RESOURCE)
}

/// The kubelet's CPU manager policy, from the annotations of NodeResourceTopology.
pub fn cpu_manager_policy(annotations: &Annotations) -> Result<Option<CpuManagerPolicy>, AnnotationError> {
    parse(annotations, keys::CPU_MANAGER_POLICY)
}

/// A list of shared CPU pools, from the annotations of NodeResourceTopology: that of LS or of BE, by `key`. `None`
/// without the annotation.
pub fn shared_pools(
    annotations: &Annotations,
    key: &'static str,
) -> Result<Option<Vec<SharedPool>>, AnnotationError> {
    let Some(text) = annotations.get(key).filter(|text| !text.is_empty()) else { return Ok(None) };
    let pools: Option<Vec<SharedPool>> = serde_json::from_str(text)
        .map_err(|error| AnnotationError { key, source: AnnotationCause::Json(error) })?;
    Ok(Some(pools.unwrap_or_default()))
}

/// The node's allocatable resources before amplification, from its annotations; JSON `null` counts as absent.
pub fn raw_allocatable(annotations: &Annotations) -> Result<Option<ResourceList>, AnnotationError> {
    if annotations.get(keys::RAW_ALLOCATABLE).is_some_and(|text| text.trim() == "null") {
        return Ok(None);
    }
    parse(annotations, keys::RAW_ALLOCATABLE)
}

/// Reads one annotation; JSON `null` is the type's default, as for Go's decoder.
pub(super) fn parse<T: DeserializeOwned + Default>(
    annotations: &Annotations,
    key: &'static str,
) -> Result<Option<T>, AnnotationError> {
    let Some(text) = annotations.get(key).filter(|text| !text.is_empty()) else { return Ok(None) };
    let error = |error| AnnotationError { key, source: AnnotationCause::Json(error) };
    // A derived struct would also read a list, field by field.
    if text.trim_start().starts_with('[') {
        return Err(error(serde::de::Error::custom("a list, where an object is expected")));
    }
    let value: Option<T> = serde_json::from_str(text).map_err(error)?;
    Ok(Some(value.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    fn pod(key: &str, text: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.annotations.insert(key.into(), text.into());
        pod
    }

    #[test]
    fn a_resource_status_has_cpus_and_numa_amounts() {
        let text = r#"{"cpuset":"0-3","numaNodeResources":[{"node":1,"resources":{"cpu":"4"}}],"new":1}"#;
        let status = resource_status(&pod(keys::RESOURCE_STATUS, text)).unwrap().unwrap();
        assert_eq!(status.cpus().unwrap().to_string(), "0-3");
        assert_eq!(status.numa_node_resources[0].node, 1);
        assert_eq!(status.numa_node_resources[0].resources["cpu"].milli(), 4000);
        let absent = resource_status(&Pod::default()).unwrap();
        assert!(absent.is_none() && resource_status(&pod(keys::RESOURCE_STATUS, "")).unwrap().is_none());
        let nulls = resource_status(&pod(keys::RESOURCE_STATUS, r#"{"cpuset":null}"#)).unwrap();
        assert_eq!(nulls, Some(ResourceStatus::default()));
        assert_eq!(resource_status(&pod(keys::RESOURCE_STATUS, "null")).unwrap(), nulls);
    }

    #[test]
    fn errors_name_the_key_and_have_a_cause() {
        for text in ["{", "[]", r#"{"cpuset":5}"#] {
            let error = resource_status(&pod(keys::RESOURCE_STATUS, text)).unwrap_err();
            assert!(error.to_string().contains(keys::RESOURCE_STATUS), "{error}");
            assert!(error.source().and_then(Error::source).is_some());
        }
        let bad_list = resource_status(&pod(keys::RESOURCE_STATUS, r#"{"cpuset":"0-"}"#)).unwrap().unwrap();
        assert!(bad_list.cpus().unwrap_err().to_string().contains(keys::RESOURCE_STATUS));
    }

    #[test]
    fn an_extended_spec_without_containers_counts_as_absent() {
        for text in ["{}", r#"{"containers":{}}"#, r#"{"containers":null}"#, "null"] {
            assert!(extended_resource_spec(&pod(keys::EXTENDED_RESOURCE_SPEC, text)).unwrap().is_none());
        }
        let text = r#"{"containers":{"a":{"limits":{"kubernetes.io/batch-cpu":"1k"}}}}"#;
        let spec = extended_resource_spec(&pod(keys::EXTENDED_RESOURCE_SPEC, text)).unwrap().unwrap();
        assert_eq!(spec.containers["a"].limits[keys::BATCH_CPU].value(), 1000);
    }

    #[test]
    fn node_annotations_read() {
        let text = r#"{"resources":{"cpu":"2"},"reservedCPUs":"0-1","applyPolicy":"ReservedCPUsOnly"}"#;
        let annotations = pod(keys::NODE_RESERVATION, text).metadata.annotations;
        let reservation = node_reservation(&annotations).unwrap().unwrap();
        assert_eq!((reservation.reserved_cpus.as_str(), reservation.resources["cpu"].value()), ("0-1", 2));
        let raw = |text| raw_allocatable(&pod(keys::RAW_ALLOCATABLE, text).metadata.annotations);
        assert_eq!(raw(r#"{"cpu":"2"}"#).unwrap().unwrap()["cpu"].value(), 2);
        assert_eq!((raw("null").unwrap(), raw("").unwrap()), (None, None));
        assert!(raw("{bad").is_err());
        let annotations = pod(keys::SYSTEM_QOS_RESOURCE, r#"{"cpuset":"7"}"#).metadata.annotations;
        let system = system_qos_resource(&annotations).unwrap().unwrap();
        assert_eq!((system.cpuset.as_str(), system.cpuset_exclusive), ("7", None));
        let text = r#"{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0"}"#;
        let annotations = pod(keys::CPU_MANAGER_POLICY, text).metadata.annotations;
        assert_eq!(cpu_manager_policy(&annotations).unwrap().unwrap().policy, "static");
    }
}
