//! What can be claimed of resctrl: that it is mounted, one line of a group, and whose group a directory's tasks are in.
//! A group is there for as long as somebody claims something of it; the kernel puts the tasks of a group that goes back
//! into the root group.

use std::fmt;

use super::claim::Owner;
use super::combine::Rank;
use super::target::Target;
use crate::cgroup::path::CgroupDir;
use crate::resctrl::group::ResctrlGroup;
use crate::resctrl::schemata::{SchemataLine, SchemataResource};

/// A setting of resctrl.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ResctrlTarget {
    /// The file system. What is mounted stays so: with nothing but its root group it changes nothing.
    Mount,
    /// One line of a group's schemata.
    Line(ResctrlGroup, SchemataResource),
    /// The group of all tasks of a directory and of those beneath it, but for directories with a claim of their own.
    Tasks(CgroupDir),
}

/// What a setting of resctrl can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResctrlValue {
    /// It is mounted.
    Mounted,
    /// The values of a line.
    Line(SchemataLine),
    /// The tasks are in this group.
    Group(ResctrlGroup),
}

const TASKS: &[Rank] =
    &[Rank { owner: Owner::PodResctrl, why: "a pod's own group is narrower than the one of its class" }];

impl ResctrlTarget {
    /// The group that it is about, with this value.
    pub fn group<'a>(&'a self, value: &'a ResctrlValue) -> Option<&'a ResctrlGroup> {
        match (self, value) {
            (Self::Line(group, _), _) | (Self::Tasks(_), ResctrlValue::Group(group)) => Some(group),
            _ => None,
        }
    }
}

impl fmt::Display for ResctrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount => f.write_str("/sys/fs/resctrl"),
            Self::Line(group, resource) => write!(f, "/sys/fs/resctrl/{group}/schemata {}", resource.name()),
            Self::Tasks(dir) => write!(f, "{dir} resctrl group"),
        }
    }
}

impl fmt::Display for ResctrlValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted => f.write_str("mounted"),
            Self::Line(line) => line.fmt(f),
            Self::Group(group) => group.fmt(f),
        }
    }
}

impl Target for ResctrlTarget {
    type Value = ResctrlValue;

    fn precedence(&self) -> &'static [Rank] {
        match self {
            Self::Tasks(_) => TASKS,
            Self::Mount | Self::Line(..) => &[],
        }
    }
}
