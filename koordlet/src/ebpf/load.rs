//! The object with its globals set, its maps at hand and each program attached on its own: or the reason why not.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use aya::maps::{HashMap as BpfHashMap, Map, MapData, RingBuf, Stack};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader, Endianness};
use aya_log::EbpfLogger;
use koordlet_common::loss::Loss;
use koordlet_common::names::{global, map, program};

use super::losses::Losses;
use super::offsets::{Offsets, OffsetsError, UsageHierarchy};
use super::slots::SlotTable;
pub use super::why_not::WhyNot;
use crate::sys::{MappedWords, trim_heap};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// What is loaded, and with which sizes.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// The object's bytes, 8-byte aligned; [`EMBEDDED`] unless a test has its own.
    pub object: Option<&'static [u8]>,
    /// The kernel's BTF file.
    pub btf: PathBuf,
    /// Which hierarchy's groups own the CPU time.
    pub usage: UsageHierarchy,
    /// Id of that hierarchy's root group.
    pub usage_root_id: u64,
    /// Whether CPU time is counted at all.
    pub count_usage: bool,
    /// Bit n: births and deaths in hierarchy n are sent.
    pub wanted_hierarchies: u64,
    /// Cgroups that can be counted at one time.
    pub slots: u32,
    /// Bytes of the event ring, a power of two of at least one page.
    pub ring_bytes: u32,
}

