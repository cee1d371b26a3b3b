//! Samples of CPU and memory use.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::groups::{GroupKind, PerGroup};
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

/// CPU use of one pod, container or host application. Its memory is read by a round of its own
/// ([`GroupStats`](super::group_stats::GroupStats)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// Use since the last sample; `None` until two samples of the same group exist, and for a pair that cannot
    /// be right (a counter or the clock went back).
    pub cpu: Option<NanoCpu>,
    /// The group's part of `node_cpu`: what it used since the last sample, over the same time. Known, unlike
    /// `cpu`, for a group that was born since then: all its time counts. `None` if it cannot be told.
    pub of_node: Option<NanoCpu>,
    /// CPU time so far; `None` if the directory does not exist. Equal totals of one identity say that nothing
    /// ran in between.
    pub total: Option<Nanos>,
    /// Which group it was (its cgroup id), where that is known.
    pub identity: Option<u64>,
}

impl GroupUsage {
    /// A group that exists and used so much.
    pub fn of(cpu: NanoCpu) -> Self {
        Self { cpu: Some(cpu), of_node: Some(cpu), total: Some(Nanos(0)), identity: None }
    }
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
    /// The same with page cache, collection.md 6.11.
    pub node_memory_with_page_cache: Option<Bytes>,
    /// By NUMA node; empty where the nodes are not known.
    pub numa: BTreeMap<u32, NumaUsage>,
    /// CPU time of the best-effort directory; `None` where there is none.
    pub be_cpu_time: Option<CpuReading>,
    /// Pods, containers and host applications.
    pub groups: PerGroup<GroupUsage>,
}

impl Usage {
    /// Pods that exist, by UID.
    pub fn pods(&self) -> impl Iterator<Item = (&Arc<str>, &GroupUsage)> {
        self.existing(GroupKind::Pod)
    }

    /// App containers that exist, by full id.
    pub fn containers(&self) -> impl Iterator<Item = (&Arc<str>, &GroupUsage)> {
        self.existing(GroupKind::Container)
    }

    /// Host applications that exist, by name.
    pub fn host_apps(&self) -> impl Iterator<Item = (&Arc<str>, &GroupUsage)> {
        self.existing(GroupKind::HostApp)
    }

    /// One group, if it exists.
    pub fn group(&self, kind: GroupKind, name: &str) -> Option<&GroupUsage> {
        self.groups.get(kind, name).filter(|usage| usage.total.is_some())
    }

    /// Pods that exist and of which it is not known what part of `node_cpu` was theirs: that part counts
    /// neither as pods' use nor as anybody's (collection.md 15 row 6).
    pub fn unknown_pods(&self) -> usize {
        self.pods().filter(|(_, usage)| usage.of_node.is_none()).count()
    }

    fn existing(&self, kind: GroupKind) -> impl Iterator<Item = (&Arc<str>, &GroupUsage)> {
        let groups = self.groups.of_kind(kind).filter(|(_, usage)| usage.total.is_some());
        groups.map(|(group, usage)| (&group.name, usage))
    }
}

/// A directory's CPU time at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuReading {
    /// CPU time of the directory and everything beneath it, dead groups included. Never steps back while the
    /// directory lives.
    pub total: Nanos,
    /// Which group the directory was (its cgroup id), where the source knows it without a system call. Another
    /// identity means that the path was reused and `total` started anew.
    pub identity: Option<u64>,
    /// When the source saw the group being made (`CLOCK_MONOTONIC` of the sample that told it): `total` was 0
    /// at the sample before. `None` if it was there when the source first looked.
    pub born: Option<Nanos>,
}

/// What a source remembers of a directory for whoever asks again and again, so that it need not search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuPlace {
    /// Its place in the source.
    pub index: usize,
    /// Cgroup id of what was there; 0 before the first search.
    pub id: u64,
}

/// A source of CPU time per cgroup directory: the eBPF map or the cgroup files, with the same numbers.
pub trait CpuTime: Send {
    /// Takes one sample of all directories. Cheap with eBPF (no system call a directory).
    fn sample(&mut self);

    /// What the last `sample` found in `dir`; `None` if the directory is not known.
    fn reading(&mut self, dir: &CgroupDir) -> Option<CpuReading>;

    /// The same for a directory that is asked for at each sample; `place` is its own, and new at first.
    fn reading_at(&mut self, dir: &CgroupDir, place: &mut CpuPlace) -> Option<CpuReading> {
        let _ = place;
        self.reading(dir)
    }

    /// Only the time.
    fn total(&mut self, dir: &CgroupDir) -> Option<Nanos> {
        self.reading(dir).map(|reading| reading.total)
    }

    /// Only the identity.
    fn identity(&mut self, dir: &CgroupDir) -> Option<u64> {
        self.reading(dir)?.identity
    }
}
