//! `/proc/stat` and `/proc/meminfo` -> figures of the whole node, collection.md 6.2. Rates are made from
//! these elsewhere.
//!
//! Own parsers, since a node's `/proc/stat` is read every second for five numbers of its first line.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::host::meminfo::Meminfo;
use crate::host::text_file;
use crate::host::topology::ProcessorInfo;
use crate::state::usage::NanoCpu;
use crate::units::Nanos;

/// Why a file of the node could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// The kernel did not give it.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It does not say what is looked for.
    #[error("cannot use {}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: StatError,
    },
}

/// What is wrong with the text of `/proc/stat`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatError {
    /// There is no line for it.
    #[error("there is no line {0:?}")]
    Missing(&'static str),
    /// A line has too few columns, or one of those in use is no number.
    #[error("the line {0:?} is malformed")]
    Malformed(String),
}

/// Ticks of all CPUs together in which something ran: user, nice, system, irq and softirq. Guest time is in
/// user already; idle, iowait and steal are not the node's use.
pub fn total_ticks(stat: &str) -> Result<u64, StatError> {
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some("cpu"));
    ticks(line.ok_or(StatError::Missing("cpu"))?)
}

/// The same for each CPU. One malformed line makes the whole text unusable.
pub fn per_cpu_ticks(stat: &str) -> Result<BTreeMap<u32, u64>, StatError> {
    let mut all = BTreeMap::new();
    for line in stat.lines() {
        let label = line.split_whitespace().next().and_then(|label| label.strip_prefix("cpu"));
        if let Some(cpu) = label.and_then(|number| number.parse().ok()) {
            all.insert(cpu, ticks(line)?);
        }
    }
    if all.is_empty() { Err(StatError::Missing("cpu0")) } else { Ok(all) }
}

/// Columns after the label that count, and how many there are at least.
const BUSY_COLUMNS: [usize; 5] = [0, 1, 2, 5, 6];

fn ticks(line: &str) -> Result<u64, StatError> {
    let malformed = || StatError::Malformed(line.chars().take(120).collect());
    let mut sum = 0u64;
    let mut count = 0;
    for (column, text) in line.split_whitespace().skip(1).take(7).enumerate() {
        if BUSY_COLUMNS.contains(&column) {
            let number: u64 = text.parse().map_err(|_| malformed())?;
            sum = sum.checked_add(number).ok_or_else(malformed)?;
        }
        count += 1;
    }
    if count < 7 { Err(malformed()) } else { Ok(sum) }
}

/// CPU use of each NUMA node between two readings of `per_cpu_ticks`, collection.md 6.2.
///
/// A CPU that was absent before, or whose counter went back, is left out; a node without any other has no
/// figure. No figures at all if no time passed.
pub fn numa_cpu(
    before: &BTreeMap<u32, u64>,
    now: &BTreeMap<u32, u64>,
    cpus: &[ProcessorInfo],
    jiffy: Nanos,
    elapsed: Nanos,
) -> BTreeMap<u32, NanoCpu> {
    let mut ticks: BTreeMap<u32, u64> = BTreeMap::new();
    for info in cpus {
        if let (Some(before), Some(now)) = (before.get(&info.cpu), now.get(&info.cpu))
            && let Some(delta) = now.checked_sub(*before)
        {
            let sum = ticks.entry(info.node).or_default();
            *sum = sum.saturating_add(delta);
        }
    }
    let used = |ticks: u64| Nanos(ticks.saturating_mul(jiffy.0));
    ticks.into_iter().filter_map(|(node, ticks)| Some((node, NanoCpu::over(used(ticks), elapsed)?))).collect()
}

/// Ticks of one moment.
#[derive(Debug)]
pub struct AllTicks {
    /// Of the whole node.
    pub node: u64,
    /// Of each CPU; they may be unusable where the node's are not.
    pub cpus: Result<BTreeMap<u32, u64>, ProcError>,
}

/// Reads the node's files again and again into one buffer.
#[derive(Debug)]
pub struct ProcReader {
    stat: PathBuf,
    meminfo: PathBuf,
    buffer: String,
}

impl ProcReader {
    /// For the files below `proc`.
    pub fn new(proc: &Path) -> Self {
        Self { stat: proc.join("stat"), meminfo: proc.join("meminfo"), buffer: String::new() }
    }

    /// Ticks of the whole node.
    pub fn total_ticks(&mut self) -> Result<u64, ProcError> {
        let text = read(&self.stat, &mut self.buffer)?;
        total_ticks(text).map_err(|source| ProcError::Parse { path: self.stat.clone(), source })
    }

    /// Ticks of each CPU.
    pub fn per_cpu_ticks(&mut self) -> Result<BTreeMap<u32, u64>, ProcError> {
        let text = read(&self.stat, &mut self.buffer)?;
        per_cpu_ticks(text).map_err(|source| ProcError::Parse { path: self.stat.clone(), source })
    }

    /// Ticks of the whole node, and of each CPU at the same moment.
    pub fn all_ticks(&mut self) -> Result<AllTicks, ProcError> {
        let text = read(&self.stat, &mut self.buffer)?;
        let unusable = |source| ProcError::Parse { path: self.stat.clone(), source };
        let node = total_ticks(text).map_err(unusable)?;
        Ok(AllTicks { node, cpus: per_cpu_ticks(text).map_err(unusable) })
    }

    /// Memory of the whole node.
    pub fn meminfo(&mut self) -> Result<Meminfo, ProcError> {
        Ok(Meminfo::parse(read(&self.meminfo, &mut self.buffer)?))
    }
}

