//! Names of programs, maps and load-time globals in the object file.

/// Programs; each is also the name of the tracepoint that it attaches to.
pub mod program {
    /// A cgroup directory was made.
    pub const CGROUP_MKDIR: &str = "cgroup_mkdir";
    /// A cgroup directory was removed.
    pub const CGROUP_RMDIR: &str = "cgroup_rmdir";
    /// The scheduler charged run time to a task.
    pub const SCHED_STAT_RUNTIME: &str = "sched_stat_runtime";
}

/// Maps.
pub mod map {
    /// Ring buffer of [`CgroupRecord`](crate::record::CgroupRecord).
    pub const EVENTS: &str = "EVENTS";
    /// Hash: cgroup id -> slot.
    pub const SLOTS: &str = "SLOTS";
    /// Array: low bits of a cgroup id -> slot, see [`layout::hint_index`](crate::layout::hint_index).
    pub const HINTS: &str = "HINTS";
    /// Stack of free slots, filled by user space.
    pub const FREE: &str = "FREE";
    /// Array, mapped: slot -> cgroup id, 0 when the slot is free.
    pub const OWNERS: &str = "OWNERS";
    /// Array, mapped: nanoseconds, see [`layout::time_index`](crate::layout::time_index).
    pub const CPU_TIME: &str = "CPU_TIME";
    /// Array, mapped: lost things, see [`layout::loss_index`](crate::layout::loss_index).
    pub const LOSSES: &str = "LOSSES";
}

/// Load-time globals. All are `u32`, but for [`ROOT_ID`](global::ROOT_ID) and
/// [`WANTED_HIERARCHIES`](global::WANTED_HIERARCHIES), which are `u64`. Offsets are in bytes.
pub mod global {
    /// `task_struct.cgroups`
    pub const TASK_CGROUPS: &str = "TASK_CGROUPS";
    /// Offset in `css_set` of the pointer that leads to the usage hierarchy's cgroup: `dfl_cgrp`, or the
    /// element of `subsys` of the cpuacct controller.
    pub const CSS_SET_LINK: &str = "CSS_SET_LINK";
    /// 1 if that pointer is to a `cgroup_subsys_state` (one more step), 0 if to the `cgroup`.
    pub const LINK_IS_CSS: &str = "LINK_IS_CSS";
    /// `cgroup_subsys_state.cgroup`
    pub const CSS_CGROUP: &str = "CSS_CGROUP";
    /// `cgroup.kn`
    pub const CGROUP_KN: &str = "CGROUP_KN";
    /// `cgroup.root`
    pub const CGROUP_ROOT: &str = "CGROUP_ROOT";
    /// `cgroup.level`
    pub const CGROUP_LEVEL: &str = "CGROUP_LEVEL";
    /// `cgroup_root.hierarchy_id`
    pub const ROOT_HIERARCHY_ID: &str = "ROOT_HIERARCHY_ID";
    /// `kernfs_node.id`
    pub const KN_ID: &str = "KN_ID";
    /// Id of the usage hierarchy's root group, which is not charged.
    pub const ROOT_ID: &str = "ROOT_ID";
    /// Slots in each CPU's row of the time array.
    pub const SLOT_COUNT: &str = "SLOT_COUNT";
    /// Bit n set: births and deaths in hierarchy n are wanted (n of 64 and above are always sent).
    pub const WANTED_HIERARCHIES: &str = "WANTED_HIERARCHIES";
}
