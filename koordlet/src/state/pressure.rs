//! Pressure stall information of pods and containers (collection.md 6.9).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cgroup::read::Pressure;
use crate::units::Nanos;

/// Pressure of one group on all three resources. Their `some` lines are always there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupPressure {
    /// CPU; `full` is absent on old kernels.
    pub cpu: Pressure,
    /// Memory.
    pub memory: Pressure,
    /// Block I/O.
    pub io: Pressure,
}

/// One round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePressure {
    /// When it was read (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// By pod UID.
    pub pods: BTreeMap<Arc<str>, GroupPressure>,
    /// By pod UID and full container id.
    pub containers: BTreeMap<(Arc<str>, Arc<str>), GroupPressure>,
}
