//! What can be claimed.

use std::fmt;

use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;

/// One kernel setting that a part of the agent may claim. Each kind has its own backend in `executor/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// One resource of one cgroup directory.
    Cgroup {
        /// The directory. First, so that targets sort by tree.
        dir: CgroupDir,
        /// The resource.
        resource: Resource,
    },
}

impl Target {
    /// A cgroup target.
    pub fn cgroup(dir: &CgroupDir, resource: Resource) -> Self {
        Self::Cgroup { dir: dir.clone(), resource }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cgroup { dir, resource } => write!(f, "{dir} {resource:?}"),
        }
    }
}
