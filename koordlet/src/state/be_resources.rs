//! What best-effort pods may use, ask for and use (`node_be`, collection.md 6.4).

use crate::units::{MilliCpu, Nanos};

/// One round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeResources {
    /// When the use was sampled (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// What cpusets and quota leave; `None` where there is no BE directory.
    pub real_limit: Option<MilliCpu>,
    /// Batch CPU that pods of raw class BE ask for.
    pub request: MilliCpu,
    /// What the BE directory used; 0 in the first round.
    pub usage: Option<MilliCpu>,
}