/// The loaded object. Programs detach when it is dropped.
pub struct Loaded {
    /// Births and deaths, if at least one of the two tracepoints is attached.
    pub events: Option<RingBuf<MapData>>,
    /// CPU time, if its tracepoint is attached.
    pub slots: Option<SlotTable>,
    /// What the programs lost.
    pub losses: Arc<Losses>,
    /// The programs' own log lines.
    pub log: Option<EbpfLogger<&'static dyn log::Log>>,
    /// Tracepoints that could not be attached, and why.
    pub missing: Vec<(&'static str, WhyNot)>,
    /// Keeps the programs attached.
    pub programs: Programs,
}

/// Holds the attached programs.
pub struct Programs(Ebpf);

impl Programs {
    /// Runs and total run time of a program, as far as the kernel's BPF statistics are on.
    pub fn run_stats(&self, tracepoint: &str) -> Option<(u64, std::time::Duration)> {
        let info = self.0.program(tracepoint)?.info().ok()?;
        Some((info.run_count(), info.run_time()))
    }
}

/// Result of trying one tracepoint, for `doctor`.
#[derive(Debug)]
pub struct ProbeResult {
    /// The tracepoint.
    pub name: &'static str,
    /// Loaded and attached.
    pub ok: bool,
    /// Why not, or what it is for.
    pub detail: String,
}

const TRACEPOINTS: [(&str, &str); 3] = [
    (program::CGROUP_MKDIR, "births of cgroups"),
    (program::CGROUP_RMDIR, "deaths of cgroups"),
    (program::SCHED_STAT_RUNTIME, "CPU time of each cgroup"),
];

/// Loads the object and attaches what can be attached.
///
/// # Errors
/// The reason why nothing could be loaded. A tracepoint that is missing by itself is in [`Loaded::missing`].
pub fn load(config: &LoadConfig) -> Result<Loaded, WhyNot> {
    let object = config.object.ok_or(WhyNot::NotBuiltIn)?;
    let offsets = Offsets::read(&config.btf, config.usage).map_err(WhyNot::NoBtf)?;
    // Kernels before 5.11 charge maps to this limit. Without CAP_SYS_RESOURCE it stays as it is, and loading
    // shows whether that is enough.
    if let Err(error) = nix::sys::resource::setrlimit(
        nix::sys::resource::Resource::RLIMIT_MEMLOCK,
        nix::sys::resource::RLIM_INFINITY,
        nix::sys::resource::RLIM_INFINITY,
    ) {
        tracing::debug!(%error, "the limit of locked memory stays as it is");
    }
    let btf = Btf::parse_file(&config.btf, Endianness::default()).map_err(|error| {
        let source = io::Error::other(error);
        WhyNot::NoBtf(OffsetsError::Read { path: config.btf.clone(), source })
    })?;
    let loaded = load_with(config, object, &offsets, &btf);
    drop(btf);
    trim_heap();
    loaded
}

fn load_with(config: &LoadConfig, object: &[u8], offsets: &Offsets, btf: &Btf) -> Result<Loaded, WhyNot> {
    let cpus = aya::util::nr_cpus()
        .map_err(|(_, source)| WhyNot::MapAccess { name: map::CPU_TIME, source })
        .and_then(|n| u32::try_from(n).map_err(|_| WhyNot::Map { name: map::CPU_TIME, source: None }))?;
    // Without CPU time its maps are made as small as they go.
    let slots = if config.count_usage { config.slots.max(1) } else { 1 };

    let mut loader = EbpfLoader::new();
    loader.btf(None);
    for (name, value) in offsets.globals() {
        loader.override_global(name, value, true);
    }
    loader
        .override_global(global::ROOT_ID, &config.usage_root_id, true)
        .override_global(global::SLOT_COUNT, &slots, true)
        .override_global(global::WANTED_HIERARCHIES, &config.wanted_hierarchies, true)
        .map_max_entries(map::EVENTS, config.ring_bytes)
        .map_max_entries(map::SLOTS, slots)
        .map_max_entries(map::FREE, slots)
        .map_max_entries(map::OWNERS, slots)
        .map_max_entries(map::CPU_TIME, slots.saturating_mul(cpus))
        .map_max_entries(map::LOSSES, Loss::COUNT.saturating_mul(cpus));
    let mut ebpf = loader.load(object).map_err(WhyNot::object)?;

    let losses = Losses::new(map_words(&ebpf, map::LOSSES, Loss::COUNT.saturating_mul(cpus))?);
    let log = EbpfLogger::init(&mut ebpf)
        .inspect_err(|error| tracing::debug!(%error, "the eBPF programs have no log"))
        .ok();
    let ring = take(&mut ebpf, map::EVENTS)?;
    let mut events = Some(RingBuf::try_from(ring).map_err(|error| WhyNot::map(map::EVENTS, error))?);
    // The free slots must be there before the first charge.
    let mut table = config.count_usage.then(|| slot_table(&mut ebpf, slots, cpus)).transpose()?;

    let mut missing = Vec::new();
    for (name, _) in TRACEPOINTS {
        if name == program::SCHED_STAT_RUNTIME && !config.count_usage {
            continue;
        }
        if let Err(why) = attach(&mut ebpf, name, btf) {
            missing.push((name, why));
        }
    }
    let is_missing = |name| missing.iter().any(|(n, _)| *n == name);
    if is_missing(program::SCHED_STAT_RUNTIME) {
        table = None;
    }
    // Births alone would let dead groups pile up; deaths alone are of no use.
    if is_missing(program::CGROUP_MKDIR) || is_missing(program::CGROUP_RMDIR) {
        events = None;
    }
    Ok(Loaded { events, slots: table, losses: Arc::new(losses), log, missing, programs: Programs(ebpf) })
}

/// Loads and attaches each tracepoint for `doctor`; all are detached when it returns.
///
/// # Errors
/// As [`load`].
pub fn probe(config: &LoadConfig) -> Result<Vec<ProbeResult>, WhyNot> {
    let loaded = load(&LoadConfig { count_usage: true, ..config.clone() })?;
    let result = TRACEPOINTS.map(|(name, purpose)| {
        match loaded.missing.iter().find(|(missing, _)| *missing == name) {
            Some((_, why)) => ProbeResult { name, ok: false, detail: why.chain() },
            None => ProbeResult { name, ok: true, detail: purpose.to_owned() },
        }
    });
    Ok(result.into())
}

/// Has the kernel measure the run time of all BPF programs for as long as the answer lives: some 20 ns a run more.
///
/// # Errors
/// Not permitted, or older than Linux 5.8.
pub fn measure_run_time() -> Result<OwnedFd, WhyNot> {
    aya::sys::enable_stats(aya::sys::Stats::RunTime).map_err(|error| WhyNot::NotPermitted(Box::new(error)))
}

fn attach(ebpf: &mut Ebpf, name: &str, btf: &Btf) -> Result<(), WhyNot> {
    let wrap = |error| WhyNot::program(name, error);
    let program = ebpf.program_mut(name).ok_or_else(|| WhyNot::NoTracepoint(name.to_owned()))?;
    let program: &mut BtfTracePoint = program.try_into().map_err(wrap)?;
    program.load(name, btf).map_err(wrap)?;
    program.attach().map_err(wrap)?;
    Ok(())
}

fn slot_table(ebpf: &mut Ebpf, slots: u32, cpus: u32) -> Result<SlotTable, WhyNot> {
    let owners = map_words(ebpf, map::OWNERS, slots)?;
    let time = map_words(ebpf, map::CPU_TIME, slots.saturating_mul(cpus))?;
    let ids = take(ebpf, map::SLOTS)?;
    let ids = BpfHashMap::try_from(ids).map_err(|error| WhyNot::map(map::SLOTS, error))?;
    let free = take(ebpf, map::FREE)?;
    let free = Stack::try_from(free).map_err(|error| WhyNot::map(map::FREE, error))?;
    SlotTable::new(owners, time, ids, free, slots).map_err(|error| WhyNot::map(map::FREE, error))
}

fn take(ebpf: &mut Ebpf, name: &'static str) -> Result<Map, WhyNot> {
    ebpf.take_map(name).ok_or(WhyNot::Map { name, source: None })
}

fn map_words(ebpf: &Ebpf, name: &'static str, words: u32) -> Result<MappedWords, WhyNot> {
    let Some(Map::Array(data)) = ebpf.map(name) else {
        return Err(WhyNot::Map { name, source: None });
    };
    let words = usize::try_from(words).map_err(|_| WhyNot::Map { name, source: None })?;
    MappedWords::of_map(std::os::fd::AsFd::as_fd(data.fd()), words)
        .map_err(|source| WhyNot::MapAccess { name, source })
}
