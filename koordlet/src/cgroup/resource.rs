//! What can be read or set in a cgroup, named after its v1 file, collection.md 3.6.

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
}
