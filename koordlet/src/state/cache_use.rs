//! Last-level cache and memory bandwidth by QoS class (collection.md 6.12).

use std::collections::BTreeMap;

use crate::units::{Bytes, Nanos};

/// Figures of one group of one cache. Bandwidth figures are bytes since the group was made, not rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFigures {
    /// Cache in use.
    pub occupancy: Option<Bytes>,
    /// Memory traffic to the own node.
    pub local: Option<Bytes>,
    /// All memory traffic.
    pub total: Option<Bytes>,
}

/// One round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    /// When it was read (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// By group (`LSR`, `LS`, `BE`) and cache id.
    pub groups: BTreeMap<(&'static str, u32), CacheFigures>,
}
