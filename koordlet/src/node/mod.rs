//! Procfs, sysfs and cgroup files -> samples of usage; inotify where there is no eBPF.

pub mod be_files;
pub mod be_round;
pub mod cgroup_watch;
pub mod cold_memory;
pub mod collect;
pub mod cpi;
pub mod disks;
pub mod file_usage;
pub mod follower;
pub mod group_files;
mod groups;
mod held_stats;
pub mod history;
pub mod kernel_facts;
pub mod numa_use;
pub mod perf_group;
pub mod pressure;
pub mod procfs;
mod rate;
mod resctrl_facts;
pub mod resctrl_use;
pub mod round_log;
pub mod rounds;
pub mod system_round;
#[cfg(test)]
mod testing;
pub mod tree_scan;
