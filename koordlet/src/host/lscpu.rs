//! sysfs -> one row for each online CPU, numbered as `lscpu -e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE` numbers it
//! (collection.md 2.1). No command is run.
//!
//! The numbers are logical, not the firmware's: walking the CPUs upwards, each set of siblings that was not
//! met before is the next core (`thread_siblings`) or socket (`core_siblings`). A core number is thus unique
//! in the machine. util-linux 2.37 and later start anew for each CPU model of a big.LITTLE machine, which
//! would merge cores of different models: here they stay apart.

use std::fs;
use std::path::Path;

use super::text_file;
use super::topology::TopologyError;
use crate::cpuset::CpuSet;

/// One online CPU, before it is sorted and grouped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) cpu: u32,
    pub(super) node: u32,
    pub(super) socket: u32,
    pub(super) core: u32,
    pub(super) l1: String,
    pub(super) l3: i32,
}

/// The machine as sysfs shows it: rows in the order of the CPU numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    /// Most CPUs that any core has.
    pub(super) threads_per_core: usize,
}

/// Reads the CPUs below `<sys>/devices/system/cpu`.
///
/// Left out are CPUs that are offline, or that have no topology (about to go offline). A machine without
/// NUMA directories has everything on node 0; without cache figures L1 is `"0"` and L3 is 0.
pub(super) fn read(sys: &Path) -> Result<Rows, TopologyError> {
    let dir = sys.join("devices/system/cpu");
    let numbers =
        numbered(&dir, "cpu").map_err(|source| TopologyError::Unreadable { path: dir.clone(), source })?;
    let listed = list(&dir.join("online"));
    let online = |cpu: u32| {
        // A CPU that cannot be switched off (cpu0 on most machines) has no such file.
        listed.as_ref().is_none_or(|set| set.contains(cpu))
            && text(&dir.join(format!("cpu{cpu}/online"))).is_none_or(|state| state != "0")
    };
    let cpus: Vec<u32> = numbers
        .into_iter()
        .filter(|cpu| online(*cpu) && dir.join(format!("cpu{cpu}/topology")).is_dir())
        .collect();

    let (mut cores, mut sockets, mut caches) = (Groups::default(), Groups::default(), Caches::default());
    for &cpu in &cpus {
        let topology = dir.join(format!("cpu{cpu}/topology"));
        cores.add(cpu, || siblings(&topology, CORE_FILES).or_else(|| same_core(&dir, &cpus, cpu)));
        sockets.add(cpu, || siblings(&topology, SOCKET_FILES).or_else(|| same_socket(&dir, &cpus, cpu)));
        caches.add(cpu, &dir.join(format!("cpu{cpu}/cache")));
    }
    let nodes = numa_nodes(sys);
    let rows = cpus.iter().map(|&cpu| Row {
        cpu,
        node: nodes.iter().find(|(_, set)| set.contains(cpu)).map_or(0, |(node, _)| *node),
        socket: sockets.index(cpu),
        core: cores.index(cpu),
        l1: caches.first(cpu).map_or_else(|| "0".to_owned(), |id| id.to_string()),
        l3: caches.level3(cpu).unwrap_or(0),
    });
    Ok(Rows { rows: rows.collect(), threads_per_core: cores.0.iter().map(CpuSet::len).max().unwrap_or(0) })
}

/// Files that name the threads of a core: (mask, list) by today's name and by the one before 5.1.
const CORE_FILES: [(&str, &str); 2] =
    [("thread_siblings", "thread_siblings_list"), ("core_cpus", "core_cpus_list")];

/// Files that name the CPUs of a socket.
const SOCKET_FILES: [(&str, &str); 2] =
    [("core_siblings", "core_siblings_list"), ("package_cpus", "package_cpus_list")];

fn siblings(topology: &Path, files: [(&str, &str); 2]) -> Option<CpuSet> {
    files.iter().find_map(|(mask_file, list_file)| {
        mask(&topology.join(mask_file)).or_else(|| list(&topology.join(list_file)))
    })
}

/// CPUs of the same core by the firmware's ids, where no sibling file exists.
fn same_core(dir: &Path, cpus: &[u32], cpu: u32) -> Option<CpuSet> {
    same_ids(dir, cpus, cpu, &["core_id", "die_id", "physical_package_id"])
}

/// CPUs of the same socket by the firmware's id, where no sibling file exists.
fn same_socket(dir: &Path, cpus: &[u32], cpu: u32) -> Option<CpuSet> {
    same_ids(dir, cpus, cpu, &["physical_package_id"])
}

fn same_ids(dir: &Path, cpus: &[u32], cpu: u32, files: &[&str]) -> Option<CpuSet> {
    let ids = |cpu: u32| -> Vec<Option<i32>> {
        files.iter().map(|file| number(&dir.join(format!("cpu{cpu}/topology/{file}")))).collect()
    };
    let own = ids(cpu);
    own.first()?.is_some().then(|| cpus.iter().copied().filter(|other| ids(*other) == own).collect())
}

/// Disjoint sets of CPUs, numbered in the order in which their first member was met.
#[derive(Default)]
struct Groups(Vec<CpuSet>);

