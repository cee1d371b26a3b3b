//! Statistics files -> figures, the same for both versions, collection.md 3.7. Text in, figures out: who
//! reads the files is `held_file`.

use std::collections::BTreeMap;

use super::layout::{CgroupVersion, Layout};
use super::resource::Resource;
use crate::units::{Bytes, Nanos};

/// Text that does not say what its file should say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatError {
    /// An entry is missing.
    #[error("{resource:?} has no {key}")]
    Missing {
        /// The resource.
        resource: Resource,
        /// Name of the entry.
        key: &'static str,
    },
    /// A number or line is malformed.
    #[error("{resource:?} has the malformed text {text:?}")]
    Malformed {
        /// The resource.
        resource: Resource,
        /// The start of the text.
        text: String,
    },
}

impl StatError {
    pub(super) fn malformed(resource: Resource, text: &str) -> Self {
        Self::Malformed { resource, text: text.chars().take(80).collect() }
    }
}

/// Throttling figures of a group since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which the group ran.
    pub periods: u64,
    /// Those in which it was throttled.
    pub throttled: u64,
    /// Time for which it was.
    pub time: Nanos,
}

impl Throttling {
    /// Share of periods that were throttled since `earlier`, collection.md 6.7: 0 if no period passed, `None`
    /// if a counter went back (the group is another one).
    pub fn ratio_since(&self, earlier: &Self) -> Option<f64> {
        let periods = self.periods.checked_sub(earlier.periods)?;
        let throttled = self.throttled.checked_sub(earlier.throttled)?;
        Some(if periods == 0 { 0.0 } else { throttled as f64 / periods as f64 })
    }
}

/// Memory of a group with all beneath it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStat {
    /// Anonymous pages on the inactive list.
    pub inactive_anon: Bytes,
    /// Anonymous pages on the active list.
    pub active_anon: Bytes,
    /// Pages that cannot be reclaimed.
    pub unevictable: Bytes,
    /// File pages on the inactive list.
    pub inactive_file: Bytes,
    /// File pages on the active list.
    pub active_file: Bytes,
    /// Page cache.
    pub cache: Bytes,
    /// Anonymous memory that is mapped.
    pub rss: Bytes,
}

impl MemoryStat {
    /// Usage without page cache: inactive and active anonymous plus unevictable.
    pub fn without_page_cache(&self) -> Bytes {
        self.inactive_anon + self.active_anon + self.unevictable
    }

    /// Usage with page cache.
    pub fn with_page_cache(&self) -> Bytes {
        self.without_page_cache() + self.inactive_file + self.active_file
    }

    /// The kubelet's working set: all memory in use less inactive file pages, at least 0 (C047, C049).
    pub fn working_set(&self, usage: Bytes) -> Bytes {
        usage - self.inactive_file
    }
}

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PressureLine {
    /// Percent of the last 10 s.
    pub avg10: f64,
    /// Percent of the last 60 s.
    pub avg60: f64,
    /// Percent of the last 300 s.
    pub avg300: f64,
    /// Microseconds since the group was made.
    pub total: u64,
}

/// A pressure file. Collectors need `some`; `full` is missing on old kernels for CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// Some task waited.
    pub some: Option<PressureLine>,
    /// All tasks waited.
    pub full: Option<PressureLine>,
}

impl Layout {
    /// CPU time of a group, from the text of `Resource::CpuUsage`. Throttling figures may be missing there
    /// (the root, or the controller is off): usage is kept (H10).
    pub fn parse_cpu_time(&self, text: &str) -> Result<Nanos, StatError> {
        let resource = Resource::CpuUsage;
        if self.is_v1(resource) {
            return counter(resource, text.trim_matches('\n')).map(Nanos);
        }
        let [usec] = entries(resource, text, ["usage_usec"])?;
        nanos_of_micros(resource, usec)
    }

    /// Throttling of a group, from the text of `Resource::CpuStat`.
    pub fn parse_throttling(&self, text: &str) -> Result<Throttling, StatError> {
        let resource = Resource::CpuStat;
        let v1 = self.is_v1(resource);
        let time_key = if v1 { "throttled_time" } else { "throttled_usec" };
        let [periods, throttled, time] = entries(resource, text, ["nr_periods", "nr_throttled", time_key])?;
        let time = if v1 { Nanos(time) } else { nanos_of_micros(resource, time)? };
        Ok(Throttling { periods, throttled, time })
    }

