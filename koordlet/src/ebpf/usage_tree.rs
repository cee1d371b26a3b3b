//! The usage hierarchy on disk: every directory with its cgroup id, parents first.

use std::io;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::PathBuf;

use crate::cgroup::hierarchy::Hierarchy;
use crate::cgroup::path::CgroupDir;

/// The hierarchy.
#[derive(Clone, Debug)]
pub struct UsageTree {
    root: PathBuf,
    whole: bool,
}

impl UsageTree {
    /// The tree of a mounted hierarchy.
    pub fn new(hierarchy: &Hierarchy) -> Self {
        // The root of a part is deeper than the kernel's first level.
        let whole = hierarchy.dir_of_kernel_path("/x").is_some();
        Self { root: hierarchy.root().to_owned(), whole }
    }

    /// Whether every group of the kernel is in it; else the mount shows a part.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Id of the root group.
    pub fn root_id(&self) -> io::Result<u64> {
        Ok(std::fs::metadata(&self.root)?.ino())
    }

    /// The root directory.
    pub fn root(&self) -> &std::path::Path {
        &self.root
    }

    /// Walks it. A directory that vanishes meanwhile is left out. On cgroup file systems an entry's inode number
    /// is the group's id, so that nothing need be opened but the directories themselves.
    pub fn walk(&self) -> io::Result<Vec<(CgroupDir, u64)>> {
        let mut found = Vec::new();
        let mut open: Vec<Option<CgroupDir>> = vec![None];
        while let Some(dir) = open.pop() {
            let path = dir.as_ref().map_or_else(|| self.root.clone(), |dir| self.root.join(dir.as_str()));
            let entries = match std::fs::read_dir(path) {
                Ok(entries) => entries,
                Err(_) if dir.is_some() => continue,
                Err(error) => return Err(error),
            };
            for entry in entries.flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                let inner = match &dir {
                    Some(dir) => dir.join(name),
                    None => CgroupDir::new(name),
                };
                if let Ok(inner) = inner {
                    found.push((inner.clone(), entry.ino()));
                    open.push(Some(inner));
                }
            }
        }
        Ok(found)
    }
}
