//! What can be claimed: one type for each kind of setting, since each says for itself what a value is and applies it
//! in its own way (a backend in `executor/` each). What they have in common is [`Target`].

use std::fmt;
use std::sync::Arc;

use super::combine::{Rank, precedence};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;

/// One kernel setting that a part of the agent may claim.
pub trait Target: Clone + Ord + fmt::Debug + fmt::Display {
    /// What it can hold.
    type Value: Clone + PartialEq + fmt::Debug + fmt::Display;

    /// Who yields to whom: the first wins. Owners that are not listed come after the listed ones, in the order of
    /// [`Owner`](super::claim::Owner).
    fn precedence(&self) -> &'static [Rank];
}

/// One resource of one cgroup directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupTarget {
    /// The directory. First, so that targets sort by tree.
    pub dir: CgroupDir,
    /// The resource.
    pub resource: Resource,
}

impl CgroupTarget {
    /// A resource of `dir`.
    pub fn new(dir: &CgroupDir, resource: Resource) -> Self {
        Self { dir: dir.clone(), resource }
    }
}

impl fmt::Display for CgroupTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, resource } = self;
        write!(f, "{dir} {resource:?}")
    }
}

impl Target for CgroupTarget {
    type Value = Value;

    fn precedence(&self) -> &'static [Rank] {
        precedence(self.resource)
    }
}

/// Where a setting of the whole host lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostRoot {
    /// `--proc-root-dir`: sysctls are under `sys/`.
    Proc,
    /// `--sys-root-dir`
    Sys,
}

/// A setting of the whole host: a file of procfs or sysfs that holds one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostFile {
    root: HostRoot,
    path: Arc<str>,
}

impl HostFile {
    /// A sysctl by its path, e.g. `kernel/sched_core`.
    pub fn sysctl(name: &str) -> Self {
        Self { root: HostRoot::Proc, path: format!("sys/{name}").into() }
    }

    /// A file of sysfs by its path, e.g. `kernel/debug/sched_features`.
    pub fn sys(path: &str) -> Self {
        Self { root: HostRoot::Sys, path: path.into() }
    }

    /// A file by root and relative path; `None` if the path would lead out of the root.
    pub fn checked(root: HostRoot, path: &str) -> Option<Self> {
        let part_is_good = |part: &str| !part.is_empty() && part != "." && part != "..";
        path.split('/').all(part_is_good).then(|| Self { root, path: path.into() })
    }

    /// Which tree it is in.
    pub fn root(&self) -> HostRoot {
        self.root
    }

    /// Its path in that tree.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for HostFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = match self.root {
            HostRoot::Proc => "/proc",
            HostRoot::Sys => "/sys",
        };
        write!(f, "{root}/{}", self.path)
    }
}

impl Target for HostFile {
    /// The text to write, without a line break.
    type Value = String;

    fn precedence(&self) -> &'static [Rank] {
        &[]
    }
}

/// Something about all tasks of one cgroup directory, those of directories beneath it not counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskTarget {
    /// The directory.
    pub dir: CgroupDir,
    /// What.
    pub attribute: TaskAttribute,
}

/// An attribute of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskAttribute {
    /// `/proc/<pid>/oom_score_adj`
    OomScoreAdj,
    /// The core scheduling cookie.
    CoreSchedCookie,
}

/// What tasks are to have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TaskValue {
    /// An OOM score adjustment, -1000 to 1000.
    OomScoreAdj(i32),
    /// The cookie of a group, by the group's name; whoever is first makes it.
    CookieOf(Arc<str>),
    /// No cookie.
    NoCookie,
}

impl fmt::Display for TaskTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.attribute {
            TaskAttribute::OomScoreAdj => "oom_score_adj",
            TaskAttribute::CoreSchedCookie => "core scheduling cookie",
        };
        write!(f, "{} {what}", self.dir)
    }
}

impl fmt::Display for TaskValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OomScoreAdj(score) => score.fmt(f),
            Self::CookieOf(group) => write!(f, "cookie of group {group:?}"),
            Self::NoCookie => f.write_str("no cookie"),
        }
    }
}

impl Target for TaskTarget {
    type Value = TaskValue;

    fn precedence(&self) -> &'static [Rank] {
        &[]
    }
}
