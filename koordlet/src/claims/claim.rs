//! A claim: (target, wish, owner, reason).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::cgroup::value::Value;

/// Who wishes a value. The order is the precedence where two owners claim one target and the table in
/// `combine` says nothing else: the first wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Owner {
    /// The kubelet's exclusive CPUs (`cpu_manager_state`): leave cpuset and quota alone.
    KubeletExclusive,
    /// `rules/batch_resource`.
    BatchResource,
    /// `rules/cpu_normalization`.
    CpuNormalization,
    /// `strategies/cpu_suppress`.
    CpuSuppress,
    /// What the pod's own spec asks for: written only to undo a withdrawn claim.
    PodSpec,
    /// The BE pool of CPUs: written only to undo a withdrawn claim.
    BePool,
    /// An unlimited quota of the BE directory: asserted once at start, and to undo a withdrawn claim.
    BeUnlimited,
}

impl Owner {
    /// Its name in texts for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeletExclusive => "kubelet exclusive CPUs",
            Self::BatchResource => "batch resource",
            Self::CpuNormalization => "CPU normalization",
            Self::CpuSuppress => "CPU suppress",
            Self::PodSpec => "pod spec",
            Self::BePool => "BE pool",
            Self::BeUnlimited => "BE unlimited",
        }
    }

    /// Whether claims of this owner are only what a withdrawn claim falls back to.
    pub fn is_baseline(self) -> bool {
        matches!(self, Self::PodSpec | Self::BePool | Self::BeUnlimited)
    }
}

/// Why a value is wished: one sentence, the inputs with their figures, and the section of the spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// One sentence with the formula filled in, e.g. `ceil(200000 / 1.5)`.
    pub text: String,
    /// Inputs by name.
    pub inputs: BTreeMap<&'static str, String>,
}

/// What is wished for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Hold this value.
    Hold(Value),
    /// Not ours: keep what others put there.
    Leave,
}

/// One part's wish for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What.
    pub target: Target,
    /// Which value.
    pub wish: Wish,
    /// Who.
    pub owner: Owner,
    /// Why.
    pub reason: Arc<Reason>,
}
