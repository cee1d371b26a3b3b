//! What can be read or set in a cgroup, and the file behind it, collection.md 3.6.

use super::layout::CgroupVersion;

/// A cgroup controller (a v1 subsystem directory).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// `cpu`
    Cpu,
    /// `cpuacct`
    Cpuacct,
    /// `cpuset`
    Cpuset,
    /// `memory`
    Memory,
    /// `blkio` (v2: `io`)
    Blkio,
    /// `net_cls` (v1 only)
    NetCls,
    /// `perf_event`
    PerfEvent,
}

impl Controller {
    /// Every controller that is read or written here.
    pub const ALL: [Self; 7] =
        [Self::Cpu, Self::Cpuacct, Self::Cpuset, Self::Memory, Self::Blkio, Self::NetCls, Self::PerfEvent];

    /// Name of its v1 subsystem.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Cpuset => "cpuset",
            Self::Memory => "memory",
            Self::Blkio => "blkio",
            Self::NetCls => "net_cls",
            Self::PerfEvent => "perf_event",
        }
    }

    /// The controller of a v1 subsystem name.
    pub fn from_v1_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|controller| controller.name() == name)
    }

    /// Name in `cgroup.controllers`; `None` where v2 has it without a controller or not at all.
    pub(super) const fn v2_name(self) -> Option<&'static str> {
        match self {
            Self::Cpu => Some("cpu"),
            Self::Cpuset => Some("cpuset"),
            Self::Memory => Some("memory"),
            Self::Blkio => Some("io"),
            Self::Cpuacct | Self::NetCls | Self::PerfEvent => None,
        }
    }
}

/// A resource of a cgroup. The file behind it depends on the version; only this room knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// `cpu.shares` / `cpu.weight`
    CpuShares,
    /// `cpu.cfs_quota_us` / `cpu.max`, first field
    CfsQuota,
    /// `cpu.cfs_period_us` / `cpu.max`, second field; read only
    CfsPeriod,
    /// `cpu.cfs_burst_us` / `cpu.max.burst`
    CfsBurst,
    /// `cpu.bvt_warp_ns` (vendor kernels)
    BvtWarpNs,
    /// `cpu.idle`
    CpuIdle,
    /// `cpu.stat`; read only
    CpuStat,
    /// `tasks` / `cgroup.threads`
    Tasks,
    /// `cgroup.procs`
    Procs,
    /// `cpuset.cpus` (v2 reads `cpuset.cpus.effective`)
    Cpus,
    /// `cpuset.mems`
    Mems,
    /// `cpuacct.usage` / `cpu.stat`; read only
    CpuUsage,
    /// `cpuacct.stat` / `cpu.stat`; read only
    CpuacctStat,
    /// `cpu.pressure`; read only
    CpuPressure,
    /// `memory.pressure`; read only
    MemoryPressure,
    /// `io.pressure`; read only
    IoPressure,
    /// `memory.limit_in_bytes` / `memory.max`
    MemoryLimit,
    /// `memory.memsw.limit_in_bytes` / `memory.swap.max`
    MemswLimit,
    /// `memory.usage_in_bytes` / `memory.current`; read only
    MemoryUsage,
    /// `memory.stat`; read only
    MemoryStat,
    /// `memory.numa_stat`; read only
    MemoryNumaStat,
    /// `memory.idle_page_stats` (v1 vendor kernels); read only
    IdlePageStats,
    /// `memory.min`
    MemoryMin,
    /// `memory.low`
    MemoryLow,
    /// `memory.high`
    MemoryHigh,
    /// `memory.wmark_ratio` (vendor kernels)
    WmarkRatio,
    /// `memory.wmark_scale_factor` (vendor kernels)
    WmarkScaleFactor,
    /// `memory.wmark_min_adj` (vendor kernels)
    WmarkMinAdj,
    /// `memory.priority` (vendor kernels)
    MemoryPriority,
    /// `memory.use_priority_oom` (vendor kernels)
    UsePriorityOom,
    /// `memory.oom.group`
    OomGroup,
    /// `memory.pagecache_limit.enable` (v2 vendor kernels)
    PagecacheLimitEnable,
    /// `memory.pagecache_limit.size` (v2 vendor kernels)
    PagecacheLimitSize,
    /// `memory.pagecache_limit.sync` (v2 vendor kernels)
    PagecacheLimitSync,
    /// `net_cls.classid` (v1 only)
    NetClsClassid,
}

/// Where one has to look to know whether a resource is there, collection.md 3.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Every kernel has it.
    Always,
    /// Each directory may or may not have the file.
    EachDirectory,
    /// All directories have it if the kubepods directory has.
    Kubepods,
}

