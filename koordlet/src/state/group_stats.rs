//! What cgroup files tell of pods, containers and host applications beside CPU time (collection.md 6.3, 6.5,
//! 6.7, 6.11).

use std::collections::BTreeMap;

use super::groups::{GroupKind, PerGroup};
use crate::units::{Bytes, Nanos};

/// Memory of one group, both ways of counting (collection.md 3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Anonymous and unevictable memory.
    pub without_page_cache: Bytes,
    /// The same and file pages.
    pub with_page_cache: Bytes,
}

/// Figures of one group. A figure that is not known is absent, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupStat {
    /// Memory use.
    pub memory: Option<MemoryUse>,
    /// Share of its periods in which it was throttled since the last round, 0 to 1.
    pub throttled: Option<f64>,
}

/// One round of all groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupStats {
    /// Time of the usage sample that the round followed (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// Pods, containers and host applications: those of that sample.
    pub groups: PerGroup<GroupStat>,
    /// Memory of all pods by NUMA node without page cache; `None` where the node has no more than one, or no
    /// pod's could be read.
    pub pods_numa_memory: Option<BTreeMap<u32, Bytes>>,
}

impl GroupStats {
    /// The figures of one group.
    pub fn group(&self, kind: GroupKind, name: &str) -> Option<&GroupStat> {
        self.groups.get(kind, name)
    }
}
