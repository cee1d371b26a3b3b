//! What the executor tells of each write that the kernel took, to whoever keeps an audit trail.

use std::fmt;

use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::claims::claim::Owner;
use crate::claims::target::CgroupTarget;

/// What a write is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteSubject {
    /// A file of a cgroup directory.
    Cgroup(CgroupTarget),
    /// The tasks of a cgroup directory, or something that stands for it elsewhere.
    Directory(CgroupDir),
    /// A resctrl group, with the directory that it is for if that is a single one.
    Resctrl(Option<CgroupDir>),
    /// The tasks of a cgroup directory, which were moved to a resctrl group.
    ResctrlTasks(CgroupDir),
    /// The whole host.
    Host,
}

impl WriteSubject {
    /// The cgroup directory that it is about.
    pub fn dir(&self) -> Option<&CgroupDir> {
        match self {
            Self::Cgroup(target) => Some(&target.dir),
            Self::Directory(dir) | Self::ResctrlTasks(dir) => Some(dir),
            Self::Resctrl(dir) => dir.as_ref(),
            Self::Host => None,
        }
    }

    /// The resource of a cgroup file.
    pub fn resource(&self) -> Option<Resource> {
        match self {
            Self::Cgroup(target) => Some(target.resource),
            Self::Directory(_) | Self::Resctrl(_) | Self::ResctrlTasks(_) | Self::Host => None,
        }
    }
}

/// One write that really happened: neither a wish, nor an attempt, nor a value that was there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRecord {
    /// What it is about.
    pub subject: WriteSubject,
    /// Path of the file as the host sees it.
    pub path: String,
    /// Text that was written.
    pub value: String,
    /// Text that was there before; of a second write in one change, the text before the first one.
    pub was: String,
    /// For whom; `None` where what is given back was nobody's any more.
    pub owner: Option<Owner>,
    /// Why, in one sentence.
    pub why: String,
}

/// Hears of writes. It is called on the executor's thread and so must never wait.
pub trait WriteObserver: fmt::Debug + Send + Sync {
    /// The kernel took a write.
    fn wrote(&self, record: WriteRecord);
}
