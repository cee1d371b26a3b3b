//! What this machine is: facts, probed once, every path under a root that is a parameter.

pub mod block_devices;
pub mod char_device;
pub mod clock;
pub mod cpuinfo;
pub mod kernel;
pub mod kidled;
mod lscpu;
#[cfg(test)]
pub(crate) mod machines;
pub mod mainline;
pub mod meminfo;
pub mod mountinfo;
pub mod numa;
pub mod offers;
pub mod online;
pub mod probe_group;
pub mod roots;
pub mod text_file;
pub mod topology;
