//! `/proc/meminfo` and a NUMA node's `meminfo`: the fields by the kernel's names, in KiB, and the sums made of
//! them (collection.md 2.2, 6.2, 6.11). Parses text; reads no file.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::units::Bytes;

/// The fields that are kept; the kernel's other fields are ignored.
const NAMES: [&str; 44] = [
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "SwapCached",
    "Active",
    "Inactive",
    "Active(anon)",
    "Inactive(anon)",
    "Active(file)",
    "Inactive(file)",
    "Unevictable",
    "Mlocked",
    "SwapTotal",
    "SwapFree",
    "Dirty",
    "Writeback",
    "AnonPages",
    "Mapped",
    "Shmem",
    "Slab",
    "SReclaimable",
    "SUnreclaim",
    "KernelStack",
    "PageTables",
    "NFS_Unstable",
    "Bounce",
    "WritebackTmp",
    "CommitLimit",
    "Committed_AS",
    "VmallocTotal",
    "VmallocUsed",
    "VmallocChunk",
    "HardwareCorrupted",
    "AnonHugePages",
    "HugePages_Total",
    "HugePages_Free",
    "HugePages_Rsvd",
    "HugePages_Surp",
    "Hugepagesize",
    "DirectMap4k",
    "DirectMap2M",
    "DirectMap1G",
];

/// Memory figures of the machine or of one NUMA node. Serialised under the kernel's names, absent ones as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meminfo {
    values: [Option<u64>; NAMES.len()],
}

impl Default for Meminfo {
    fn default() -> Self {
        Self { values: [None; NAMES.len()] }
    }
}

impl Meminfo {
    /// Parses `/proc/meminfo`. Never fails: a line without a colon or without a value is skipped, a value that
    /// is not a number is 0, of a repeated field the last one counts.
    pub fn parse(text: &str) -> Self {
        Self::from_lines(text.lines())
    }

    /// Parses a NUMA node's file, whose lines start with `Node N `.
    pub fn parse_numa(text: &str) -> Self {
        Self::from_lines(text.lines().filter_map(|line| line.splitn(3, ' ').nth(2)))
    }

    fn from_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut info = Self::default();
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let Some(number) = value.split_whitespace().next() else { continue };
            if let Some(index) = NAMES.iter().position(|known| *known == name)
                && let Some(slot) = info.values.get_mut(index)
            {
                // `parse` alone would take a plus sign.
                let digits = number.bytes().all(|byte| byte.is_ascii_digit());
                *slot = Some(if digits { number.parse().unwrap_or(0) } else { 0 });
            }
        }
        info
    }

    /// A field by the kernel's name, in its own unit (KiB, or pages for `HugePages_*`); `None` if absent.
    pub fn get(&self, name: &str) -> Option<u64> {
        let index = NAMES.iter().position(|known| *known == name)?;
        self.values.get(index).copied().flatten()
    }

    fn kib(&self, name: &str) -> u64 {
        self.get(name).unwrap_or(0)
    }

    /// Memory in use without page cache, collection.md 6.2: MemTotal - MemAvailable; 0 if less than none.
    pub fn used(&self) -> Bytes {
        bytes(self.kib("MemTotal").saturating_sub(self.kib("MemAvailable")))
    }

    /// Memory in use with page cache, collection.md 6.11: MemTotal - MemFree.
    pub fn used_with_page_cache(&self) -> Bytes {
        bytes(self.kib("MemTotal").saturating_sub(self.kib("MemFree")))
    }

    /// Memory in use on a NUMA node, collection.md 6.2, whose file has no `MemAvailable`: MemTotal without free
    /// memory, file pages and reclaimable slab; 0 if less than none.
    pub fn numa_used(&self) -> Bytes {
        let reclaimable = ["MemFree", "Active(file)", "Inactive(file)", "SReclaimable"];
        let free = reclaimable.iter().fold(0u64, |sum, name| sum.saturating_add(self.kib(name)));
        bytes(self.kib("MemTotal").saturating_sub(free))
    }
}

fn bytes(kib: u64) -> Bytes {
    Bytes(kib.saturating_mul(1024))
}

impl Serialize for Meminfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(NAMES.len()))?;
        for (name, value) in NAMES.iter().zip(self.values) {
            map.serialize_entry(name, &value.unwrap_or(0))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn node_memory_follows_the_worked_examples() {
        let info = Meminfo::parse(
            "MemTotal: 16384000 kB\nMemFree: 4096000 kB\nMemAvailable: 7680000 kB\nActive(file): abc kB\n",
        );
        assert_eq!(info.used(), Bytes(8_912_896_000));
        assert_eq!(info.used_with_page_cache(), Bytes(12_582_912_000));
        assert_eq!(info.get("Active(file)"), Some(0));
        assert_eq!(info.get("SReclaimable"), None);
    }

    #[test]
    fn numa_memory_follows_the_worked_examples() {
        let numa = |[total, free, active, inactive, slab]: [u64; 5]| {
            Meminfo::parse_numa(&format!(
                "Node 1 MemTotal: {total} kB\nNode 1 MemFree: {free} kB\nNode 1 Active(file): {active} kB\n\
                 Node 1 Inactive(file): {inactive} kB\nNode 1 SReclaimable: {slab} kB\n"
            ))
            .numa_used()
        };
        assert_eq!(numa([16_384_000, 4_096_000, 1_024_000, 2_048_000, 512_000]), Bytes(8_912_896_000));
        assert_eq!(numa([8_388_608, 2_097_152, 524_288, 1_048_576, 131_072]), Bytes(4_697_620_480));
        assert_eq!(numa([1000, 900, 60, 50, 0]), Bytes(0));
    }

    #[test]
    fn h07_a_line_without_a_value_is_skipped() {
        let info = Meminfo::parse("HugePages_Total:\nMemTotal: 1 kB\nMemFree:   \nMemFree 7 kB\n");
        assert_eq!(info, Meminfo::parse("MemTotal: 1 kB"));
    }

    #[test]
    fn h08_more_available_than_there_is_gives_zero() {
        assert_eq!(Meminfo::parse("MemTotal: 100 kB\nMemAvailable: 120 kB\n").used(), Bytes(0));
    }

    #[test]
    fn numbers_that_do_not_fit_give_zero() {
        for bad in ["-5", "+5", "18446744073709551616", "0x10", "1.5"] {
            assert_eq!(Meminfo::parse(&format!("MemTotal: {bad} kB")).get("MemTotal"), Some(0), "{bad}");
        }
        let largest = Meminfo::parse(&format!("MemTotal: {} kB", u64::MAX));
        assert_eq!(largest.used(), Bytes(u64::MAX));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "(Node [0-9]? ?)?(MemTotal|MemFree|x)?:?[ 0-9a-z\\n:-]{0,60}") {
            let (info, numa) = (Meminfo::parse(&text), Meminfo::parse_numa(&text));
            let _ = (info.used(), info.used_with_page_cache(), numa.numa_used());
        }
    }
}
