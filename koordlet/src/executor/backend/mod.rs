//! One backend for each kind of target.

pub mod cgroup_file;
