//! QoS and priority classes and how a pod gets one, collection.md 4 and qos.md 0.

use serde::{Deserialize, Serialize};

use super::keys;
use super::pod::{Container, Pod, ResourceList, ResourceRequirements};
use super::quantity::Quantity;

/// The Kubernetes QoS class, which decides where a pod's cgroup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KubeQos {
    /// Requests equal limits everywhere; directly under the kubepods root.
    Guaranteed,
    /// Some request or limit.
    Burstable,
    /// Neither requests nor limits.
    BestEffort,
}

/// The Koordinator QoS class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum QosClass {
    /// Latency sensitive, exclusive CPUs.
    #[serde(rename = "LSE")]
    Lse,
    /// Latency sensitive, reserved CPUs.
    #[serde(rename = "LSR")]
    Lsr,
    /// Latency sensitive.
    #[serde(rename = "LS")]
    Ls,
    /// Best effort.
    #[serde(rename = "BE")]
    Be,
    /// System pods.
    #[serde(rename = "SYSTEM")]
    System,
}

impl QosClass {
    /// The class of a label's text, case sensitive; `None` for any other text.
    pub fn from_label(text: &str) -> Option<Self> {
        Some(match text {
            "LSE" => Self::Lse,
            "LSR" => Self::Lsr,
            "LS" => Self::Ls,
            "BE" => Self::Be,
            "SYSTEM" => Self::System,
            _ => return None,
        })
    }

    /// Its label's text.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Lse => "LSE",
            Self::Lsr => "LSR",
            Self::Ls => "LS",
            Self::Be => "BE",
            Self::System => "SYSTEM",
        }
    }
}

/// The Koordinator priority class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PriorityClass {
    /// 9000 to 9999.
    #[serde(rename = "koord-prod")]
    Prod,
    /// 7000 to 7999.
    #[serde(rename = "koord-mid")]
    Mid,
    /// 5000 to 5999.
    #[serde(rename = "koord-batch")]
    Batch,
    /// 3000 to 3999.
    #[serde(rename = "koord-free")]
    Free,
}

impl PriorityClass {
    /// The class of a label's text; `None` for any other text.
    pub fn from_label(text: &str) -> Option<Self> {
        Some(match text {
            "koord-prod" => Self::Prod,
            "koord-mid" => Self::Mid,
            "koord-batch" => Self::Batch,
            "koord-free" => Self::Free,
            _ => return None,
        })
    }

    /// Its label's text.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Prod => "koord-prod",
            Self::Mid => "koord-mid",
            Self::Batch => "koord-batch",
            Self::Free => "koord-free",
        }
    }

    /// The class whose range a numeric priority is in.
    pub fn from_priority(priority: i32) -> Option<Self> {
        Some(match priority {
            9000..=9999 => Self::Prod,
            7000..=7999 => Self::Mid,
            5000..=5999 => Self::Batch,
            3000..=3999 => Self::Free,
            _ => return None,
        })
    }

    /// The priority that stands for the class where a pod has none.
    pub const fn default_priority(self) -> i32 {
        match self {
            Self::Prod => 9500,
            Self::Mid => 7500,
            Self::Batch => 5500,
            Self::Free => 3500,
        }
    }

    /// The names of its CPU and memory resources.
    pub const fn resource_names(self) -> (&'static str, &'static str) {
        match self {
            Self::Batch => (keys::BATCH_CPU, keys::BATCH_MEMORY),
            Self::Mid => (keys::MID_CPU, keys::MID_MEMORY),
            Self::Prod | Self::Free => (keys::CPU, keys::MEMORY),
        }
    }
}

/// A sub-priority label that is not a 32-bit integer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("label {key}: {text:?} is not a 32-bit integer", key = keys::SUB_PRIORITY)]
pub struct SubPriorityError {
    text: String,
}

impl Pod {
    /// The class on the pod's label, collection.md 4.1 ("raw").
    pub fn raw_qos(&self) -> Option<QosClass> {
        self.metadata.labels.get(keys::QOS_CLASS).and_then(|label| QosClass::from_label(label))
    }

