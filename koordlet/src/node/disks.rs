//! The disk collector: sysfs and mounts -> [`Disks`], collection.md 2.4 (gate `BlkIOReconcile`). Published only
//! when it is another one. No command is run (qos.md Q27).

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::round_log::RoundResult;
use super::rounds::Collect;
use crate::error_chain::chain;
use crate::host::block_devices;
use crate::host::mountinfo::{self, MountsOf};
use crate::host::offers::Offer;
use crate::host::roots::Roots;
use crate::host::text_file;
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
    mounts_of: MountsOf,
    disks: Published<Disks>,
    /// Of the mounts, what was told.
    told: Option<String>,
}

impl DiskCollector {
    /// For the machine below `roots`, whose mounts are those of `mounts_of`.
    pub fn new(roots: &Roots, mounts_of: MountsOf, disks: Published<Disks>) -> Self {
        Self { roots: roots.clone(), mounts_of, disks, told: None }
    }
}

impl Collect for DiskCollector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn round(&mut self, _: Nanos) -> RoundResult {
        let Found { disks, only_own_mounts } = read(&self.roots, self.mounts_of)?;
        if self.told != only_own_mounts {
            if let Some(why) = &only_own_mounts {
                tracing::warn!(
                    collector = NAME,
                    why,
                    "the host's mounts cannot be seen, only this container's"
                );
            }
            self.told = only_own_mounts;
        }
        self.disks.update(disks);
        Ok(())
    }
}

/// What a reading found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The disks.
    pub disks: Disks,
    /// Why their mounts are the agent's own instead of the host's, if they are.
    pub only_own_mounts: Option<String>,
}

/// The disks as they are now.
///
/// # Errors
/// sysfs or procfs cannot be read.
pub fn read(roots: &Roots, mounts_of: MountsOf) -> Result<Found, DiskError> {
    let devices = block_devices::read(&roots.sys)
        .map_err(|source| DiskError::Devices { path: roots.sys.join("block"), source })?;
    let (text, only_own_mounts) = mounts(&roots.proc, mounts_of)?;
    Ok(Found { disks: Disks::new(&devices, mountinfo::mounts(&text)), only_own_mounts })
}

/// The mounts, and why they are not those of the host.
fn mounts(proc: &Path, mounts_of: MountsOf) -> Result<(String, Option<String>), DiskError> {
    let read = |process: &str| {
        let path = proc.join(process).join("mountinfo");
        mount_table(&path).map_err(|source| DiskError::Mounts { path, source })
    };
    let own = read("self")?;
    if mounts_of == MountsOf::Agent {
        return Ok((own, None));
    }
    match read("1") {
        // A process 1 with the very same mounts is one of the agent's own container.
        Ok(host) if host == own => {
            Ok((own, Some("process 1 has the same: the pod lacks hostPID: true".to_owned())))
        }
        Ok(host) => Ok((host, None)),
        Err(error) => Ok((own, Some(chain(&error)))),
    }
}

fn mount_table(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    text_file::open(path)?.take(MAX_MOUNTS + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_MOUNTS {
        return Err(io::Error::other(format!("it is larger than {} MiB", MAX_MOUNTS >> 20)));
    }
    // A mount point may be any bytes: such a one can belong to no pod.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What this node has of it, for `koordlet doctor`.
pub fn offer(roots: &Roots, mounts_of: MountsOf) -> Offer {
    match read(roots, mounts_of) {
        Ok(Found { disks, only_own_mounts }) => {
            let (disks, parts, groups) =
                (disks.disk_numbers.len(), disks.partition_disks.len(), disks.group_disks.len());
            let mounts = only_own_mounts.map(|why| format!("; mounts of this container only: {why}"));
            let detail = format!(
                "on: {disks} disks, {parts} partitions, {groups} volume groups on one disk{}",
                mounts.unwrap_or_default()
            );
            Offer::ok(OFFER, detail)
        }
        Err(error) => Offer::failed(OFFER, chain(&error)),
    }
}

#[cfg(test)]
mod tests;
