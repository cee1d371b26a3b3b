//! Samples of CPU and memory use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::cgroup::path::CgroupDir;
use crate::units::{Bytes, MilliCpu, Nanos};

/// CPU use in billionths of a core: nanoseconds of CPU time in a second. Integers, so that sums do not
/// depend on their order (qos.md Q40).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NanoCpu(pub u64);

impl NanoCpu {
    /// From cores; negative and not-a-number give 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating by definition")]
    pub fn from_cores(cores: f64) -> Self {
        Self((cores * 1e9).round().max(0.0) as u64)
    }

    /// `used` CPU time within `elapsed`, collection.md 6.2 and 6.3; `None` if no time passed.
    pub fn over(used: Nanos, elapsed: Nanos) -> Option<Self> {
        let nanos = u128::from(used.0).saturating_mul(1_000_000_000).checked_div(elapsed.0.into())?;
        Some(Self(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// Cores.
    pub fn cores(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whole milli-cores, rounded down.
    pub fn milli(self) -> MilliCpu {
        MilliCpu(i64::try_from(self.0 / 1_000_000).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for NanoCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.cores())
    }
}

/// Use of one pod, container or host application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// CPU over the sample's interval; `None` until two readings exist.
    pub cpu: Option<NanoCpu>,
    /// Memory without page cache, collection.md 3.7; `None` when it could not be read.
    pub memory: Option<Bytes>,
}

/// CPU time that a cgroup and all beneath it used since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCpuTime {
    /// Which cgroup it was, where the source knows; another one under the same path starts anew.
    pub id: Option<u64>,
    /// The time.
    pub total: Nanos,
}

/// Use of one NUMA node, collection.md 6.2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumaUsage {
    /// CPU; `None` until two readings of a CPU of the node exist, and for a node without CPUs.
    pub cpu: Option<NanoCpu>,
    /// Memory without page cache.
    pub memory: Option<Bytes>,
}

/// One sample of the node and all that runs on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// When it was taken (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// CPU use of the whole node, collection.md 6.2.
    pub node_cpu: Option<NanoCpu>,
    /// Memory use of the whole node without page cache.
    pub node_memory: Option<Bytes>,
    /// Memory use of the whole node with page cache, collection.md 6.11.
    pub node_memory_with_page_cache: Option<Bytes>,
    /// By NUMA node; empty where the nodes are not known.
    pub numa: BTreeMap<u32, NumaUsage>,
    /// CPU time of the best-effort directory; `None` where there is none.
    pub be_cpu_time: Option<GroupCpuTime>,
    /// By pod UID.
    pub pods: BTreeMap<Arc<str>, GroupUsage>,
    /// By full container id, shared text: a tick makes no copies of ids.
    pub containers: BTreeMap<Arc<str>, GroupUsage>,
    /// By host application name.
    pub host_apps: BTreeMap<String, GroupUsage>,
}

/// A source of CPU time per cgroup directory: the eBPF map or the cgroup files, with the same numbers.
pub trait CpuTime: Send {
    /// Takes one sample of all directories. Cheap with eBPF (no system call a directory).
    fn sample(&mut self);

    /// CPU time of `dir` and everything beneath it, dead groups included, at the last `sample`; `None` if
    /// the directory is not known. Never steps back while the directory lives.
    fn total(&mut self, dir: &CgroupDir) -> Option<Nanos>;

    /// Which group `dir` was at the last `sample` (its cgroup id), where the source knows it without a system
    /// call. Another identity means that the path was reused and `total` started anew.
    fn identity(&mut self, dir: &CgroupDir) -> Option<u64> {
        let _ = dir;
        None
    }

    /// Whether anything in `dir` used CPU time between the last two samples, where the source knows it without
    /// a system call: the other files of an idle directory need not be read again. `None` if it does not know.
    fn ran(&mut self, dir: &CgroupDir) -> Option<bool> {
        let _ = dir;
        None
    }
}