    /// The label's class, else the one that goes with the Kubernetes class.
    pub fn effective_qos(&self) -> QosClass {
        self.raw_qos().unwrap_or(match self.kube_qos() {
            KubeQos::Guaranteed => QosClass::Lsr,
            KubeQos::Burstable => QosClass::Ls,
            KubeQos::BestEffort => QosClass::Be,
        })
    }

    /// The Kubernetes class: `status.qosClass`, else computed as Kubernetes does.
    pub fn kube_qos(&self) -> KubeQos {
        match self.status.qos_class.as_str() {
            "Guaranteed" => KubeQos::Guaranteed,
            "Burstable" => KubeQos::Burstable,
            "BestEffort" => KubeQos::BestEffort,
            _ => computed_kube_qos(self),
        }
    }

    /// The priority class by label or, only without that label, by number (collection.md 4.2).
    pub fn raw_priority_class(&self) -> Option<PriorityClass> {
        match self.metadata.labels.get(keys::PRIORITY_CLASS) {
            Some(label) => PriorityClass::from_label(label),
            None => self.spec.priority.and_then(PriorityClass::from_priority),
        }
    }

    /// The raw priority class, else the one that goes with the QoS class.
    pub fn priority_class(&self) -> PriorityClass {
        self.raw_priority_class().unwrap_or(match self.effective_qos() {
            QosClass::Be => PriorityClass::Batch,
            QosClass::Lse | QosClass::Lsr | QosClass::Ls | QosClass::System => PriorityClass::Prod,
        })
    }

    /// `spec.priority` if set and not 0, else the default of the priority class (qos.md 0).
    pub fn priority_value(&self) -> i32 {
        self.spec
            .priority
            .filter(|priority| *priority != 0)
            .unwrap_or_else(|| self.priority_class().default_priority())
    }

    /// The sub-priority label; 0 where it is absent or empty.
    pub fn sub_priority(&self) -> Result<i32, SubPriorityError> {
        match self.metadata.labels.get(keys::SUB_PRIORITY).map_or("", String::as_str) {
            "" => Ok(0),
            text => {
                parse_base_0(text).ok_or_else(|| SubPriorityError { text: text.chars().take(80).collect() })
            }
        }
    }
}

/// Go's integer syntax with base 0: `0x`, `0o`, `0b`, a leading `0` for octal, and single underscores
/// between digits or after the base.
fn parse_base_0(text: &str) -> Option<i32> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = unsigned.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // An underscore may follow the base's prefix, but not start a plain number.
    let digits = if radix == 10 { digits } else { digits.strip_prefix('_').unwrap_or(digits) };
    if digits.split('_').any(str::is_empty) {
        return None;
    }
    let magnitude = i64::from_str_radix(&digits.replace('_', ""), radix).ok()?;
    // `from_str_radix` takes a sign of its own.
    let magnitude = if digits.starts_with(['+', '-']) { return None } else { magnitude };
    i32::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// Kubernetes' `ComputePodQOS`: CPU and memory only, zero counts as absent, init containers take part;
/// resources of the pod itself, where given, decide alone.
fn computed_kube_qos(pod: &Pod) -> KubeQos {
    let mut sums = QosSums { requests: ResourceList::new(), limits: ResourceList::new(), all_limited: true };
    if let Some(resources) = &pod.spec.resources {
        sums.add_pod_level(resources);
    } else {
        let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        containers.for_each(|container| sums.add_container(container));
    }
    if sums.requests.is_empty() && sums.limits.is_empty() {
        KubeQos::BestEffort
    } else if sums.all_limited && sums.requests == sums.limits {
        KubeQos::Guaranteed
    } else {
        KubeQos::Burstable
    }
}

/// What decides a computed class.
struct QosSums {
    requests: ResourceList,
    limits: ResourceList,
    /// Whether both CPU and memory are limited everywhere so far.
    all_limited: bool,
}

