//! CPU and memory side by side, as requests, peaks and reports count them.

use crate::api::keys;
use crate::api::pod::ResourceList;
use crate::api::quantity::Quantity;
use crate::units::{Bytes, MilliCpu};

/// An amount of both, neither of them negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuMemory {
    /// CPU.
    pub cpu: MilliCpu,
    /// Memory.
    pub memory: Bytes,
}

impl CpuMemory {
    /// Of a resource list; what it lacks, and what is negative, counts as 0.
    pub fn of_list(list: &ResourceList) -> Self {
        let amount = |name| list.get(name).copied().unwrap_or_default();
        let bytes = u64::try_from(amount(keys::MEMORY).value()).unwrap_or(0);
        Self { cpu: MilliCpu(amount(keys::CPU).milli().max(0)), memory: Bytes(bytes) }
    }

    /// Of cores and bytes, both rounded down; what is negative or not a number counts as 0.
    pub fn of_floats(cores: f64, bytes: f64) -> Self {
        Self { cpu: MilliCpu(whole(cores * 1000.0)), memory: Bytes(whole(bytes).unsigned_abs()) }
    }

    /// As a resource list.
    pub fn to_list(self) -> ResourceList {
        let bytes = i64::try_from(self.memory.0).unwrap_or(i64::MAX);
        let entries =
            [(keys::CPU, Quantity::from_milli(self.cpu.0)), (keys::MEMORY, Quantity::from_integer(bytes))];
        entries.into_iter().map(|(name, quantity)| (name.to_owned(), quantity)).collect()
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory }
    }

    /// What is left of it, 0 at least.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let cpu = (self.cpu - other.cpu).max(MilliCpu(0));
        Self { cpu, memory: self.memory - other.memory }
    }

    /// The smaller of each.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { cpu: self.cpu.min(other.cpu), memory: self.memory.min(other.memory) }
    }

    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { cpu: self.cpu.max(other.cpu), memory: self.memory.max(other.memory) }
    }

    /// Times `factor`, rounded down.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let cpu = MilliCpu(whole(self.cpu.0 as f64 * factor));
        Self { cpu, memory: Bytes(whole(self.memory.0 as f64 * factor).unsigned_abs()) }
    }
}

/// Rounded down, 0 at least; not a number is 0.
#[expect(clippy::cast_possible_truncation, reason = "saturating by definition")]
fn whole(value: f64) -> i64 {
    value.max(0.0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(cpu: i64, memory: u64) -> CpuMemory {
        CpuMemory { cpu: MilliCpu(cpu), memory: Bytes(memory) }
    }

    #[test]
    fn products_are_those_of_floats_cut_off() {
        // collection.md 9.3 and 11.3
        assert_eq!(CpuMemory::of_floats(1.005, 1536.7), amount(1004, 1536));
        assert_eq!(amount(100, 100).times(1.15), amount(114, 114));
        for odd in [f64::NAN, -1.0, f64::NEG_INFINITY] {
            assert_eq!(CpuMemory::of_floats(odd, odd), amount(0, 0));
        }
        assert_eq!(CpuMemory::of_floats(f64::INFINITY, 0.0).cpu, MilliCpu(i64::MAX));
    }

    #[test]
    fn each_of_the_two_goes_by_itself() {
        let (a, b) = (amount(3, 10), amount(5, 4));
        assert_eq!((a.min(b), a.max(b)), (amount(3, 4), amount(5, 10)));
        assert_eq!((a.minus(b), a.plus(b)), (amount(0, 6), amount(8, 14)));
        assert_eq!(CpuMemory::of_list(&a.to_list()), a);
        assert_eq!(CpuMemory::of_list(&ResourceList::new()), amount(0, 0));
    }
}
