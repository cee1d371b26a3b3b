//! What suppression remembers from step to step: a plain value that can be recorded and replayed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::amount::Amount;
use super::choose::CpuChoice;
use super::quota::QuotaChoice;
use crate::cpuset::CpuSet;
use crate::state::topology::Topology;
use crate::units::{CfsQuota, MilliCpu, Nanos};

/// Memory of CPU suppression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuppressState {
    /// Quota of the BE directory that the next step starts from: the one applied last, so that a foreign
    /// reset is not taken for a start from there; `None` where it is not known.
    pub quota: Option<CfsQuota>,
    /// CPU set that the next step starts from, in the same way.
    pub cpus: Option<CpuSet>,
    /// The limit in force.
    pub held: Option<Held>,
    /// The amount of the last full step.
    pub amount: Option<Amount>,
    /// Whether a step has ever had what it needs, so that the absence of a claim means something.
    pub decided: bool,
    /// Full steps in a row that lacked an input.
    pub misses: u32,
    /// When a fast look last lowered the limit.
    pub looked: Option<Nanos>,
    /// What is wrong at present.
    pub conditions: BTreeSet<Condition>,
}

impl SuppressState {
    /// The state of a starting agent with what the kernel holds: the BE directory's quota and CPU set (under
    /// the kubelet's static policy the smallest set of a BE container). What cannot be read is `None` and
    /// taken as unlimited.
    pub fn new(quota: Option<CfsQuota>, cpus: Option<CpuSet>) -> Self {
        Self { quota, cpus, ..Self::default() }
    }

    /// Takes `limit` into force. A limit of the same value stays as it was decided, reason included, so that
    /// equal inputs give equal claims.
    pub(super) fn hold(&mut self, limit: Limit, amount: &Amount, topology: &Topology) {
        match &limit {
            Limit::Quota(choice) => {
                self.quota = Some(choice.quota);
                self.cpus = Some(topology.be_pool.clone());
            }
            Limit::Cpus { choice, .. } => {
                self.quota = Some(CfsQuota::Unlimited);
                self.cpus = Some(choice.cpus.clone());
            }
        }
        if !self.held.as_ref().is_some_and(|held| held.limit.same_value(&limit)) {
            self.held = Some(Held { limit, amount: amount.clone() });
        }
    }

    /// Lets go of every limit: the directories fall back to no quota and the whole pool.
    pub(super) fn release(&mut self, topology: Option<&Topology>) {
        self.held = None;
        self.amount = None;
        self.looked = None;
        self.quota = Some(CfsQuota::Unlimited);
        self.cpus = topology.map(|topology| topology.be_pool.clone());
    }

    /// Replaces the conditions and returns those that are new.
    pub(super) fn set_conditions(&mut self, conditions: BTreeSet<Condition>) -> Vec<Condition> {
        let new = conditions.difference(&self.conditions).copied().collect();
        self.conditions = conditions;
        new
    }
}

/// A limit with the amount that it was decided for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// What is limited, to what.
    pub limit: Limit,
    /// Why.
    pub amount: Amount,
}

/// How BE is limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// By the quota of the BE directory.
    Quota(QuotaChoice),
    /// By the CPUs of its directories.
    Cpus {
        /// The CPUs.
        choice: CpuChoice,
        /// Under the kubelet's static policy: CPUs of BE and pod directories, where only containers get the
        /// chosen ones.
        pool: Option<CpuSet>,
    },
}

impl Limit {
    fn same_value(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Quota(a), Self::Quota(b)) => a.quota == b.quota,
            (Self::Cpus { choice: a, pool: x }, Self::Cpus { choice: b, pool: y }) => {
                a.cpus == b.cpus && x == y
            }
            _ => false,
        }
    }

    /// CPU that BE may use; `None` if unlimited.
    pub fn cpu(&self) -> Option<MilliCpu> {
        match self {
            Self::Quota(choice) => choice.quota.micros().map(|us| MilliCpu(us / 100)),
            Self::Cpus { choice, .. } => {
                Some(MilliCpu(i64::try_from(choice.cpus.len()).unwrap_or(i64::MAX).saturating_mul(1000)))
            }
        }
    }

    /// The policy's name, the label of its metric.
    pub fn policy(&self) -> &'static str {
        match self {
            Self::Quota(_) => "cfsQuota",
            Self::Cpus { .. } => "cpuset",
        }
    }
}

/// Something that keeps suppression from doing what the policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
pub enum Condition {
    /// qos.md Q1.
    #[error(
        "the gates BECPUSuppress and BECPUManager are both on: best-effort pods are NOT suppressed, \
         switch BECPUManager off"
    )]
    GateConflict,
    /// A step was left out.
    #[error("{0} is missing: the last limit stays as it is")]
    Missing(Input),
    /// qos.md Q38.
    #[error("inputs are missing for {STALE_AFTER} steps: nobody knows whether the limit still fits")]
    Stale,
    /// qos.md 5.1 step 7.
    #[error("the kubelet's CPU manager policy cannot be read: cpusets stay as they are")]
    PolicyUnknown,
    /// qos.md Q2.
    #[error("every CPU is reserved or exclusive: best-effort pods keep the CPUs that they have")]
    NothingAllowed,
    /// qos.md Q3.
    #[error("fewer CPUs are allowed for best-effort pods than they should get: they get all of those")]
    TooFewCpus,
}

/// Steps in a row without an input after which the condition `Stale` is raised.
pub const STALE_AFTER: u32 = 30;

/// An input of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error)]
pub enum Input {
    /// No NodeSLO was seen, nor that there is none.
    #[error("the NodeSLO")]
    Slo,
    /// No Node object, or none with a CPU capacity.
    #[error("the Node's CPU capacity")]
    Node,
    /// No pods.
    #[error("the list of pods")]
    Pods,
    /// No recent sample of the node's CPU use.
    #[error("a recent sample of the node's CPU use")]
    Usage,
    /// No local CPU list.
    #[error("the list of CPUs")]
    Cpus,
}
