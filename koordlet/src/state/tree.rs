//! The cgroup directories beneath kubepods that exist right now.

use std::collections::BTreeMap;

use crate::cgroup::path::CgroupDir;
pub use crate::cgroup::place::DirKind;

/// Directories that exist, in tree order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupTree {
    /// Directory -> what it is.
    pub dirs: BTreeMap<CgroupDir, DirKind>,
}
