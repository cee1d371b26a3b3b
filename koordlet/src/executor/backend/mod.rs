//! How the executor reaches the host: one trait, so that tests can put faults between, and one file for each
//! kind of target.

pub mod cgroup_file;
pub mod timed;

use std::io;

use nix::errno::Errno;

use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;

/// Reads and writes cgroup files. Shared by the worker and its memory lanes.
pub trait Backend: Send + Sync + 'static {
    /// Id of the directory in the hierarchy of `resource`: its inode number.
    fn id(&self, dir: &CgroupDir, resource: Resource) -> io::Result<u64>;

    /// The text of the file that is written for `resource`, without its last line break.
    fn read(&self, dir: &CgroupDir, resource: Resource) -> io::Result<String>;

    /// Writes `text` in one piece, if the directory still has the id `id`; else it is gone (ENOENT).
    fn write(&self, dir: &CgroupDir, resource: Resource, id: u64, text: &str) -> io::Result<()>;

    /// The directories right beneath `dir` in the hierarchy of `resource`.
    fn children(&self, dir: &CgroupDir, resource: Resource) -> io::Result<Vec<CgroupDir>>;
}

/// Whether an error means that the cgroup is not there (any more): ENOENT on open, ENODEV on a file of a
/// removed group. Normal, and never counted as a failure (cases C031, C053).
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ENOENT | Errno::ENODEV | Errno::ENOTDIR))
}

/// The kernel's answer in the words of an operator.
pub fn answer(error: &io::Error) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(errno) => format!("{errno:?}: {}", errno.desc()),
        None => error.to_string(),
    }
}
