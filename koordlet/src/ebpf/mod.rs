//! The eBPF programs, loaded: births and deaths of cgroups, CPU time of each.

pub mod events;
pub mod load;
pub mod offsets;
pub mod usage;
