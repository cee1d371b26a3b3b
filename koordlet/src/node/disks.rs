//! The disk collector: sysfs and mounts -> [`Disks`], collection.md 2.4 (gate `BlkIOReconcile`). Published only
//! when it is another one. No command is run (qos.md Q27).

use std::error::Error;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::rounds::Collect;
use crate::error_chain::chain;
use crate::host::block_devices;
use crate::host::mountinfo;
use crate::host::offers::Offer;
use crate::host::roots::Roots;
use crate::state::disks::Disks;
use crate::state::facts::Published;
use crate::units::Nanos;

/// Its name in `koordlet doctor`.
pub const OFFER: &str = "collector-disks";

/// Longest list of mounts that is read; a node with 100,000 mounts stays below.
const MAX_MOUNTS: u64 = 32 << 20;

/// The collector's name.
pub const NAME: &str = "disks";

/// Why the disks are not known.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// sysfs.
    #[error("cannot list the block devices in {}", path.display())]
    Devices {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// procfs.
    #[error("cannot read the mounts in {}", path.display())]
    Mounts {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The collector.
#[derive(Debug)]
pub struct DiskCollector {
    roots: Roots,
    disks: Published<Disks>,
}

impl DiskCollector {
    /// For the machine below `roots`.
    pub fn new(roots: &Roots, disks: Published<Disks>) -> Self {
        Self { roots: roots.clone(), disks }
    }
}

impl Collect for DiskCollector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn round(&mut self, _: Nanos) -> Result<(), Box<dyn Error + Send + Sync>> {
        let disks = read(&self.roots)?;
        if self.disks.get().is_none_or(|last| *last != disks) {
            self.disks.set(disks);
        }
        Ok(())
    }
}

/// The disks as they are now.
///
/// # Errors
/// sysfs or procfs cannot be read.
pub fn read(roots: &Roots) -> Result<Disks, DiskError> {
    let devices = block_devices::read(&roots.sys)
        .map_err(|source| DiskError::Devices { path: roots.sys.join("block"), source })?;
    let path = roots.proc.join("self/mountinfo");
    let text = mounts(&path).map_err(|source| DiskError::Mounts { path, source })?;
    Ok(Disks::new(&devices, mountinfo::mounts(&text)))
}

fn mounts(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_MOUNTS + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_MOUNTS {
        return Err(io::Error::other(format!("it is larger than {} MiB", MAX_MOUNTS >> 20)));
    }
    // A mount point may be any bytes: such a one can belong to no pod.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What this node has of it, for `koordlet doctor`.
pub fn offer(roots: &Roots) -> Offer {
    match read(roots) {
        Ok(disks) => {
            let (disks, parts, groups) =
                (disks.disk_numbers.len(), disks.partition_disks.len(), disks.group_disks.len());
            let detail = format!("on: {disks} disks, {parts} partitions, {groups} volume groups on one disk");
            Offer::ok(OFFER, detail)
        }
        Err(error) => Offer::failed(OFFER, chain(&error)),
    }
}

#[cfg(test)]
mod tests;
