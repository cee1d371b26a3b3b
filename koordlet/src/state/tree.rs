//! The cgroup directories beneath kubepods that exist right now.

use std::collections::BTreeMap;

use crate::cgroup::path::CgroupDir;

/// What a directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirKind {
    /// `kubepods` or `kubepods.slice`.
    Kubepods,
    /// Burstable's or BestEffort's directory.
    QosClass,
    /// A pod's directory.
    Pod,
    /// A directory right under a pod's: a container or a sandbox.
    Container,
    /// Anything deeper (systemd in a container).
    Nested,
}

/// Directories that exist, in tree order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupTree {
    /// Directory -> what it is.
    pub dirs: BTreeMap<CgroupDir, DirKind>,
}