    /// Memory of a group, from the text of `Resource::MemoryStat`; no allocation.
    pub fn parse_memory_stat(&self, text: &str) -> Result<MemoryStat, StatError> {
        let keys = if self.is_v1(Resource::MemoryStat) {
            [
                "total_inactive_anon",
                "total_active_anon",
                "total_unevictable",
                "total_inactive_file",
                "total_active_file",
                "total_cache",
                "total_rss",
            ]
        } else {
            ["inactive_anon", "active_anon", "unevictable", "inactive_file", "active_file", "file", "anon"]
        };
        let [inactive_anon, active_anon, unevictable, inactive_file, active_file, cache, rss] =
            entries(Resource::MemoryStat, text, keys)?.map(Bytes);
        Ok(MemoryStat { inactive_anon, active_anon, unevictable, inactive_file, active_file, cache, rss })
    }

    /// Memory in use including page cache, from the text of `Resource::MemoryUsage`.
    pub fn parse_memory_usage(&self, text: &str) -> Result<Bytes, StatError> {
        counter(Resource::MemoryUsage, text.trim_matches('\n')).map(Bytes)
    }

    /// Memory of a group and all beneath it without page cache, in bytes by NUMA node, from the text of
    /// `Resource::MemoryNumaStat`. Node ids may have gaps (H09). The reference takes other lines (C4); v1
    /// kernels without hierarchical lines have only `total`.
    pub fn parse_numa_memory(&self, text: &str) -> Result<BTreeMap<u32, Bytes>, StatError> {
        let resource = Resource::MemoryNumaStat;
        let lines = numa_lines(text);
        let page = self.page_size();
        let (sums, scale) = if self.is_v1(resource) {
            let hierarchical = lines.sum(&["hierarchical_anon", "hierarchical_unevictable"], &[]);
            (hierarchical.or_else(|| lines.sum(&["total"], &[])), page)
        } else {
            // `anon` counts locked pages that `unevictable` counts too; the lists do not overlap.
            let lists = lines.sum(&["inactive_anon", "active_anon", "unevictable"], &[]);
            (lists.or_else(|| lines.sum(&["anon"], &["unevictable"])), 1)
        };
        let key = if self.is_v1(resource) { "total line" } else { "anon line" };
        let sums = sums.ok_or(StatError::Missing { resource, key })?;
        if !lines.agree_on_nodes() {
            return Err(StatError::malformed(resource, text));
        }
        Ok(sums.into_iter().map(|(node, amount)| (node, Bytes(amount.saturating_mul(scale)))).collect())
    }

    fn is_v1(&self, resource: Resource) -> bool {
        self.version(resource.controller()) == Some(CgroupVersion::V1)
    }
}

/// Process or thread ids, from the text of `Resource::Procs` or `Resource::Tasks`.
pub fn parse_pids(resource: Resource, text: &str) -> Result<Vec<u32>, StatError> {
    let pids = text.split_ascii_whitespace();
    pids.map(|pid| unsigned(pid).ok_or_else(|| StatError::malformed(resource, pid))).collect()
}

/// A pressure file. Every line must be `some` or `full`.
pub fn parse_pressure(resource: Resource, text: &str) -> Result<Pressure, StatError> {
    let mut pressure = Pressure::default();
    for line in text.lines() {
        let error = || StatError::malformed(resource, line);
        let mut fields = line.split_ascii_whitespace();
        let into = match fields.next() {
            Some("some") => &mut pressure.some,
            Some("full") => &mut pressure.full,
            _ => return Err(error()),
        };
        let mut value = |key: &str| {
            let (found, value) = fields.next()?.split_once('=')?;
            (found == key).then_some(value)
        };
        let average = |text: Option<&str>| text?.parse::<f64>().ok().filter(|value| value.is_finite());
        *into = Some(PressureLine {
            avg10: average(value("avg10")).ok_or_else(error)?,
            avg60: average(value("avg60")).ok_or_else(error)?,
            avg300: average(value("avg300")).ok_or_else(error)?,
            total: value("total").and_then(unsigned).ok_or_else(error)?,
        });
    }
    Ok(pressure)
}

