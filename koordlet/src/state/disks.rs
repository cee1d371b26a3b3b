//! Block devices of the node (`node_local_storage_info`, collection.md 2.4).

use std::collections::{BTreeMap, BTreeSet};

use crate::host::block_devices::{BlockDevice, BlockKind};
use crate::host::mountinfo::Mount;

/// How device-mapper ids of LVM start, and the length of the two ids after that: of the group and of the volume.
/// What follows marks a volume that LVM made for itself.
const LVM: (&str, usize) = ("LVM-", 64);

/// The maps of collection.md 2.4. Numbers are `MAJ:MIN`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disks {
    /// Disk (`/dev/vda`) -> number.
    pub disk_numbers: BTreeMap<String, String>,
    /// Number -> disk.
    pub number_disks: BTreeMap<String, String>,
    /// Partition (`/dev/vda1`) -> disk.
    pub partition_disks: BTreeMap<String, String>,
    /// Volume group -> disk, where the group lies on one disk.
    pub group_disks: BTreeMap<String, String>,
    /// Logical volume (`/dev/mapper/vg-lv`) -> volume group.
    pub volume_groups: BTreeMap<String, String>,
    /// Mount point -> source.
    pub mount_sources: BTreeMap<String, String>,
}

impl Disks {
    /// From what sysfs and the mounts say, collection.md 2.4.
    ///
    /// A partition's disk is the device that it is a part of, whatever their minor numbers (qos.md Q27). A
    /// group's disk is the one beneath all of its active volumes; a group that lies on several, or on anything
    /// that is no disk, has none. Of several mounts on one point the last counts.
    pub fn new<'a>(devices: &[BlockDevice], mounts: impl IntoIterator<Item = Mount<'a>>) -> Self {
        let by_name: ByName<'_> = devices.iter().map(|device| (device.name.as_str(), device)).collect();
        let mut disks = Self::default();
        let mut groups: BTreeMap<&String, BTreeSet<&str>> = BTreeMap::new();
        for device in devices {
            match &device.kind {
                BlockKind::Disk => {
                    disks.disk_numbers.insert(device.path(), device.number.clone());
                    disks.number_disks.insert(device.number.clone(), device.path());
                }
                BlockKind::Partition { whole } => {
                    let whole = by_name.get(whole.as_str()).filter(|whole| whole.kind == BlockKind::Disk);
                    disks.partition_disks.extend(whole.map(|whole| (device.path(), whole.path())));
                }
                BlockKind::Mapper { name, uuid, .. } => {
                    if let Some(group) = volume_group(name, uuid) {
                        disks.volume_groups.insert(device.path(), group);
                    }
                }
                BlockKind::Other { .. } => {}
            }
        }
        for device in devices {
            if let Some(group) = disks.volume_groups.get(&device.path()) {
                groups.entry(group).or_default().append(&mut lowest(device, &by_name));
            }
        }
        for (group, lowest) in groups {
            let mut lowest = lowest.iter();
            let (Some(only), None) = (lowest.next(), lowest.next()) else { continue };
            let disk = by_name.get(only).filter(|device| device.kind == BlockKind::Disk);
            disks.group_disks.extend(disk.map(|disk| (group.clone(), disk.path())));
        }
        disks.mount_sources = mount_sources(devices, mounts);
        disks
    }
}

type ByName<'a> = BTreeMap<&'a str, &'a BlockDevice>;

/// The names of the devices that `device` lies on in the end. One that is not known (any more) counts as such an end.
fn lowest<'a>(device: &'a BlockDevice, by_name: &ByName<'a>) -> BTreeSet<&'a str> {
    let (mut ends, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut to_look_at = vec![device.name.as_str()];
    while let Some(name) = to_look_at.pop() {
        if !seen.insert(name) {
            continue;
        }
        let below: &[String] = match by_name.get(name).map(|device| &device.kind) {
            Some(BlockKind::Partition { whole }) => std::slice::from_ref(whole),
            Some(BlockKind::Mapper { below, .. } | BlockKind::Other { below }) => below,
            Some(BlockKind::Disk) | None => &[],
        };
        if below.is_empty() {
            ends.insert(name);
        }
        to_look_at.extend(below.iter().map(String::as_str));
    }
    ends
}

/// The volume group of a logical volume that can be used by others. The device mapper's name is the group's and
/// the volume's, each with its dashes doubled, and a dash between them.
fn volume_group(name: &str, uuid: &str) -> Option<String> {
    let (prefix, length) = LVM;
    if uuid.strip_prefix(prefix)?.len() != length {
        return None;
    }
    let bytes = name.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, bytes.get(at + 1)) {
            (b'-', Some(b'-')) => at += 2,
            (b'-', Some(_)) if at > 0 => return Some(name.get(..at)?.replace("--", "-")),
            (b'-', _) => return None,
            _ => at += 1,
        }
    }
    None
}

/// Mount point -> source. A device is named by its path, whatever name it was mounted by (`/dev/root`,
/// `/dev/disk/by-uuid/...`, `/dev/dm-0`).
fn mount_sources<'a>(
    devices: &[BlockDevice],
    mounts: impl IntoIterator<Item = Mount<'a>>,
) -> BTreeMap<String, String> {
    let by_number: BTreeMap<&str, &BlockDevice> =
        devices.iter().map(|device| (device.number.as_str(), device)).collect();
    let source = |mount: Mount<'a>| match by_number.get(mount.number) {
        Some(device) => (mount.point, device.path()),
        None => (mount.point, mount.source),
    };
    mounts.into_iter().map(source).collect()
}