fn read<'a>(path: &Path, buffer: &'a mut String) -> Result<&'a str, ProcError> {
    text_file::read_into(path, buffer).map_err(|source| ProcError::Read { path: path.to_owned(), source })?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::host::machines::Machine;
    use crate::host::topology::NodeCpuInfo;

    const JIFFY: Nanos = Nanos(10_000_000);
    const SECOND: Nanos = Nanos(1_000_000_000);

    #[test]
    fn node_ticks_follow_the_worked_examples() {
        assert_eq!(total_ticks("cpu 1000 0 500 9000 10 20 30 5 0 0\n"), Ok(1550));
        assert_eq!(total_ticks("cpu 1120 10 540 9220 12 21 35 5 0 0\n"), Ok(1726));
    }

    #[test]
    fn c077_idle_iowait_steal_and_guest_are_left_out() {
        assert_eq!(total_ticks("cpu 1 2 3 4 5 6 7 8 9 10\n"), Ok(1 + 2 + 3 + 6 + 7));
    }

    #[test]
    fn numa_cpu_follows_the_worked_example() {
        let before = "cpu 200 20 100 5000 7 3 2 9 4 1\ncpu0 110 10 60 2500 4 2 1 4 2 1\n\
                      cpu1 90 10 40 2500 3 1 1 5 2 0";
        let now = "cpu 290 25 140 5080 9 6 4 12 8 2\ncpu0 180 12 80 2520 5 4 2 6 5 2\n\
                   cpu1 110 13 60 2560 4 2 2 6 3 0";
        assert_eq!((total_ticks(before), total_ticks(now)), (Ok(325), Ok(465)));
        let cpus = [cpu_on_node(0, 0), cpu_on_node(1, 1)];
        let (before, now) = (per_cpu_ticks(before).unwrap(), per_cpu_ticks(now).unwrap());
        let usage = numa_cpu(&before, &now, &cpus, JIFFY, SECOND);
        assert_eq!(usage, BTreeMap::from([(0, NanoCpu(950_000_000)), (1, NanoCpu(450_000_000))]));
        assert!(numa_cpu(&before, &now, &cpus, JIFFY, Nanos(0)).is_empty());
        let first_only = BTreeMap::from([(0, 183), (1, 188)]);
        let usage = numa_cpu(&first_only, &now, &cpus, JIFFY, SECOND);
        assert_eq!(usage.keys().copied().collect::<Vec<_>>(), [0], "cpu1 went back");
    }

    fn cpu_on_node(cpu: u32, node: u32) -> ProcessorInfo {
        let (l1dl1il2, online) = ("0".to_owned(), "yes".to_owned());
        ProcessorInfo { cpu, core: cpu, socket: 0, node, l1dl1il2, l3: 0, online }
    }

    #[test]
    fn malformed_lines_are_errors_and_others_are_not_looked_at() {
        for text in ["", "cpu 1 2 3 4 5 6\n", "cpu0 1 2 3 4 5 6 7\n", "cpu x 2 3 4 5 6 7\n", "cpu\n"] {
            assert!(total_ticks(text).is_err(), "{text:?}");
        }
        assert_eq!(total_ticks("\n  \ncpu 1 2 3 x y 6 7\ncpu0 1\n"), Ok(19));
        assert!(per_cpu_ticks("cpu0 1 2 3 4 5 6 7\ncpu1 1 2\n").is_err());
        assert!(total_ticks(&format!("cpu {0} {0} 0 0 0 0 0", u64::MAX)).is_err());
    }

    #[test]
    fn each_kind_of_machine_gives_the_use_beside_it() {
        for machine in Machine::all() {
            let (shape, expected) = (machine.path.display(), &machine.expected);
            let roots = machine.roots();
            let [first, second] = ["stat", "stat.1s-later"].map(|name| {
                let text = std::fs::read_to_string(roots.proc.join(name)).unwrap();
                (total_ticks(&text).unwrap(), per_cpu_ticks(&text).unwrap())
            });
            let ticks = second.0 - first.0;
            let node = NanoCpu::over(Nanos(ticks * JIFFY.0), SECOND).unwrap();
            let cpus = NodeCpuInfo::read(&roots).unwrap().processor_infos;
            let numa: BTreeMap<_, _> = numa_cpu(&first.1, &second.1, &cpus, JIFFY, SECOND)
                .into_iter()
                .map(|(node, cpu)| (node.to_string(), cpu.milli().0))
                .collect();
            let use_of = json!({"node": node.milli().0, "numa": numa});
            assert_eq!(use_of, expected["milliCpuOverOneSecond"], "{shape}");
            let memory = ProcReader::new(&roots.proc).meminfo().unwrap();
            let memory = json!({
                "total": memory.get("MemTotal"),
                "used": memory.used().0 / 1024,
                "usedWithPageCache": memory.used_with_page_cache().0 / 1024,
            });
            assert_eq!(memory, expected["memoryKiB"], "{shape}");
        }
    }

    #[test]
    fn files_are_found_below_the_root() {
        let mut reader = ProcReader::new(&Machine::named("two-sockets-smt").roots().proc);
        assert_eq!(reader.total_ticks().unwrap(), 1550);
        assert_eq!(reader.per_cpu_ticks().unwrap().len(), 8);
        assert_eq!(reader.meminfo().unwrap().used().0, 8_912_896_000);
        let error = ProcReader::new(Path::new("/nonexistent")).total_ticks().unwrap_err();
        assert!(matches!(error, ProcError::Read { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "(cpu[0-9]{0,11} [ 0-9x-]{0,60}\\n){0,3}") {
            let _ = (total_ticks(&text).is_ok(), per_cpu_ticks(&text).is_ok());
        }
    }
}
