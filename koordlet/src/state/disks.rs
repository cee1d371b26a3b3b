//! Block devices of the node (`node_local_storage_info`, collection.md 2.4).

use std::collections::BTreeMap;

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
