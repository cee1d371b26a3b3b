//! One constructor for what the agent sees of cgroups: eBPF where it works, inotify and files where not.
//! The agent cannot tell the two apart but by asking.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aya_log::EbpfLogger;
use koordlet_common::layout::{DEFAULT_RING_BYTES, DEFAULT_SLOTS};
use koordlet_common::loss::Loss;
use koordlet_common::names::map;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::events::{CgroupEvent, EventSender, WatchedDirs};
use super::load::{EMBEDDED, LoadConfig, Loaded, ProbeResult, Programs, WhyNot, load, probe};
use super::losses::Losses;
use super::offsets::{UsageHierarchy, VMLINUX_BTF};
use super::reader::{Sorter, UsageFeed, run};
use super::usage::{EbpfCpuTime, Pace, UsageSources};
use super::usage_stats::UsageStats;
use super::usage_tree::UsageTree;
use crate::cgroup::hierarchy::Hierarchy;
use crate::cgroup::layout::Layout;
use crate::config::{CpuUsageSource, EbpfMode};
use crate::host::roots::Roots;
use crate::node::cgroup_watch::CgroupWatch;
use crate::node::file_usage::{FileCpuTime, UsageFiles};
use crate::state::usage::CpuTime;
use crate::sys::readable;

/// What the sensors are started with.
#[derive(Clone, Debug)]
pub struct SensorConfig {
    /// Host roots.
    pub roots: Roots,
    /// The cgroup hierarchies.
    pub layout: Arc<Layout>,
    /// `--ebpf`
    pub mode: EbpfMode,
    /// `--cpu-usage-source`
    pub usage_source: CpuUsageSource,
    /// Directories whose births and deaths are wanted: the kubepods roots, later those of host applications.
    pub watched: WatchedDirs,
    /// Events that may wait for the agent.
    pub queue: usize,
    /// Cgroups that the usage map has room for.
    pub slots: u32,
    /// Bytes of the event ring: a power of two, at least a page.
    pub ring_bytes: u32,
    /// The eBPF object; the embedded one unless a test has its own.
    pub object: Option<&'static [u8]>,
    /// Waiting times of the CPU accounts.
    pub pace: Pace,
}

impl SensorConfig {
    /// The usual sizes.
    pub fn new(roots: Roots, layout: Arc<Layout>, watched: WatchedDirs) -> Self {
        Self {
            roots,
            layout,
            mode: EbpfMode::Auto,
            usage_source: CpuUsageSource::Ebpf,
            watched,
            queue: 4096,
            slots: DEFAULT_SLOTS,
            ring_bytes: DEFAULT_RING_BYTES,
            object: EMBEDDED,
            pace: Pace::default(),
        }
    }

    fn load_config(&self) -> Result<(LoadConfig, UsageTree), WhyNot> {
        let no_tree = |source| WhyNot::UsageRoot { path: self.roots.cgroup.clone(), source };
        let hierarchy =
            self.layout.usage_hierarchy().ok_or_else(|| no_tree(std::io::ErrorKind::NotFound.into()))?;
        let id = hierarchy.id().ok_or_else(|| no_tree(std::io::ErrorKind::Unsupported.into()))?;
        let tree = UsageTree::new(hierarchy);
        let load = LoadConfig {
            object: self.object,
            btf: self.roots.sys.join(VMLINUX_BTF),
            usage: if id == 0 { UsageHierarchy::Unified } else { UsageHierarchy::Cpuacct },
            usage_root_id: tree.root_id().map_err(no_tree)?,
            count_usage: self.usage_source == CpuUsageSource::Ebpf,
            wanted_hierarchies: self.wanted_hierarchies(),
            slots: self.slots,
            ring_bytes: self.ring_bytes,
        };
        Ok((load, tree))
    }

    fn wanted_hierarchies(&self) -> u64 {
        let ids = self.layout.hierarchies().iter().filter_map(Hierarchy::id);
        ids.filter(|id| *id < u64::BITS).fold(0, |mask, id| mask | 1 << id)
    }
}