/// Digits only, unlike `parse`, which takes a sign.
pub(super) fn unsigned<T: std::str::FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// A counter that is alone in its file. `max` is the largest signed number, as the reference reads it.
fn counter(resource: Resource, text: &str) -> Result<u64, StatError> {
    if text == "max" {
        return Ok(i64::MAX.unsigned_abs());
    }
    unsigned(text).ok_or_else(|| StatError::malformed(resource, text))
}

fn nanos_of_micros(resource: Resource, usec: u64) -> Result<Nanos, StatError> {
    let nanos = usec.checked_mul(1000);
    nanos.map(Nanos).ok_or_else(|| StatError::malformed(resource, "microseconds beyond 64 bits"))
}

/// The values of lines `key value`; all keys must be there, and the last of equal lines counts.
fn entries<const N: usize>(
    resource: Resource,
    text: &str,
    keys: [&'static str; N],
) -> Result<[u64; N], StatError> {
    let mut found = [None; N];
    for line in text.lines() {
        let mut fields = line.split_ascii_whitespace();
        let Some(key) = fields.next() else { continue };
        let slot = keys.iter().zip(&mut found).find(|(wanted, _)| **wanted == key);
        if let (Some((_, slot)), Some(value)) = (slot, fields.next()) {
            *slot = Some(unsigned(value).ok_or_else(|| StatError::malformed(resource, line))?);
        }
    }
    let mut values = [0; N];
    for ((value, found), key) in values.iter_mut().zip(found).zip(keys) {
        *value = found.ok_or(StatError::Missing { resource, key })?;
    }
    Ok(values)
}

/// Lines of `memory.numa_stat`: name -> node -> amount.
struct NumaLines<'a>(BTreeMap<&'a str, BTreeMap<u32, u64>>);

/// Reads `name[=total] N0=a N8=b`; lines of another form are left out (C066).
fn numa_lines(text: &str) -> NumaLines<'_> {
    let lines = text.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let first = fields.next()?;
        let name = first.split_once('=').map_or(first, |(name, _)| name);
        let amounts = fields.map(|field| {
            let (node, amount) = field.strip_prefix('N')?.split_once('=')?;
            Some((unsigned(node)?, unsigned(amount)?))
        });
        let amounts: BTreeMap<u32, u64> = amounts.collect::<Option<_>>()?;
        (!amounts.is_empty()).then_some((name, amounts))
    });
    NumaLines(lines.collect())
}

