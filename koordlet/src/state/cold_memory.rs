//! Memory that was not touched for a while (kidled, collection.md 6.10).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::units::{Bytes, Nanos};

/// Cold and hot memory of the node or of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdFigures {
    /// File pages that were idle for at least 300 s.
    pub cold: Bytes,
    /// Use with page cache, less the cold pages.
    pub hot: Bytes,
}

/// One round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColdMemory {
    /// When it was read (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// The whole node.
    pub node: Option<ColdFigures>,
    /// By pod UID.
    pub pods: BTreeMap<Arc<str>, ColdFigures>,
    /// By full container id.
    pub containers: BTreeMap<Arc<str>, ColdFigures>,
    /// By host application name.
    pub host_apps: BTreeMap<Arc<str>, ColdFigures>,
}
