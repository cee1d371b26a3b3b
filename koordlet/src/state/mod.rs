//! What is known: one immutable snapshot of each kind, with one writer and many readers.

pub mod cpu_manager;
pub mod cpu_sources;
pub mod hub;
pub mod pods;
pub mod reserve;
pub mod slo;
pub mod snapshot;
pub mod topology;
pub mod tree;
pub mod usage;