/// Where something comes from.
#[derive(Debug)]
pub enum SensorMode {
    /// eBPF.
    Ebpf,
    /// inotify or cgroup files.
    Files {
        /// Why not eBPF.
        reason: Arc<WhyNot>,
    },
}

impl SensorMode {
    /// Whether it is eBPF.
    pub fn is_ebpf(&self) -> bool {
        matches!(self, Self::Ebpf)
    }
}

/// The running sensors.
pub struct Sensors {
    /// Births and deaths beneath the watched directories. Directories that exist already make no event.
    pub events: mpsc::Receiver<CgroupEvent>,
    /// CPU time of every cgroup directory.
    pub cpu_time: Box<dyn CpuTime>,
    /// Where the events come from.
    pub mode: SensorMode,
    /// Where the CPU time comes from.
    pub usage_mode: SensorMode,
    /// Keeps them running, and shows their counters.
    pub handle: SensorHandle,
}

/// Keeps the sensors running; they stop when it is dropped.
pub struct SensorHandle {
    tasks: Vec<JoinHandle<()>>,
    dropped: Arc<AtomicU64>,
    losses: Option<Arc<Losses>>,
    usage: Option<Arc<UsageStats>>,
    programs: Option<Arc<Programs>>,
}

impl SensorHandle {
    /// Events that the agent was too slow for.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// What the programs lost, by reason; nothing without eBPF.
    pub fn losses(&self) -> impl Iterator<Item = (Loss, u64)> {
        let losses = self.losses.clone();
        Loss::ALL.into_iter().filter_map(move |reason| Some((reason, losses.as_ref()?.count(reason))))
    }

    /// Counters of the CPU accounts; `None` where CPU time comes from files.
    pub fn usage(&self) -> Option<&UsageStats> {
        self.usage.as_deref()
    }

    /// Runs of a program and their total time, if the kernel's BPF statistics are on.
    pub fn run_stats(&self, tracepoint: &str) -> Option<(u64, Duration)> {
        self.programs.as_ref()?.run_stats(tracepoint)
    }
}

