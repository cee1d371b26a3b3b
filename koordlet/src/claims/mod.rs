//! Every wish for one kernel setting, with owner and reason, combined to one decision each. Pure: no
//! clock, no file, no socket. Nobody writes; each part claims, and the executor makes the plan true.

mod baseline;
mod be_cpus;
mod burst;
pub mod claim;
mod class;
pub mod combine;
mod cpus;
pub mod explain;
pub mod mainline;
pub mod native;
pub mod network;
pub mod own_file;
pub mod plan;
pub mod planner;
mod pod;
pub mod resctrl;
mod resize;
mod subtree;
pub mod target;
#[cfg(test)]
pub(crate) mod testing;
