//! QoS and priority classes and how a pod gets one, collection.md 4 and qos.md 0.

use serde::{Deserialize, Serialize};

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
