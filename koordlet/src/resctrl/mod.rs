//! The kernel's resource control of caches and memory bandwidth (resctrl): names of groups, capacity masks, bandwidth
//! values, and the text of schemata, both ways. Values and text only: nothing here opens a file.

pub mod bandwidth;
pub mod group;
pub mod l3_mask;
pub mod schemata;
