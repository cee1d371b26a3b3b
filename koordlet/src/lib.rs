//! The node QoS agent as a library: the rooms of the README's architecture section.
//!
//! Data flows down: sources -> `state` -> decisions (`rules`, `strategies`) -> `claims` -> `executor`.
//! A lower room never imports a higher one. `rules`, `strategies` and `claims` are pure: no clock, no
//! file, no socket. Only `executor` changes the host; only `cgroup` knows v1 from v2; `unsafe` is in
//! `sys` alone.

pub mod agent;
pub mod api;
pub mod cgroup;
pub mod claims;
pub mod cli;
pub mod config;
pub mod cpuset;
pub mod ebpf;
pub mod error_chain;
pub mod executor;
pub mod host;
pub mod kube;
pub mod manifests;
pub mod node;
pub mod report;
pub mod resctrl;
pub mod rules;
pub mod state;
pub mod strategies;
pub mod sys;
pub mod units;
