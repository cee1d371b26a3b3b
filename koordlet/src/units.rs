//! Quantities that carry their unit in their type. No bare integer crosses a module border.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0.saturating_add(other.0))
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }
        }
        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                items.fold(Self::default(), Add::add)
            }
        }
    };
}

quantity!(
    /// CPU in thousandths of a core. May be negative in intermediate results (a BE amount below zero).
    MilliCpu(i64)
);
quantity!(
    /// Nanoseconds: CPU time, or a monotonic point in time (`CLOCK_MONOTONIC`).
    Nanos(u64)
);
quantity!(
    /// Bytes of memory.
    Bytes(u64)
);
quantity!(
    /// Whole percent, 0 to 100 unless the field says otherwise.
    Percent(i64)
);
quantity!(
    /// Bandwidth in bits a second.
    BitRate(u64)
);

impl BitRate {
    /// In bytes a second, rounded down.
    pub const fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }
}

quantity!(
    /// `cpu.shares`, 2 to 262144; the same figure on both cgroup versions (`cgroup/` converts it to a weight).
    CpuShares(u64)
);

/// Least and largest `cpu.shares` that the kernel takes.
pub const SHARES_RANGE: (u64, u64) = (2, 262_144);

impl CpuShares {
    /// Shares for a CPU request, collection.md 3.8: `milli * 1024 / 1000`, clamped to 2..=262144.
    pub fn from_milli(request: MilliCpu) -> Self {
        let shares = u64::try_from(request.0).unwrap_or(0).saturating_mul(1024) / 1000;
        Self(shares.clamp(SHARES_RANGE.0, SHARES_RANGE.1))
    }
}

/// The CFS period that every quota is computed for, in microseconds.
pub const CFS_PERIOD_US: i64 = 100_000;

/// Least quota that the kernel takes, in microseconds per period.
pub const MIN_QUOTA_US: i64 = 1_000;

/// A CFS quota in microseconds per 100 ms period, or unlimited.
///
/// Ordered as the kernel means it: unlimited is above every number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CfsQuota {
    /// Microseconds in each period of 100 ms.
    Micros(i64),
    /// `-1` on v1, `max` on v2.
    Unlimited,
}

impl CfsQuota {
    /// The quota for a CPU limit, collection.md 3.8: `milli * 100`; none or 0 is unlimited; at least 1000.
    pub fn from_milli(limit: MilliCpu) -> Self {
        match limit.0.saturating_mul(CFS_PERIOD_US) / 1000 {
            q if q <= 0 => Self::Unlimited,
            q => Self::Micros(q.max(MIN_QUOTA_US)),
        }
    }

    /// From the kernel's number, where every negative value means unlimited.
    pub fn from_raw(raw: i64) -> Self {
        if raw < 0 { Self::Unlimited } else { Self::Micros(raw) }
    }

    /// The kernel's v1 number: -1 when unlimited.
    pub fn raw(self) -> i64 {
        match self {
            Self::Micros(us) => us,
            Self::Unlimited => -1,
        }
    }

    /// Microseconds per period; `None` when unlimited.
    pub fn micros(self) -> Option<i64> {
        match self {
            Self::Micros(us) => Some(us),
            Self::Unlimited => None,
        }
    }
}

impl PartialOrd for CfsQuota {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CfsQuota {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.micros().unwrap_or(i64::MAX).cmp(&other.micros().unwrap_or(i64::MAX))
    }
}

impl fmt::Display for CfsQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw().fmt(f)
    }
}

/// A memory limit in bytes, or unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MemoryLimit {
    /// Bytes; the kernel rounds down to whole pages.
    Bytes(u64),
    /// `-1` (v1), `max` (v2).
    Unlimited,
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Unlimited => f.write_str("-1"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_and_shares_of_a_limit_follow_the_worked_examples() {
        let quota = |m| CfsQuota::from_milli(MilliCpu(m)).raw();
        assert_eq!([0, 5, 9, 15, 500, 1500].map(quota), [-1, 1000, 1000, 1500, 50_000, 150_000]);
        let shares = |m| CpuShares::from_milli(MilliCpu(m)).0;
        assert_eq!(
            [0, 3, 100, 500, 1000, 256_000, 300_000].map(shares),
            [2, 3, 102, 512, 1024, 262_144, 262_144]
        );
    }

    #[test]
    fn unlimited_is_above_every_number() {
        assert!(CfsQuota::Unlimited > CfsQuota::Micros(i64::MAX - 1));
        assert_eq!(CfsQuota::from_raw(-1), CfsQuota::Unlimited);
    }
}
