//! What a plugin puts into a container besides resources: environment, mounts and devices. Data for the hook answer;
//! whoever answers looks up what only the host knows.

use std::collections::BTreeMap;

/// Things to put into one container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
    /// Environment variables.
    pub envs: BTreeMap<String, String>,
    /// Bind mounts.
    pub mounts: Vec<BindMount>,
    /// Devices.
    pub devices: Vec<DeviceWish>,
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

/// A device by what is known of it before the host is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceWish {
    /// The character device at this path.
    Path(String),
    /// The verbs device of the PCI function at this address.
    VerbsOfPci(String),
}

impl Injection {
    /// Adds what `other` brings; of a variable that both set, the later one counts.
    pub fn append(&mut self, other: Self) {
        let Self { envs, mounts, devices } = other;
        self.envs.extend(envs);
        self.mounts.extend(mounts);
        self.devices.extend(devices);
    }
}