/// How a resource's text is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// A statistic with a reader of its own in `read`.
    Statistic,
    /// Shares, or the weight they become.
    Shares,
    /// A quota.
    Quota,
    /// A CFS period.
    Period,
    /// A memory limit.
    Limit,
    /// A protected amount of memory: unlimited is the largest number.
    Protection,
    /// A list of CPUs or memory nodes.
    List,
    /// An integer in a closed range.
    Int(i64, i64),
    /// A network class: a number up to 2^31 - 1, which may be written as hexadecimal after `0x`.
    ClassId,
}

/// A resource's file in one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResourceFile {
    /// Name of the file to write.
    pub(super) name: &'static str,
    /// Name of the file that tells what is in effect, where it is another one.
    pub(super) effective_name: Option<&'static str>,
    /// Where to look for support.
    pub(super) support: Support,
    /// How its text reads.
    pub(super) codec: Codec,
}

impl Resource {
    /// Every resource.
    pub const ALL: [Self; 35] = [
        Self::CpuShares,
        Self::CfsQuota,
        Self::CfsPeriod,
        Self::CfsBurst,
        Self::BvtWarpNs,
        Self::CpuIdle,
        Self::CpuStat,
        Self::Tasks,
        Self::Procs,
        Self::Cpus,
        Self::Mems,
        Self::CpuUsage,
        Self::CpuacctStat,
        Self::CpuPressure,
        Self::MemoryPressure,
        Self::IoPressure,
        Self::MemoryLimit,
        Self::MemswLimit,
        Self::MemoryUsage,
        Self::MemoryStat,
        Self::MemoryNumaStat,
        Self::IdlePageStats,
        Self::MemoryMin,
        Self::MemoryLow,
        Self::MemoryHigh,
        Self::WmarkRatio,
        Self::WmarkScaleFactor,
        Self::WmarkMinAdj,
        Self::MemoryPriority,
        Self::UsePriorityOom,
        Self::OomGroup,
        Self::PagecacheLimitEnable,
        Self::PagecacheLimitSize,
        Self::PagecacheLimitSync,
        Self::NetClsClassid,
    ];

    /// The controller whose hierarchy holds it.
    pub const fn controller(self) -> Controller {
        match self {
            Self::CpuShares
            | Self::CfsQuota
            | Self::CfsPeriod
            | Self::CfsBurst
            | Self::BvtWarpNs
            | Self::CpuIdle
            | Self::CpuStat
            | Self::Tasks
            | Self::Procs => Controller::Cpu,
            Self::Cpus | Self::Mems => Controller::Cpuset,
            Self::CpuUsage
            | Self::CpuacctStat
            | Self::CpuPressure
            | Self::MemoryPressure
            | Self::IoPressure => Controller::Cpuacct,
            Self::MemoryLimit
            | Self::MemswLimit
            | Self::MemoryUsage
            | Self::MemoryStat
            | Self::MemoryNumaStat
            | Self::IdlePageStats
            | Self::MemoryMin
            | Self::MemoryLow
            | Self::MemoryHigh
            | Self::WmarkRatio
            | Self::WmarkScaleFactor
            | Self::WmarkMinAdj
            | Self::MemoryPriority
            | Self::UsePriorityOom
            | Self::OomGroup
            | Self::PagecacheLimitEnable
            | Self::PagecacheLimitSize
            | Self::PagecacheLimitSync => Controller::Memory,
            Self::NetClsClassid => Controller::NetCls,
        }
    }

