//! A resource's value, the same for both cgroup versions, and its kernel text.

use std::fmt;

use crate::cpuset::CpuSet;
use crate::units::{CfsQuota, CpuShares, MemoryLimit};

/// What a cgroup resource holds or should hold. `Display` gives the v1 text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// CPU shares.
    Shares(CpuShares),
    /// CFS quota for a period of 100 ms.
    Quota(CfsQuota),
    /// A CPU or memory-node list.
    Cpus(CpuSet),
    /// A memory limit.
    Memory(MemoryLimit),
    /// Any other integer.
    Int(i64),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shares(shares) => shares.fmt(f),
            Self::Quota(quota) => quota.fmt(f),
            Self::Cpus(cpus) => cpus.fmt(f),
            Self::Memory(limit) => limit.fmt(f),
            Self::Int(number) => number.fmt(f),
        }
    }
}
