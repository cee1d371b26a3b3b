//! A resource's value, the same for both cgroup versions. `codec` turns it into kernel text and back.

use std::fmt;

use super::resource::Resource;
use crate::cpuset::CpuSet;
use crate::units::{CFS_PERIOD_US, CfsQuota, CpuShares, MIN_QUOTA_US, MemoryLimit};

/// What a cgroup resource holds or should hold. `Display` gives the v1 text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// CPU shares.
    Shares(CpuShares),
    /// CFS quota; a wish is for a period of 100 ms, a reading for the period in force.
    Quota(CfsQuota),
    /// A CPU or memory-node list.
    Cpus(CpuSet),
    /// A memory limit, or a protected amount of memory.
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

/// A text or value that a resource cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The text cannot be read.
    #[error("{text:?} is not a value of {resource:?}: {what}")]
    Text {
        /// The resource.
        resource: Resource,
        /// The start of the text.
        text: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The number is outside of what the kernel takes.
    #[error("{value} is out of range for {resource:?}: {least} to {most}")]
    Range {
        /// The resource.
        resource: Resource,
        /// The value.
        value: String,
        /// Least value, as text.
        least: i64,
        /// Largest value.
        most: i64,
    },
    /// The value is of another kind than the resource's.
    #[error("{value:?} is of a kind that {resource:?} does not hold")]
    Kind {
        /// The resource.
        resource: Resource,
        /// The value.
        value: Value,
    },
    /// The resource is a statistic, or this kind of host does not have it.
    #[error("{resource:?} is not a setting of this host")]
    NotASetting {
        /// The resource.
        resource: Resource,
    },
}

/// A wished quota (for a period of 100 ms) scaled to the period in force, since the period is another
/// writer's: `wish x period / 100000`, rounded up, at least 1000 us (design.md 4). Unlimited stays so.
#[must_use]
pub fn quota_for_period(wish: CfsQuota, period_us: i64) -> CfsQuota {
    let Some(us) = wish.micros() else { return CfsQuota::Unlimited };
    if period_us == CFS_PERIOD_US {
        return wish;
    }
    let scaled = i128::from(us) * i128::from(period_us.max(0));
    let rounded_up = (scaled + i128::from(CFS_PERIOD_US) - 1).div_euclid(i128::from(CFS_PERIOD_US));
    CfsQuota::Micros(i64::try_from(rounded_up).unwrap_or(i64::MAX).max(MIN_QUOTA_US))
}

/// The other way: a quota read with `period_us` in force, as one for a period of 100 ms, rounded down.
#[must_use]
pub fn quota_per_100ms(found: CfsQuota, period_us: i64) -> CfsQuota {
    match found.micros() {
        Some(us) if period_us > 0 && period_us != CFS_PERIOD_US => {
            let scaled = i128::from(us) * i128::from(CFS_PERIOD_US) / i128::from(period_us);
            CfsQuota::Micros(i64::try_from(scaled).unwrap_or(i64::MAX))
        }
        _ => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_follows_the_period_in_force() {
        let scaled = |us, period| quota_for_period(CfsQuota::Micros(us), period).raw();
        assert_eq!(scaled(150_000, 100_000), 150_000);
        assert_eq!(scaled(150_000, 50_000), 75_000);
        assert_eq!(scaled(133_333, 50_000), 66_667, "rounded up, so that nobody gets less than asked");
        assert_eq!(scaled(1_000, 10_000), 1_000, "the kernel's least");
        assert_eq!(quota_for_period(CfsQuota::Unlimited, 50_000), CfsQuota::Unlimited);
        assert_eq!(quota_per_100ms(CfsQuota::Micros(75_000), 50_000).raw(), 150_000);
        assert_eq!(quota_per_100ms(CfsQuota::Unlimited, 50_000), CfsQuota::Unlimited);
        assert_eq!(quota_per_100ms(CfsQuota::Micros(5), 0).raw(), 5, "a nonsense period changes nothing");
        assert_eq!(scaled(i64::MAX, 1_000_000), i64::MAX);
    }
}
