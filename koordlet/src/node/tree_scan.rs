//! Walks the hierarchies for the cgroup directories that exist: at start, and after events were lost.

use std::fs;
use std::os::unix::fs::DirEntryExt as _;
use std::path::Path;

use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Controller;
use crate::state::tree::FoundDir;

/// Directories deeper than this are not looked at: a container may nest as it likes.
const MAX_DEPTH: usize = 16;

/// Every directory from `top` down, once for each hierarchy that has it. What vanishes meanwhile is left out:
/// its death is an event of its own.
pub fn scan(layout: &Layout, top: &CgroupDir) -> Vec<FoundDir> {
    let mut found = Vec::new();
    for hierarchy in layout.hierarchies().iter().filter(|each| !each.controllers().is_empty()) {
        let path = hierarchy.root().join(top.as_str());
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            let id = std::os::unix::fs::MetadataExt::ino(&metadata);
            add(&path, top, id, hierarchy.controllers(), &mut found);
        }
    }
    found
}

fn add(path: &Path, dir: &CgroupDir, id: u64, controllers: &[Controller], found: &mut Vec<FoundDir>) {
    found.push(FoundDir { controllers: controllers.to_vec(), id, dir: dir.clone() });
    if dir.depth() >= MAX_DEPTH {
        return;
    }
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let Some(child) = entry.file_name().to_str().and_then(|name| dir.join(name).ok()) else { continue };
        add(&entry.path(), &child, entry.ino(), controllers, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_is_found_once_a_hierarchy_and_links_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        for dir in ["cpu/kubepods/pod1/c1", "cpu/other", "memory/kubepods/pod1", "cpuset/kubepods", "cpuacct"]
        {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        std::os::unix::fs::symlink(root.path().join("cpu/other"), root.path().join("cpu/kubepods/link"))
            .unwrap();
        let layout = Layout::of_folder(root.path()).unwrap();
        let found = scan(&layout, &CgroupDir::new("kubepods").unwrap());
        let count = |dir: &str| found.iter().filter(|each| each.dir.as_str() == dir).count();
        let dirs = ["kubepods", "kubepods/pod1", "kubepods/pod1/c1", "kubepods/link", "other"];
        assert_eq!(dirs.map(count), [3, 2, 1, 0, 0]);
    }
}
