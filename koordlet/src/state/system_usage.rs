//! Use of the node that belongs to no pod and no host application (collection.md 6.6).

use std::collections::BTreeMap;

use super::usage::NanoCpu;
use crate::units::{Bytes, Nanos};

/// One round. A figure whose inputs are missing or too old is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemUsage {
    /// Time of the usage sample that it was made from (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// CPU.
    pub cpu: Option<NanoCpu>,
    /// Memory without page cache.
    pub memory: Option<Bytes>,
    /// CPU by NUMA node.
    pub numa_cpu: BTreeMap<u32, NanoCpu>,
    /// Memory by NUMA node.
    pub numa_memory: BTreeMap<u32, Bytes>,
}
