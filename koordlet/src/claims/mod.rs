//! Every wish for one kernel setting, with owner and reason, combined to one decision each. Pure: no
//! clock, no file, no socket. Nobody writes; each part claims, and the executor makes the plan true.

pub mod claim;
pub mod combine;
pub mod plan;
pub mod target;
