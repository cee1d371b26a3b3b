//! Cycles and instructions of containers (collection.md 6.8).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::units::Nanos;

/// Counts of one container over a window, scaled to the whole window where counters were shared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cpi {
    /// CPU cycles.
    pub cycles: f64,
    /// Instructions retired.
    pub instructions: f64,
}

/// One round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpiCounts {
    /// End of the window (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// How long the round took: a window, or as many as there were batches.
    pub took: Nanos,
    /// By pod UID and full container id.
    pub containers: BTreeMap<(Arc<str>, Arc<str>), Cpi>,
}
