//! Use of each NUMA node, collection.md 6.2: CPU from the per-CPU ticks that the tick has read anyway, memory from
//! the nodes' own `meminfo`.
//!
//! A machine with one node has nothing to tell apart: its figures are the whole machine's, and no further file is
//! read. Which nodes there are, and which CPUs are whose, are facts that another part publishes; before that there
//! are no figures.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::procfs::numa_cpu;
use crate::cgroup::held_file::{HeldFile, ReadBuffer};
use crate::host::meminfo::Meminfo;
use crate::host::numa::NodeNumaInfo;
use crate::host::topology::NodeCpuInfo;
use crate::state::facts::Published;
use crate::state::usage::{NanoCpu, NumaUsage};
use crate::units::{Bytes, Nanos};

/// What one tick found out about the whole machine.
#[derive(Clone, Copy, Debug)]
pub struct WholeNode<'a> {
    /// When (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// CPU use since the last tick.
    pub cpu: Option<NanoCpu>,
    /// `/proc/meminfo`
    pub meminfo: Option<&'a Meminfo>,
}

/// Takes samples and remembers what the next one needs.
#[derive(Debug)]
pub struct NumaUse {
    /// `<sys>/bus/node/devices`
    devices: PathBuf,
    jiffy: Nanos,
    cpus: Published<NodeCpuInfo>,
    numa: Published<NodeNumaInfo>,
    last: Option<(Nanos, BTreeMap<u32, u64>)>,
    /// The nodes that `files` are of.
    known: Option<Arc<NodeNumaInfo>>,
    files: Vec<NodeFile>,
    buffer: ReadBuffer,
}

/// A node's `meminfo`, held open.
#[derive(Debug)]
struct NodeFile {
    node: u32,
    path: PathBuf,
    held: Option<HeldFile>,
    failing: bool,
}

impl NumaUse {
    /// For the machine whose sysfs is `sys`; `jiffy` is the length of a tick of `/proc/stat`.
    pub fn new(
        sys: &Path,
        jiffy: Nanos,
        cpus: Published<NodeCpuInfo>,
        numa: Published<NodeNumaInfo>,
    ) -> Self {
        Self {
            devices: sys.join("bus/node/devices"),
            jiffy,
            cpus,
            numa,
            last: None,
            known: None,
            files: Vec::new(),
            buffer: ReadBuffer::default(),
        }
    }

    /// Whether the next sample needs the ticks of each CPU.
    pub fn needs_ticks(&self) -> bool {
        self.numa.get().is_some_and(|numa| numa.numa_infos.len() > 1)
    }

    /// The use of each node. `ticks` are those of each CPU at `whole.at`, where they were asked for and could be
    /// read; a CPU that they did not have before is left out.
    pub fn sample(
        &mut self,
        whole: WholeNode<'_>,
        ticks: Option<BTreeMap<u32, u64>>,
    ) -> BTreeMap<u32, NumaUsage> {
        self.follow();
        let Some(known) = &self.known else { return BTreeMap::new() };
        match known.numa_infos.as_slice() {
            [] => BTreeMap::new(),
            [only] => {
                let memory = whole.meminfo.and_then(memory_used);
                [(only.node, NumaUsage { cpu: whole.cpu, memory })].into()
            }
            _ => self.by_node(whole.at, ticks),
        }
    }

    fn by_node(&mut self, at: Nanos, ticks: Option<BTreeMap<u32, u64>>) -> BTreeMap<u32, NumaUsage> {
        let cpu = self.cpu(at, ticks);
        let Self { files, buffer, .. } = self;
        let figures = files.iter_mut().map(|file| {
            let memory = file.meminfo(buffer).as_ref().and_then(memory_used);
            (file.node, NumaUsage { cpu: cpu.get(&file.node).copied(), memory })
        });
        figures.collect()
    }

    /// CPU use by node since the last sample that had ticks.
    fn cpu(&mut self, at: Nanos, ticks: Option<BTreeMap<u32, u64>>) -> BTreeMap<u32, NanoCpu> {
        let (Some(ticks), Some(cpus)) = (ticks, self.cpus.get()) else { return BTreeMap::new() };
        let usage = self.last.as_ref().and_then(|(before, last)| {
            let elapsed = Nanos(at.0.checked_sub(before.0)?);
            Some(numa_cpu(last, &ticks, &cpus.processor_infos, self.jiffy, elapsed))
        });
        self.last = Some((at, ticks));
        usage.unwrap_or_default()
    }

    /// Takes over which nodes there are.
    fn follow(&mut self) {
        let now = self.numa.get();
        let same = match (&now, &self.known) {
            (Some(now), Some(known)) => Arc::ptr_eq(now, known),
            (now, known) => now.is_none() && known.is_none(),
        };
        if same {
            return;
        }
        let nodes = now.iter().flat_map(|numa| &numa.numa_infos).map(|info| info.node);
        if !self.files.iter().map(|file| file.node).eq(nodes.clone()) {
            let file = |node| NodeFile {
                node,
                path: self.devices.join(format!("node{node}/meminfo")),
                held: None,
                failing: false,
            };
            self.files = nodes.map(file).collect();
        }
        self.known = now;
    }
}