impl NumaLines<'_> {
    /// Sum by node over `required` lines, and `optional` ones where they are; `None` if a required one is
    /// missing.
    fn sum(&self, required: &[&str], optional: &[&str]) -> Option<BTreeMap<u32, u64>> {
        let mut sums = BTreeMap::new();
        let required = required.iter().map(|name| self.0.get(name).map(Some));
        for line in required.chain(optional.iter().map(|name| Some(self.0.get(name)))) {
            for (node, amount) in line?.into_iter().flatten() {
                let sum: &mut u64 = sums.entry(*node).or_default();
                *sum = sum.saturating_add(*amount);
            }
        }
        Some(sums)
    }

    /// Whether all lines list the same nodes, as every kernel prints them.
    fn agree_on_nodes(&self) -> bool {
        let mut lines = self.0.values();
        lines.next().is_none_or(|first| lines.all(|line| line.keys().eq(first.keys())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(entries: &[&str]) -> Layout {
        let folder = tempfile::tempdir().unwrap();
        for entry in entries {
            std::fs::create_dir(folder.path().join(entry)).unwrap();
        }
        Layout::of_folder(folder.path()).unwrap()
    }

    fn v1() -> Layout {
        host(&["cpu", "cpuacct", "cpuset", "memory"])
    }

    fn v2() -> Layout {
        host(&["cgroup.controllers"])
    }

    #[test]
    fn h10_cpu_time_needs_no_throttling_figures() {
        let text = "usage_usec 5\nuser_usec 3\nsystem_usec 2\n";
        assert_eq!(v2().parse_cpu_time(text), Ok(Nanos(5000)));
        assert!(matches!(v2().parse_throttling(text), Err(StatError::Missing { key: "nr_periods", .. })));
        assert!(v2().parse_cpu_time("usage_usec 99999999999999999\n").is_err());
    }

    #[test]
    fn h09_c066_numa_nodes_may_have_gaps_and_bad_lines_are_left_out() {
        let nodes = |host: &Layout, text: &str| {
            let nodes = host.parse_numa_memory(text)?;
            Ok::<_, StatError>(nodes.into_iter().map(|(node, bytes)| (node, bytes.0)).collect::<Vec<_>>())
        };
        assert_eq!(nodes(&v2(), "anon N0=4096 N8=8192\n").unwrap(), [(0, 4096), (8, 8192)]);
        let pages = v1().page_size();
        assert_eq!(nodes(&v1(), "total=3 N0=3\nfile\n").unwrap(), [(0, 3 * pages)]);
        assert!(nodes(&v1(), "total=3 N0\n").is_err());
        assert!(nodes(&v2(), "anon N0=1 N1=1\nfile N0=1\n").is_err(), "lines disagree");
    }

    #[test]
    fn c4_numa_memory_is_hierarchical_without_page_cache_and_in_bytes() {
        let text = "total=9 N0=9\nfile=5 N0=5\nanon=4 N0=4\nunevictable=0 N0=0\n\
                    hierarchical_total=90 N0=90\nhierarchical_file=50 N0=50\n\
                    hierarchical_anon=30 N0=30\nhierarchical_unevictable=10 N0=10\n";
        let page = v1().page_size();
        assert_eq!(v1().parse_numa_memory(text).unwrap()[&0], Bytes(40 * page));
        let text =
            "anon N0=9000\nfile N0=50\ninactive_anon N0=5000\nactive_anon N0=3000\nunevictable N0=1000\n";
        assert_eq!(v2().parse_numa_memory(text).unwrap()[&0], Bytes(9000));
    }

    #[test]
    fn c047_c049_a_working_set_is_usage_less_inactive_file_pages_and_never_wraps() {
        let stat = MemoryStat {
            inactive_file: Bytes(300),
            active_file: Bytes(400),
            active_anon: Bytes(250),
            ..MemoryStat::default()
        };
        assert_eq!(stat.working_set(Bytes(1000)), Bytes(700));
        assert_eq!(stat.working_set(Bytes(100)), Bytes(0));
        assert_eq!((stat.without_page_cache(), stat.with_page_cache()), (Bytes(250), Bytes(950)));
    }

    #[test]
    fn worked_examples_5_and_7() {
        let text = "inactive_anon 4096\nactive_anon 8192\nunevictable 0\ninactive_file 1024\nactive_file 2048\n\
                    file 1\nanon 1\n";
        let stat = v2().parse_memory_stat(text).unwrap();
        assert_eq!((stat.without_page_cache(), stat.with_page_cache()), (Bytes(12_288), Bytes(15_360)));
        let at = |periods, throttled| Throttling { periods, throttled, time: Nanos(0) };
        assert_eq!(at(20, 5).ratio_since(&at(10, 3)), Some(0.2));
        assert_eq!(at(10, 5).ratio_since(&at(10, 3)), Some(0.0));
        assert_eq!(at(9, 5).ratio_since(&at(10, 3)), None);
    }

    #[test]
    fn pressure_without_a_full_line_is_an_old_kernel() {
        let some = "some avg10=1.50 avg60=0.80 avg300=0.20 total=42\n";
        let pressure = parse_pressure(Resource::CpuPressure, some).unwrap();
        assert_eq!(pressure.some.unwrap().avg10.to_bits(), 1.5f64.to_bits());
        assert!(pressure.full.is_none());
        for bad in ["", "some\n", "half avg10=1 avg60=1 avg300=1 total=1\n", "some avg10=nan avg60=1\n", "\n"]
        {
            let parsed = parse_pressure(Resource::CpuPressure, &format!("{some}{bad}"));
            assert_eq!(parsed.is_ok(), bad.is_empty(), "{bad:?}");
        }
    }
}