impl Drop for SensorHandle {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Why the sensors could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SensorError {
    /// `--ebpf=required`, and it cannot be had.
    #[error("--ebpf=required, but eBPF cannot be used for {what}")]
    Required {
        /// `events` or `CPU time`.
        what: &'static str,
        /// Why.
        #[source]
        source: WhyNot,
    },
}

/// Starts the sensors. Must be called inside a tokio runtime.
///
/// # Errors
/// With [`EbpfMode::Required`], the reason why eBPF cannot be used; else none.
pub fn start(config: &SensorConfig) -> Result<Sensors, SensorError> {
    let opened = match config.mode {
        EbpfMode::Off => Err(WhyNot::Off),
        EbpfMode::Auto | EbpfMode::Required => {
            config.load_config().and_then(|(load_config, tree)| Ok((load(&load_config)?, tree)))
        }
    };
    let sensors = match opened {
        Ok((loaded, tree)) => with_ebpf(config, loaded, tree)?,
        Err(why) => with_files(config, why)?,
    };
    for (what, mode) in [("births and deaths", &sensors.mode), ("CPU time", &sensors.usage_mode)] {
        match mode {
            SensorMode::Ebpf => tracing::info!(what, "cgroups are seen with eBPF"),
            SensorMode::Files { reason } => {
                tracing::info!(what, reason = reason.chain(), "cgroups are seen without eBPF");
            }
        }
    }
    Ok(sensors)
}

/// Tries each tracepoint, for `doctor`.
///
/// # Errors
/// Why none could be tried.
pub fn probe_tracepoints(config: &SensorConfig) -> Result<Vec<ProbeResult>, WhyNot> {
    probe(&config.load_config()?.0)
}

/// CPU time from files, with at most half of the descriptors that this process may open.
pub fn file_cpu_time(layout: &Arc<Layout>) -> Box<dyn CpuTime> {
    use nix::sys::resource::{Resource, getrlimit};
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    let capacity = usize::try_from(soft / 2).unwrap_or(usize::MAX);
    Box::new(FileCpuTime::new(UsageFiles::new(layout.clone()), capacity))
}

fn with_files(config: &SensorConfig, why: WhyNot) -> Result<Sensors, SensorError> {
    if config.mode == EbpfMode::Required {
        return Err(SensorError::Required { what: "events", source: why });
    }
    let (sender, events, dropped) = EventSender::channel(config.queue);
    let watch = CgroupWatch::new(&config.layout, config.watched.clone(), sender);
    let tasks = vec![tokio::spawn(watch.run())];
    let reason = Arc::new(why);
    Ok(Sensors {
        events,
        cpu_time: file_cpu_time(&config.layout),
        mode: SensorMode::Files { reason: reason.clone() },
        usage_mode: SensorMode::Files { reason },
        handle: SensorHandle { tasks, dropped, losses: None, usage: None, programs: None },
    })
}

fn with_ebpf(config: &SensorConfig, loaded: Loaded, tree: UsageTree) -> Result<Sensors, SensorError> {
    let Loaded { events: ring, slots, losses, log, mut missing, programs } = loaded;
    let ring = match ring.map(readable).transpose() {
        Ok(ring) => ring,
        Err(source) => return with_files(config, WhyNot::MapAccess { name: map::EVENTS, source }),
    };
    let Some(ring) = ring else {
        // Without births and deaths the CPU time has no owners: all of it falls back.
        let why = missing.swap_remove(0).1;
        return with_files(config, why);
    };
    let programs = Arc::new(programs);
    let feed = Arc::new(UsageFeed::default());
    let usage_id = config.layout.usage_hierarchy().and_then(Hierarchy::id);
    let (sender, events, dropped) = EventSender::channel(config.queue);
    let sorter = Sorter {
        layout: config.layout.clone(),
        usage: usage_id.filter(|_| slots.is_some()).map(|id| (id, feed.clone())),
        watched: config.watched.clone(),
        sender,
    };
    let mut tasks = vec![tokio::spawn(run(ring, losses.clone(), sorter))];
    if let Some(log) = log.map(readable).transpose().unwrap_or_default() {
        tasks.push(tokio::spawn(pass_on(log)));
    }
    let handle = |usage| SensorHandle {
        tasks,
        dropped,
        losses: Some(losses.clone()),
        usage,
        programs: Some(programs.clone()),
    };
    let Some(table) = slots else {
        let why = missing.pop().map_or(WhyNot::UsageFromFiles, |(_, why)| why);
        if config.mode == EbpfMode::Required && config.usage_source == CpuUsageSource::Ebpf {
            return Err(SensorError::Required { what: "CPU time", source: why });
        }
        return Ok(Sensors {
            events,
            cpu_time: file_cpu_time(&config.layout),
            mode: SensorMode::Ebpf,
            usage_mode: SensorMode::Files { reason: Arc::new(why) },
            handle: handle(None),
        });
    };
    let files = UsageFiles::new(config.layout.clone());
    let sources =
        UsageSources { table, feed, losses: losses.clone(), tree, files, programs: programs.clone() };
    let cpu_time = EbpfCpuTime::new(sources, config.pace);
    let handle = handle(Some(cpu_time.stats()));
    Ok(Sensors {
        events,
        cpu_time: Box::new(cpu_time),
        mode: SensorMode::Ebpf,
        usage_mode: SensorMode::Ebpf,
        handle,
    })
}

/// Passes the programs' own log lines on.
async fn pass_on(mut log: AsyncFd<EbpfLogger<&'static dyn log::Log>>) {
    while let Ok(mut guard) = log.readable_mut().await {
        guard.get_inner_mut().flush();
        guard.clear_ready();
    }
}
