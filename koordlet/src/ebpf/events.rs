//! Cgroup events in user space, whoever saw them (eBPF ring buffer or inotify).

use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Controller;

/// Something that happened to a cgroup directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupEvent {
    /// A directory was made in the hierarchy of `controllers`.
    Born {
        /// Controllers of the hierarchy (several when co-mounted; all of them on v2). Only those that we read
        /// or write; never empty.
        controllers: Vec<Controller>,
        /// Cgroup id in that hierarchy (the directory's inode number).
        id: u64,
        /// Its path in the hierarchy.
        dir: CgroupDir,
    },
    /// A directory was removed.
    Died {
        /// Controllers of the hierarchy.
        controllers: Vec<Controller>,
        /// Cgroup id in that hierarchy.
        id: u64,
        /// Its path in the hierarchy.
        dir: CgroupDir,
    },
    /// Events were lost: rescan.
    Lost {
        /// How many, as far as known.
        count: u64,
    },
}
