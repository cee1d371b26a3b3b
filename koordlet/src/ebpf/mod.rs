//! The eBPF programs, loaded: births and deaths of cgroups, CPU time of each. Where they cannot be, inotify
//! and cgroup files (room `node`) take over behind the same interfaces: see [`sensors`].

pub mod accounts;
pub mod btf;
pub mod events;
pub mod load;
pub mod losses;
pub mod offsets;
pub(crate) mod pod_unit;
pub mod reader;
pub mod sensors;
pub mod slots;
pub mod usage;
pub mod usage_stats;
pub mod usage_tree;
mod why_not;
