//! Flags, gates and how they resolve to one immutable configuration.
//!
//! `argv` makes Go's flag syntax digestible, `flags` collects text, `resolve` turns text and environment
//! into the [`Config`] of `settings` and reports every mistake at once. Nothing here touches the host.

pub mod argv;
pub mod audit;
pub mod collect;
pub mod flags;
pub mod gates;
pub mod kube;
pub mod kubelet;
mod mistakes;
pub mod predict;
pub mod reference;
pub mod report;
pub mod resolve;
pub mod rules;
pub mod settings;

pub use settings::{
    Config, CpuUsageSource, DriverChoice, EbpfMode, Invocation, ListenAddr, Mode, Output, Verb,
};