impl NodeFile {
    /// The node's memory; `None` if the node is gone or its file cannot be read, which is told once.
    fn meminfo(&mut self, buffer: &mut ReadBuffer) -> Option<Meminfo> {
        let read = self.read(buffer);
        if let Err(error) = &read
            && !self.failing
        {
            tracing::warn!(path = %self.path.display(), %error, "memory of a NUMA node is not known");
        }
        self.failing = read.is_err();
        read.ok().flatten()
    }

    fn read(&mut self, buffer: &mut ReadBuffer) -> io::Result<Option<Meminfo>> {
        if self.held.is_none() {
            self.held = HeldFile::open(&self.path)?;
        }
        let Some(file) = &self.held else { return Ok(None) };
        let info = file.read(buffer)?.map(Meminfo::parse_numa);
        if info.is_none() {
            self.held = None;
        }
        Ok(info)
    }
}

/// What of the figures is in use, if they say how much there is.
fn memory_used(info: &Meminfo) -> Option<Bytes> {
    info.get("MemTotal").map(|_| info.numa_used())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::host::machines::Machine;
    use crate::node::procfs::per_cpu_ticks;

    const S: u64 = 1_000_000_000;
    const JIFFY: Nanos = Nanos(10_000_000);

    /// The use of a recorded machine, its facts published.
    fn numa_use(machine: &Machine) -> NumaUse {
        let roots = machine.roots();
        let (cpus, numa) = (Published::default(), Published::default());
        cpus.set(NodeCpuInfo::read(&roots).unwrap());
        numa.set(NodeNumaInfo::read(&roots).unwrap());
        NumaUse::new(&roots.sys, JIFFY, cpus, numa)
    }

    /// Ticks of each CPU, now or a second later.
    fn ticks(machine: &Machine, file: &str) -> BTreeMap<u32, u64> {
        per_cpu_ticks(&fs::read_to_string(machine.path.join("proc").join(file)).unwrap()).unwrap()
    }

    fn whole(at: u64, meminfo: &Meminfo) -> WholeNode<'_> {
        WholeNode { at: Nanos(at), cpu: Some(NanoCpu(7)), meminfo: Some(meminfo) }
    }

    #[test]
    fn each_machine_has_the_numbers_beside_it_and_cpu_from_the_second_sample_on() {
        for machine in Machine::all() {
            let mut usage = numa_use(&machine);
            if !usage.needs_ticks() {
                continue;
            }
            let (meminfo, expected) = (Meminfo::default(), &machine.expected);
            let first = usage.sample(whole(0, &meminfo), Some(ticks(&machine, "stat")));
            assert!(first.values().all(|figures| figures.cpu.is_none()));
            let second = usage.sample(whole(S, &meminfo), Some(ticks(&machine, "stat.1s-later")));
            let name = machine.path.display();
            assert_eq!(
                json!(second.len()),
                json!(expected["numaMemoryKiB"].as_object().unwrap().len()),
                "{name}"
            );
            for (node, figures) in &second {
                let memory = figures.memory.map(|memory| memory.0 / 1024);
                assert_eq!(json!(memory), expected["numaMemoryKiB"][node.to_string()], "{name} node {node}");
                let milli = figures.cpu.map(|cpu| cpu.milli().0);
                let wanted = expected["milliCpuOverOneSecond"]["numa"].get(node.to_string());
                assert_eq!(json!(milli), json!(wanted), "{name} node {node}");
            }
            let third = usage.sample(whole(2 * S, &meminfo), None);
            assert!(third[&0].cpu.is_none() && third[&0].memory.is_some(), "the ticks could not be read");
        }
    }

    #[test]
    fn a_single_node_has_the_figures_of_the_machine_without_reading_a_file() {
        let mut usage = numa_use(&Machine::named("smt-off"));
        usage.devices = "/nonexistent".into();
        assert!(!usage.needs_ticks());
        let meminfo = Meminfo::parse(
            "MemTotal: 16384000 kB\nMemFree: 4096000 kB\nMemAvailable: 7680000 kB\nActive(file): 1024000 kB\n\
             Inactive(file): 2048000 kB\nSReclaimable: 512000 kB\n",
        );
        let figures = usage.sample(whole(S, &meminfo), None);
        let memory = Some(Bytes(8_912_896_000)); // example 3
        assert_eq!(figures, [(0, NumaUsage { cpu: Some(NanoCpu(7)), memory })].into());
    }

    #[test]
    fn before_the_facts_are_known_and_without_numa_there_are_no_figures() {
        let meminfo = Meminfo::parse("MemTotal: 5 kB");
        let mut usage = NumaUse::new(Path::new("/sys"), JIFFY, Published::default(), Published::default());
        assert!(!usage.needs_ticks() && usage.sample(whole(0, &meminfo), None).is_empty());
        let mut usage = numa_use(&Machine::named("no-numa-no-l3"));
        assert!(usage.sample(whole(0, &meminfo), None).is_empty());
    }

    #[test]
    fn a_node_that_is_taken_out_or_unreadable_keeps_its_cpu_figure_alone() {
        let mut usage = numa_use(&Machine::named("two-sockets-smt"));
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("node1/meminfo")).unwrap();
        usage.devices = root.path().into();
        let meminfo = Meminfo::default();
        let figures = usage.sample(whole(0, &meminfo), None);
        assert_eq!(figures, [(0, NumaUsage::default()), (1, NumaUsage::default())].into());
    }
}