impl Groups {
    /// Adds the group of `cpu` unless it is known. A CPU without siblings files is a group of its own.
    fn add(&mut self, cpu: u32, siblings: impl FnOnce() -> Option<CpuSet>) {
        if self.0.iter().any(|group| group.contains(cpu)) {
            return;
        }
        let mut group = siblings().unwrap_or_default();
        group.insert(cpu);
        self.0.push(group);
    }

    fn index(&self, cpu: u32) -> u32 {
        let index = self.0.iter().position(|group| group.contains(cpu)).unwrap_or(0);
        u32::try_from(index).unwrap_or(u32::MAX)
    }
}

/// A cache as lscpu tells caches apart: by type, level and id.
struct Cache {
    /// `L1d`, `L1i`, `L2`: lscpu orders a CPU's caches by this text.
    name: String,
    id: i32,
    shared: CpuSet,
}

/// Caches of all CPUs.
#[derive(Default)]
struct Caches(Vec<Cache>);

impl Caches {
    fn add(&mut self, cpu: u32, dir: &Path) {
        for index in 0.. {
            let cache = dir.join(format!("index{index}"));
            if !cache.is_dir() {
                return;
            }
            let (Some(level), Some(kind)) = (number(&cache.join("level")), text(&cache.join("type"))) else {
                continue;
            };
            let suffix = match kind.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            let name = format!("L{level}{suffix}");
            let id = number(&cache.join("id")).unwrap_or_else(|| self.made_up_id(cpu, &name));
            let shared =
                || mask(&cache.join("shared_cpu_map")).or_else(|| list(&cache.join("shared_cpu_list")));
            match self.0.iter_mut().find(|known| known.id == id && known.name == name) {
                Some(known) if known.shared.contains(cpu) => {}
                Some(known) => {
                    // Only where sysfs does not tell the sharing: the same id then means the same cache.
                    if shared().is_none() {
                        known.shared.insert(cpu);
                    }
                }
                None => {
                    let shared = shared().unwrap_or_else(|| CpuSet::from_iter([cpu]));
                    self.0.push(Cache { name, id, shared });
                }
            }
        }
    }

    /// The id of a cache that sysfs gives none (before 4.11, and arm64 without firmware tables): its place
    /// among the caches of the same name.
    fn made_up_id(&self, cpu: u32, name: &str) -> i32 {
        let mut same = self.0.iter().filter(|cache| cache.name == name);
        let count = same.clone().count();
        let index = same.position(|cache| cache.shared.contains(cpu)).unwrap_or(count);
        i32::try_from(index).unwrap_or(i32::MAX)
    }

    /// Id of the CPU's first cache in the order of names: L1d where there is one.
    fn first(&self, cpu: u32) -> Option<i32> {
        let own = self.0.iter().filter(|cache| cache.shared.contains(cpu));
        own.min_by(|a, b| a.name.cmp(&b.name)).map(|cache| cache.id)
    }

    fn level3(&self, cpu: u32) -> Option<i32> {
        self.0.iter().find(|cache| cache.name == "L3" && cache.shared.contains(cpu)).map(|cache| cache.id)
    }
}

/// NUMA nodes with their CPUs, in the order of their numbers; empty without NUMA directories.
fn numa_nodes(sys: &Path) -> Vec<(u32, CpuSet)> {
    let dirs = [sys.join("devices/system/node"), sys.join("bus/node/devices")];
    let nodes = dirs.iter().find_map(|dir| {
        let numbers = numbered(dir, "node").ok()?;
        let cpus = |node: &u32| {
            let node = dir.join(format!("node{node}"));
            mask(&node.join("cpumap")).or_else(|| list(&node.join("cpulist"))).unwrap_or_default()
        };
        Some(numbers.iter().map(|node| (*node, cpus(node))).collect())
    });
    nodes.unwrap_or_default()
}

/// Numbers N of the entries `<prefix>N` of a directory, ascending.
pub(super) fn numbered(dir: &Path, prefix: &str) -> Result<Vec<u32>, std::io::Error> {
    let mut numbers: Vec<u32> = fs::read_dir(dir)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A small sysfs file without its line break; `None` if it cannot be read or holds nothing.
pub(super) fn text(path: &Path) -> Option<String> {
    let content = text_file::read(path).ok()?;
    let trimmed = content.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

fn number(path: &Path) -> Option<i32> {
    text(path)?.parse().ok()
}

/// A file in list form (`0-3,8`); `None` also if it is malformed.
pub(super) fn list(path: &Path) -> Option<CpuSet> {
    text(path)?.parse().ok()
}

fn mask(path: &Path) -> Option<CpuSet> {
    parse_mask(&text(path)?)
}

/// A CPU mask: hexadecimal words of 32 bits, the highest first, joined by commas.
fn parse_mask(text: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    for (index, word) in text.rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        let base = u32::try_from(index).ok()?.checked_mul(u32::BITS)?;
        (0..u32::BITS).filter(|bit| bits & (1 << bit) != 0).for_each(|bit| cpus.insert(base + bit));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_several_words_start_with_the_highest() {
        for (text, cpus) in
            [("3", "0-1"), ("00000000,00000000", ""), ("80000001,00000000,0000000f", "0-3,64,95")]
        {
            assert_eq!(parse_mask(text).unwrap().to_string(), cpus, "{text}");
        }
        for text in ["", "x", "1,,2", "100000000"] {
            assert_eq!(parse_mask(text), None, "{text}");
        }
    }
}
