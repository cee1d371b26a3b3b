//! Lines of `<proc>/self/mountinfo` and `<proc>/self/cgroup`, as text only.

use std::path::PathBuf;

use crate::host::mountinfo::{self, Mount};

/// A cgroup mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CgroupMount {
    /// Where it is mounted.
    pub(super) point: PathBuf,
    /// The directory of the hierarchy that is mounted there, `/` for the whole.
    pub(super) root: String,
    /// `cgroup2` rather than `cgroup`.
    pub(super) unified: bool,
    /// Controllers of a v1 mount, from the super block's options.
    pub(super) controllers: Vec<String>,
}

/// The cgroup mounts of a mountinfo text, in mount order. Lines of any other form are skipped.
pub(super) fn cgroup_mounts(text: &str) -> Vec<CgroupMount> {
    mountinfo::mounts(text).filter_map(cgroup_mount).collect()
}

fn cgroup_mount(mount: Mount<'_>) -> Option<CgroupMount> {
    let unified = match mount.fs_type {
        "cgroup" => false,
        "cgroup2" => true,
        _ => return None,
    };
    Some(CgroupMount {
        point: mount.point.into(),
        root: mount.root,
        unified,
        controllers: mount.super_options.split(',').map(str::to_owned).collect(),
    })
}

/// One line of `/proc/<pid>/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Membership<'a> {
    /// The kernel's number of the hierarchy; 0 is the unified one.
    pub(super) hierarchy: u32,
    /// Controllers of a v1 hierarchy; empty on the unified one.
    pub(super) controllers: &'a str,
    /// Path of the group; may itself hold colons (C059).
    pub(super) path: &'a str,
}

/// The lines of a `/proc/<pid>/cgroup` text; malformed ones are skipped.
pub(super) fn memberships(text: &str) -> impl Iterator<Item = Membership<'_>> {
    text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        Some(Membership {
            hierarchy: fields.next()?.parse().ok()?,
            controllers: fields.next()?,
            path: fields.next()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c061_optional_fields_of_a_mount_line_may_be_there_or_not() {
        for line in [
            "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw",
            "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw",
        ] {
            let mounts = cgroup_mounts(line);
            assert_eq!(mounts.len(), 1, "{line}");
            assert!(mounts[0].unified && mounts[0].point.as_os_str() == "/sys/fs/cgroup");
        }
    }

    #[test]
    fn co_mounted_controllers_and_escaped_paths_are_read() {
        let mounts = cgroup_mounts(
            "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:1 - cgroup cgroup rw,cpu,cpuacct\n\
             34 31 0:31 /a\\040b /mnt\\134x rw - cgroup none rw,memory\n\
             20 1 8:1 / / rw - ext4 /dev/sda1 rw\nnonsense\n",
        );
        assert_eq!(mounts[0].controllers, ["rw", "cpu", "cpuacct"]);
        assert_eq!((mounts[1].root.as_str(), mounts[1].point.to_str()), ("/a b", Some("/mnt\\x")));
        assert_eq!(mounts.len(), 2);
    }

    #[test]
    fn c059_colons_in_a_group_path_are_part_of_it() {
        let lines: Vec<_> = memberships("0::/a:b/c\n4:memory:/x:y\nbad\n").collect();
        assert_eq!((lines[0].hierarchy, lines[0].controllers, lines[0].path), (0, "", "/a:b/c"));
        assert_eq!((lines[1].hierarchy, lines[1].controllers, lines[1].path), (4, "memory", "/x:y"));
        assert_eq!(lines.len(), 2);
    }
}