    /// Its name: that of its v1 file, or of its v2 file where v1 has none.
    pub fn v1_name(self) -> &'static str {
        let file = self.file(CgroupVersion::V1).or_else(|| self.file(CgroupVersion::V2));
        file.map_or("", |file| file.name)
    }

    /// The resource named after the v1 file `name`.
    pub fn from_v1_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|resource| {
            // Those that v1 lacks are named after their v2 file.
            let file = resource.file(CgroupVersion::V1).or_else(|| resource.file(CgroupVersion::V2));
            file.is_some_and(|file| file.name == name)
        })
    }

    /// Whether only vendors' kernels have its file in a hierarchy of `version`, and no part of the agent asks
    /// for it yet.
    pub(super) const fn is_vendors(self, version: CgroupVersion) -> bool {
        match self {
            Self::WmarkRatio
            | Self::WmarkScaleFactor
            | Self::WmarkMinAdj
            | Self::MemoryPriority
            | Self::UsePriorityOom
            | Self::PagecacheLimitEnable
            | Self::PagecacheLimitSize
            | Self::PagecacheLimitSync => true,
            Self::MemoryMin | Self::MemoryLow | Self::MemoryHigh | Self::OomGroup => {
                matches!(version, CgroupVersion::V1)
            }
            _ => false,
        }
    }

    /// Its file in a hierarchy of `version`; `None` if that version has none. The table of
    /// collection.md 3.6, with the kernel's own cap on v1's CPU burst instead of the
    /// reference's 100 s (qos.md Q17).
    /// Device files are not in it: no part of the agent uses them yet.
    pub(super) const fn file(self, version: CgroupVersion) -> Option<ResourceFile> {
        use Codec::{ClassId, Int, Limit, List, Period, Protection, Quota, Shares, Statistic};
        use Support::{Always, EachDirectory, Kubepods};
        const MAX: i64 = i64::MAX;
        /// Largest quota plus burst of a period, in microseconds: `MAX_BW` of kernel/sched/core.c.
        const MAX_BANDWIDTH_US: i64 = (1 << 44) - 1;
        let v1 = matches!(version, CgroupVersion::V1);
        // Vendor memory files: found on v1 once under kubepods, on v2 directory by directory.
        let vendor = if v1 { Kubepods } else { EachDirectory };
        let (v1_name, v2_name, support, codec) = match self {
            Self::CpuShares => ("cpu.shares", "cpu.weight", Always, Shares),
            Self::CfsQuota => ("cpu.cfs_quota_us", "cpu.max", Always, Quota),
            Self::CfsPeriod => ("cpu.cfs_period_us", "cpu.max", Always, Period),
            Self::CfsBurst if v1 => ("cpu.cfs_burst_us", "", EachDirectory, Int(0, MAX_BANDWIDTH_US)),
            Self::CfsBurst => ("", "cpu.max.burst", Kubepods, Int(0, MAX)),
            Self::BvtWarpNs => ("cpu.bvt_warp_ns", "cpu.bvt_warp_ns", EachDirectory, Int(-1, 2)),
            Self::CpuIdle => ("cpu.idle", "cpu.idle", Kubepods, Int(0, 1)),
            Self::CpuStat => ("cpu.stat", "cpu.stat", Always, Statistic),
            Self::Tasks => ("tasks", "cgroup.threads", Always, Statistic),
            Self::Procs => ("cgroup.procs", "cgroup.procs", Always, Statistic),
            Self::Cpus => ("cpuset.cpus", "cpuset.cpus", Always, List),
            Self::Mems => ("cpuset.mems", "cpuset.mems", Always, List),
            Self::CpuUsage => ("cpuacct.usage", "cpu.stat", Always, Statistic),
            Self::CpuacctStat => ("cpuacct.stat", "cpu.stat", Always, Statistic),
            Self::CpuPressure => ("cpu.pressure", "cpu.pressure", Kubepods, Statistic),
            Self::MemoryPressure => ("memory.pressure", "memory.pressure", Kubepods, Statistic),
            Self::IoPressure => ("io.pressure", "io.pressure", Kubepods, Statistic),
            Self::MemoryLimit => ("memory.limit_in_bytes", "memory.max", Always, Limit),
            Self::MemswLimit => ("memory.memsw.limit_in_bytes", "memory.swap.max", EachDirectory, Limit),
            Self::MemoryUsage => ("memory.usage_in_bytes", "memory.current", Always, Statistic),
            Self::MemoryStat => ("memory.stat", "memory.stat", Always, Statistic),
            Self::MemoryNumaStat => ("memory.numa_stat", "memory.numa_stat", Always, Statistic),
            Self::IdlePageStats => ("memory.idle_page_stats", "", Kubepods, Statistic),
            Self::MemoryMin => ("memory.min", "memory.min", if v1 { Kubepods } else { Always }, Protection),
            Self::MemoryLow => ("memory.low", "memory.low", if v1 { Kubepods } else { Always }, Protection),
            Self::MemoryHigh => {
                ("memory.high", "memory.high", if v1 { Kubepods } else { Always }, Protection)
            }
            Self::WmarkRatio => ("memory.wmark_ratio", "memory.wmark_ratio", vendor, Int(0, 100)),
            Self::WmarkScaleFactor => {
                ("memory.wmark_scale_factor", "memory.wmark_scale_factor", vendor, Int(1, 1000))
            }
            Self::WmarkMinAdj => ("memory.wmark_min_adj", "memory.wmark_min_adj", vendor, Int(-25, 50)),
            Self::MemoryPriority => ("memory.priority", "memory.priority", vendor, Int(0, 12)),
            Self::UsePriorityOom => ("memory.use_priority_oom", "memory.use_priority_oom", vendor, Int(0, 1)),
            Self::OomGroup => ("memory.oom.group", "memory.oom.group", vendor, Int(0, 1)),
            Self::PagecacheLimitEnable => ("", "memory.pagecache_limit.enable", vendor, Int(0, 1)),
            Self::PagecacheLimitSize => ("", "memory.pagecache_limit.size", vendor, Int(0, MAX)),
            Self::PagecacheLimitSync => ("", "memory.pagecache_limit.sync", vendor, Int(0, 1)),
            Self::NetClsClassid => ("net_cls.classid", "", Kubepods, ClassId),
        };
        let effective_name = match self {
            Self::Cpus if !v1 => Some("cpuset.cpus.effective"),
            Self::Mems if !v1 => Some("cpuset.mems.effective"),
            _ => None,
        };
        let name = if v1 { v1_name } else { v2_name };
        if name.is_empty() { None } else { Some(ResourceFile { name, effective_name, support, codec }) }
    }
}
