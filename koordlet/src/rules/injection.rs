//! What a plugin puts into a container besides resources: environment, mounts and devices. Data for the hook answer;
//! whoever answers looks up what only the host knows.

use std::collections::BTreeMap;

pub use crate::host::char_device::DeviceWish;

/// Things to put into one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
    /// Environment variables.
    pub envs: BTreeMap<String, String>,
    /// Bind mounts.
    pub mounts: Vec<BindMount>,
    /// Devices.
    pub devices: Vec<DeviceWish>,
    /// The class of caches and bandwidth: its resctrl group, hooks.md 11.1. Only NRI can carry it, and a runtime starts
    /// no container whose group is not there: whoever answers has to see to that first.
    pub rdt_class: Option<String>,
}

/// A recursive bind mount (`rbind`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMount {
    /// Path on the host.
    pub source: String,
    /// Path in the container.
    pub destination: String,
    /// A directory of the host that is made anew first, with mode 0777.
    pub fresh_source: bool,
}