impl QosSums {
    fn add_container(&mut self, container: &Container) {
        add_positive(&mut self.requests, &container.resources.requests);
        let limited = add_positive(&mut self.limits, &container.resources.limits);
        self.all_limited &= limited;
    }

    /// Limits that the pod does not give leave it to the comparison with its requests.
    fn add_pod_level(&mut self, resources: &ResourceRequirements) {
        add_positive(&mut self.requests, &resources.requests);
        if !resources.limits.is_empty() {
            let limited = add_positive(&mut self.limits, &resources.limits);
            self.all_limited &= limited;
        }
    }
}

/// Adds the positive CPU and memory entries; whether there were both.
fn add_positive(sums: &mut ResourceList, list: &ResourceList) -> bool {
    let mut found = 0;
    for name in [keys::CPU, keys::MEMORY] {
        if let Some(quantity) = list.get(name).filter(|quantity| **quantity > Quantity::default()) {
            let sum = sums.entry(name.to_owned()).or_default();
            *sum = sum.plus(*quantity);
            found += 1;
        }
    }
    found == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_gos_base_0_syntax() {
        for (text, number) in [
            ("10", Some(10)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("-0x1F", Some(-31)),
            ("+0b101", Some(5)),
            ("0o17", Some(15)),
            ("1_000", Some(1000)),
            ("0x_1f", Some(31)),
            ("0_7", Some(7)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("08", None),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("0x", None),
            ("--1", None),
            ("0x-1", None),
            ("1.5", None),
            (" 1", None),
            ("", None),
        ] {
            assert_eq!(parse_base_0(text), number, "{text:?}");
        }
    }

    #[test]
    fn pod_level_resources_decide_the_computed_class_alone() {
        let qos = |spec: serde_json::Value| {
            let pod: Pod = serde_json::from_value(serde_json::json!({ "spec": spec })).unwrap();
            pod.kube_qos()
        };
        let both = serde_json::json!({"cpu": "1", "memory": "1Gi"});
        let container = serde_json::json!([{"name": "a", "resources": {"requests": {"cpu": "1"}}}]);
        assert_eq!(
            qos(
                serde_json::json!({"containers": container, "resources": {"requests": both, "limits": both}})
            ),
            KubeQos::Guaranteed
        );
        assert_eq!(
            qos(serde_json::json!({"containers": container, "resources": {"limits": {"cpu": "1"}}})),
            KubeQos::Burstable
        );
        assert_eq!(qos(serde_json::json!({"containers": [{"name": "a"}]})), KubeQos::BestEffort);
        let zero = serde_json::json!([{"name": "a", "resources": {"requests": {"cpu": "0"}}}]);
        assert_eq!(qos(serde_json::json!({ "containers": zero })), KubeQos::BestEffort);
    }

    /// collection.md 16, example 14.
    #[test]
    fn worked_example_14_classes() {
        let pod = |labels: serde_json::Value, priority: Option<i32>, status: &str| -> Pod {
            serde_json::from_value(serde_json::json!({
                "metadata": {"labels": labels},
                "spec": {"priority": priority},
                "status": {"qosClass": status},
            }))
            .unwrap()
        };
        let classes = |pod: &Pod| (pod.effective_qos(), pod.priority_class());
        let plain = pod(serde_json::json!({}), Some(9000), "Burstable");
        assert_eq!(classes(&plain), (QosClass::Ls, PriorityClass::Prod));
        let be = pod(serde_json::json!({"koordinator.sh/qosClass": "BE"}), None, "Burstable");
        assert_eq!(classes(&be), (QosClass::Be, PriorityClass::Batch));
        let odd = pod(serde_json::json!({"koordinator.sh/priority-class": "foo"}), Some(5500), "Guaranteed");
        assert_eq!(classes(&odd), (QosClass::Lsr, PriorityClass::Prod));
        let lower = pod(serde_json::json!({"koordinator.sh/qosClass": "be"}), None, "Burstable");
        assert_eq!(lower.raw_qos(), None);
    }
}
