//! The threads of a cgroup directory and of all beneath it: containers have groups of their own making (C092). Reads
//! only.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::host::text_file;

/// Most directories that are looked into beneath one.
const MAX_DIRS: usize = 4096;

/// Reads thread ids.
#[derive(Debug)]
pub(in crate::executor) struct Threads {
    layout: Arc<Layout>,
    /// Root of the hierarchy as the host sees it.
    shown_root: PathBuf,
}

impl Threads {
    /// In the hierarchies of `layout`.
    pub(in crate::executor) fn new(layout: Arc<Layout>, shown_root: PathBuf) -> Self {
        Self { layout, shown_root }
    }

    /// The threads of `dir` and of what is beneath it, but for directories of which `is_other` says that somebody else
    /// speaks for them. A directory that is not there (any more) has none.
    pub(super) fn beneath(&self, dir: &CgroupDir, is_other: impl Fn(&CgroupDir) -> bool) -> BTreeSet<u32> {
        let mut threads = BTreeSet::new();
        let mut left = vec![dir.clone()];
        for _ in 0..MAX_DIRS {
            let Some(next) = left.pop() else { break };
            let Some(path) = self.layout.file(&next, Resource::Tasks).and_then(|at| self.layout.path(&at))
            else {
                break;
            };
            threads.extend(ids(&text_file::read(&path).unwrap_or_default()));
            let children = path.parent().map(directories).unwrap_or_default();
            let children = children.into_iter().filter_map(|name| next.join(&name).ok());
            left.extend(children.filter(|child| !is_other(child)));
        }
        threads
    }

    /// The file that shows a directory's own threads, as the host sees it.
    pub(super) fn file(&self, dir: &CgroupDir) -> String {
        let file = self.layout.file(dir, Resource::Tasks);
        file.map_or_else(|| dir.to_string(), |at| self.shown_root.join(at.relative).display().to_string())
    }
}

/// Ids, one a line. 0 stands for a thread that this process cannot see, and written it would mean ourselves.
pub(super) fn ids(text: &str) -> impl Iterator<Item = u32> + '_ {
    text.lines().filter_map(|line| line.trim().parse().ok()).filter(|id| *id > 0)
}

fn directories(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
