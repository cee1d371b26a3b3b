//! The texts of Terway's two files, hooks.md 11.4.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::api::annotations::AnnotationError;
use crate::api::qos::{KubeQos, QosClass};
use crate::api::quantity::Quantity;
use crate::rules::bandwidth;
use crate::state::pods::PodEntry;
use crate::state::slo::qos::network::{Bandwidth, NetworkQos};
use crate::units::BitRate;

/// A bandwidth that Terway cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BandwidthError {
    /// The node's total.
    #[error("totalNetworkBandwidth is {total}, below 0")]
    NegativeTotal {
        /// What is given.
        total: Quantity,
    },
    /// What a class asks for.
    #[error("{field} of {class} is {amount} bytes/s, above the node's total of {total}")]
    AboveTotal {
        /// The class.
        class: &'static str,
        /// The field of `networkQOS`.
        field: &'static str,
        /// What it asks for.
        amount: u64,
        /// What it is compared with.
        total: BitRate,
    },
}

/// `global_bps_config`: what the node has, and what LS (`l1`) and BE (`l2`) get of it, in bytes a second.
///
/// # Errors
/// The total is negative, or a class asks for an amount above it. The amount is compared in bytes with the total in bits, as the reference
/// does: a file that it writes must not be refused here.
pub fn node_file(total: Quantity, ls: &NetworkQos, be: &NetworkQos) -> Result<String, BandwidthError> {
    if total < Quantity::default() {
        return Err(BandwidthError::NegativeTotal { total });
    }
    let total = bandwidth::bits(total);
    let mut text = String::new();
    let mut line = |key: &str, figure: u64| {
        // A String takes everything.
        _ = writeln!(text, "{key} {figure}");
    };
    let whole = total.bytes_per_second();
    line("hw_tx_bps_max", whole);
    line("hw_rx_bps_max", whole);
    for (level, class, qos) in [("l1", "lsClass", ls), ("l2", "beClass", be)] {
        for (end, field, bandwidth) in [
            ("tx_bps_min", "egressRequest", qos.egress_request),
            ("tx_bps_max", "egressLimit", qos.egress_limit),
            ("rx_bps_min", "ingressRequest", qos.ingress_request),
            ("rx_bps_max", "ingressLimit", qos.ingress_limit),
        ] {
            let bandwidth = if qos.enable { bandwidth } else { Bandwidth::default() };
            let amount = bandwidth::of_total(bandwidth, total).bytes_per_second();
            if amount > total.0 {
                return Err(BandwidthError::AboveTotal { class, field, amount, total });
            }
            line(&format!("offline_{level}_{end}"), amount);
        }
    }
    Ok(text)
}

/// Terway's priority of a pod: 0 SYSTEM, 1 LS, 2 BE; without a label the Kubernetes class decides.
pub fn priority(label: Option<QosClass>, kube: Option<KubeQos>) -> u32 {
    match (label, kube) {
        (Some(QosClass::System), _) | (None, None) => 0,
        (Some(QosClass::Lse | QosClass::Lsr | QosClass::Ls), _)
        | (None, Some(KubeQos::Guaranteed | KubeQos::Burstable)) => 1,
        (Some(QosClass::Be), _) | (None, Some(KubeQos::BestEffort)) => 2,
    }
}

/// A pod's bandwidth in bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodBandwidth {
    /// Of what comes in; 0 is no limit.
    pub ingress_bandwidth: u64,
    /// Of what goes out.
    pub egress_bandwidth: u64,
}

/// The bandwidth of a pod; `None` for a pod that is left out since its annotation lacks one of the keys.
///
/// # Errors
/// The annotation cannot be read; the pod is left out then, too.
pub fn pod_bandwidth(pod: &PodEntry) -> Result<Option<PodBandwidth>, AnnotationError> {
    let Some(limits) = bandwidth::pod_limits(&pod.pod)? else { return Ok(Some(PodBandwidth::default())) };
    Ok(limits.ingress.zip(limits.egress).map(|(ingress, egress)| PodBandwidth {
        ingress_bandwidth: ingress.bytes_per_second(),
        egress_bandwidth: egress.bytes_per_second(),
    }))
}

/// An entry of the file of pods.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodLine<'a> {
    pod_name: &'a str,
    pod_namespace: &'a str,
    #[serde(rename = "podUID")]
    pod_uid: &'a str,
    prio: u32,
    cgroup_dir: String,
    qos_config: PodBandwidth,
}

/// `pod.json`: each pod by its UID.
pub fn pods_file<'a>(pods: impl Iterator<Item = &'a PodEntry>) -> String {
    let line = |pod: &'a PodEntry| {
        let qos_config = pod_bandwidth(pod).ok()??;
        let meta = &pod.pod.metadata;
        let line = PodLine {
            pod_name: &meta.name,
            pod_namespace: &meta.namespace,
            pod_uid: &pod.uid,
            prio: priority(pod.qos, Some(pod.kube_qos)),
            cgroup_dir: format!("/sys/fs/cgroup/net_cls/{}", pod.dir),
            qos_config,
        };
        Some((&*pod.uid, line))
    };
    let lines: BTreeMap<&str, PodLine<'_>> = pods.filter_map(line).collect();
    // Texts and numbers always have a JSON form.
    serde_json::to_string(&lines).unwrap_or_default()
}
