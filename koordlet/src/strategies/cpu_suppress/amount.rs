//! How much CPU best-effort pods may use: the amount of qos.md 5.1. Sums are integers (Q40), so equal samples
//! give equal amounts whatever their order. What is done with the amount is not decided here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::keys;
use crate::api::node::Node;
use crate::api::node_slo::HostApplication;
use crate::api::qos::{KubeQos, QosClass};
use crate::state::groups::GroupKind;
use crate::state::pods::{PodEntry, PodTable};
use crate::state::slo::{CpuSuppressPolicy, Slo};
use crate::state::usage::{NanoCpu, Usage};
use crate::units::MilliCpu;

/// Every term of the amount, so that it can be explained and replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// CPU capacity of the node.
    pub capacity: MilliCpu,
    /// Share of the capacity, in percent, that LS, BE and system may use together.
    pub threshold_percent: i64,
    /// Use of all pods that are not BE.
    pub ls_pods: MilliCpu,
    /// Use of the host applications that are not in the BE tree.
    pub ls_host_apps: MilliCpu,
    /// CPU that neither pods nor host applications use, at least what is reserved.
    pub system: MilliCpu,
    /// The part of `system` that is reserved, used or not.
    pub reserved: MilliCpu,
    /// Floor of the amount, from `cpuSuppressMinPercent`.
    pub floor: Option<MilliCpu>,
    /// The amount; may be negative.
    pub amount: MilliCpu,
}

impl Amount {
    /// `capacity x threshold / 100 - LS pods - host applications - system`, at least the floor; qos.md 5.1.
    fn close(mut self) -> Self {
        let share = percent_of(self.capacity, self.threshold_percent);
        let rest = share - self.ls_pods - self.ls_host_apps - self.system;
        self.amount = self.floor.map_or(rest, |floor| rest.max(floor));
        self
    }

    /// The formula with its figures.
    pub fn formula(&self) -> String {
        let floor = self.floor.map(|floor| format!(", at least {floor}")).unwrap_or_default();
        format!(
            "{} x {} % - LS pods {} - host applications {} - system {}{floor} = {} m",
            self.capacity, self.threshold_percent, self.ls_pods, self.ls_host_apps, self.system, self.amount
        )
    }

    /// The figures by name.
    pub fn inputs(&self) -> BTreeMap<&'static str, String> {
        let mut inputs = BTreeMap::from([
            ("capacity_m", self.capacity.to_string()),
            ("threshold_percent", self.threshold_percent.to_string()),
            ("ls_pods_m", self.ls_pods.to_string()),
            ("ls_host_apps_m", self.ls_host_apps.to_string()),
            ("system_m", self.system.to_string()),
            ("reserved_m", self.reserved.to_string()),
            ("amount_m", self.amount.to_string()),
        ]);
        if let Some(floor) = self.floor {
            inputs.insert("floor_m", floor.to_string());
        }
        inputs
    }
}

/// Where the figures of an amount come from.
#[derive(Clone, Copy, Debug)]
pub struct AmountInput<'a> {
    /// Capacity and allocatable.
    pub node: &'a Node,
    /// CPU that the node's reservation annotation keeps back.
    pub annotation_reserved: MilliCpu,
    /// Pods, to tell BE from the rest.
    pub pods: &'a PodTable,
    /// Threshold, floor and host applications.
    pub slo: &'a Slo,
    /// Samples.
    pub usage: &'a Usage,
}

/// The amount from a full sample, qos.md 5.1; `None` where the node's use or capacity is not known.
pub fn full_amount(input: &AmountInput<'_>) -> Option<Amount> {
    let node_use = nanos(input.usage.node_cpu?);
    let capacity = capacity(input.node)?;
    let sums = UsageSums::of(input);
    let allocatable = input.node.status.allocatable.get(keys::CPU).map_or(MilliCpu(0), |q| q.milli_cpu());
    let reserved = (capacity - allocatable).max(MilliCpu(0)).max(input.annotation_reserved);
    let unaccounted = node_use - sums.pods - sums.host_apps;
    let system = milli(unaccounted.max(0)).max(reserved);
    Some(amount(capacity, &input.slo.suppress, &sums, system, reserved))
}

/// The amount from a short sample of pods and host applications, with `last`'s system use: `/proc/stat` is
/// too coarse for a tenth of a second (design.md 2).
pub fn fast_amount(input: &AmountInput<'_>, last: &Amount) -> Option<Amount> {
    let capacity = capacity(input.node)?;
    let sums = UsageSums::of(input);
    Some(amount(capacity, &input.slo.suppress, &sums, last.system, last.reserved))
}

fn amount(
    capacity: MilliCpu,
    policy: &CpuSuppressPolicy,
    sums: &UsageSums,
    system: MilliCpu,
    reserved: MilliCpu,
) -> Amount {
    Amount {
        capacity,
        threshold_percent: policy.threshold.0,
        ls_pods: milli(sums.ls_pods),
        ls_host_apps: milli(sums.ls_host_apps),
        system,
        reserved,
        floor: policy.min.map(|min| percent_of(capacity, min.0)),
        amount: MilliCpu(0),
    }
    .close()
}

/// CPU capacity of the node, rounded up to a milli-core.
pub fn capacity(node: &Node) -> Option<MilliCpu> {
    Some(node.status.capacity.get(keys::CPU)?.milli_cpu())
}

/// Whether a pod is limited: labelled BE, or of the BestEffort class whatever its label.
pub fn is_be(pod: &PodEntry) -> bool {
    pod.qos == Some(QosClass::Be) || pod.kube_qos == KubeQos::BestEffort
}

/// Whether a host application runs in the BE tree and is limited with it.
fn is_be_app(app: &HostApplication) -> bool {
    app.qos == "BE" && app.cgroup_path.as_ref().is_some_and(|path| path.base == "KubepodsBesteffort")
}

/// Sums of one sample in nano-cores; a pod or application without a sample does not count.
#[derive(Debug, Default)]
struct UsageSums {
    pods: i128,
    ls_pods: i128,
    host_apps: i128,
    ls_host_apps: i128,
}

impl UsageSums {
    fn of(input: &AmountInput<'_>) -> Self {
        let mut sums = Self::default();
        for (uid, usage) in input.usage.pods() {
            let Some(cpu) = usage.cpu.map(nanos) else { continue };
            sums.pods += cpu;
            // A pod whose object is not known may be latency sensitive.
            if !input.pods.pods.get(uid).is_some_and(|pod| is_be(pod)) {
                sums.ls_pods += cpu;
            }
        }
        for app in &input.slo.host_applications {
            let usage = input.usage.group(GroupKind::HostApp, &app.name);
            let Some(cpu) = usage.and_then(|usage| usage.cpu).map(nanos) else { continue };
            sums.host_apps += cpu;
            if !is_be_app(app) {
                sums.ls_host_apps += cpu;
            }
        }
        sums
    }
}

fn nanos(cpu: NanoCpu) -> i128 {
    i128::from(cpu.0)
}

/// Whole milli-cores, rounded down.
fn milli(nanos: i128) -> MilliCpu {
    MilliCpu(i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX))
}

/// `value x percent / 100`, rounded towards zero.
fn percent_of(value: MilliCpu, percent: i64) -> MilliCpu {
    let share = i128::from(value.0) * i128::from(percent) / 100;
    MilliCpu(i64::try_from(share).unwrap_or(i64::MAX))
}

/// Whole CPUs, rounded up; 0 for a negative amount.
pub fn ceil_cores(amount: MilliCpu) -> usize {
    usize::try_from(amount.0).map_or(0, |milli| milli.div_ceil(1000))
}
