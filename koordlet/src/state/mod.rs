//! What is known: one immutable snapshot of each kind, with one writer and many readers.

pub mod be_resources;
pub mod cache_use;
pub mod cold_memory;
pub mod cpi;
pub mod cpu_manager;
pub mod cpu_memory;
pub mod cpu_sources;
pub mod disks;
pub mod facts;
pub mod group_stats;
pub mod groups;
pub mod hub;
pub mod node_metric;
pub mod pods;
pub mod predict;
pub mod pressure;
pub mod reserve;
pub mod series;
pub mod slo;
pub mod snapshot;
pub mod system_usage;
pub mod topology;
pub mod tree;
pub mod troubles;
pub mod usage;
