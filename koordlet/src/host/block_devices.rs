//! Block devices from sysfs: which there are, what each is, and what it lies on (collection.md 2.4). No command
//! is run. A device that goes while it is looked at is left out.

use std::fs;
use std::io;
use std::path::Path;

use super::lscpu::text;

/// Most devices that are looked at; more than any node has.
const MOST: usize = 16_384;

/// Major number of RAM disks.
const RAM: &str = "1:";

/// SCSI's type of drives with removable read-only media.
const SCSI_ROM: &str = "5";

/// One block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// The kernel's name.
    pub name: String,
    /// `MAJ:MIN`
    pub number: String,
    /// What it is.
    pub kind: BlockKind,
}

/// What a block device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A disk.
    Disk,
    /// A part of a disk or of another device that can have parts.
    Partition {
        /// The kernel's name of the whole.
        whole: String,
    },
    /// A device of the device mapper.
    Mapper {
        /// Its name, `/dev/mapper/<name>`.
        name: String,
        /// Says who made it: `LVM-...`, `CRYPT-...`; empty if nobody did.
        uuid: String,
        /// Names of the devices that it lies on.
        below: Vec<String>,
    },
    /// A RAID of the kernel, a loop device, a drive without medium: never a place of its own.
    Other {
        /// Names of the devices that it lies on.
        below: Vec<String>,
    },
}

impl BlockDevice {
    /// The path under which it is mounted and named in reports.
    pub fn path(&self) -> String {
        match &self.kind {
            BlockKind::Mapper { name, .. } => format!("/dev/mapper/{name}"),
            // A name with a directory in it (`cciss!c0d0`) cannot hold a slash in sysfs.
            _ => format!("/dev/{}", self.name.replace('!', "/")),
        }
    }
}

/// The devices below `<sys>/block`, sorted by name.
///
/// # Errors
/// The folder cannot be read.
pub fn read(sys: &Path) -> io::Result<Vec<BlockDevice>> {
    let mut devices = Vec::new();
    for name in names(&sys.join("block"))? {
        let dir = sys.join("block").join(&name);
        // A path of a multipath NVMe device is hidden: it has no number. A device of size 0 holds nothing.
        let Some(number) = text(&dir.join("dev")) else { continue };
        if text(&dir.join("size")).as_deref() == Some("0") {
            continue;
        }
        devices.extend(partitions(&dir, &name));
        let kind = kind(&dir, &name, &number);
        devices.push(BlockDevice { name, number, kind });
        if devices.len() > MOST {
            return Err(io::Error::other(format!("there are more than {MOST} block devices")));
        }
    }
    devices.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(devices)
}

fn kind(dir: &Path, name: &str, number: &str) -> BlockKind {
    let below = || names(&dir.join("slaves")).unwrap_or_default();
    if let Some(mapped) = text(&dir.join("dm/name")) {
        let uuid = text(&dir.join("dm/uuid")).unwrap_or_default();
        return BlockKind::Mapper { name: mapped, uuid, below: below() };
    }
    let is_rom = text(&dir.join("device/type")).as_deref() == Some(SCSI_ROM);
    if dir.join("md").exists() || dir.join("loop").exists() || name.starts_with("loop") || is_rom {
        return BlockKind::Other { below: below() };
    }
    if number.starts_with(RAM) { BlockKind::Other { below: Vec::new() } } else { BlockKind::Disk }
}

/// The parent folder says whose part it is: minor numbers do not (qos.md Q27).
fn partitions(dir: &Path, whole: &str) -> Vec<BlockDevice> {
    let parts = names(dir).unwrap_or_default().into_iter().filter(|name| name.starts_with(whole));
    let parts = parts.filter(|name| dir.join(name).join("partition").exists());
    let found = parts.filter_map(|name| {
        let number = text(&dir.join(&name).join("dev"))?;
        Some(BlockDevice { name, number, kind: BlockKind::Partition { whole: whole.to_owned() } })
    });
    found.collect()
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.filter_map(Result::ok);
    Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).take(MOST).collect())
}
