//! A cgroup directory as a checked relative path. `naming` and `place` say whose it is.

use std::fmt;
use std::sync::Arc;

/// A cgroup directory relative to the root of its hierarchy: no leading or trailing slash, never empty (the
/// root group is never a target), without `.` or `..` parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupDir(Arc<str>);

/// A path that names no cgroup that the agent may touch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not a cgroup directory: {what}")]
pub struct CgroupDirError {
    path: String,
    what: &'static str,
}

impl CgroupDirError {
    /// For `path`, with what is wrong with it.
    pub(crate) fn new(path: &str, what: &'static str) -> Self {
        Self { path: path.chars().take(200).collect(), what }
    }
}

impl CgroupDir {
    /// Checks and normalises a path; outer slashes are dropped.
    pub fn new(path: &str) -> Result<Self, CgroupDirError> {
        let error = |what| CgroupDirError::new(path, what);
        let trimmed = path.trim_matches('/');
        if trimmed.is_empty() {
            return Err(error("it is the root group"));
        }
        if trimmed.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(error("it has an empty, `.` or `..` part"));
        }
        if trimmed.contains('\0') {
            return Err(error("it has a NUL byte"));
        }
        Ok(Self(trimmed.into()))
    }

    /// The path text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory `name` in this one. `name` is one path part.
    pub fn join(&self, name: &str) -> Result<Self, CgroupDirError> {
        Self::new(&format!("{}/{name}", self.0))
    }

    /// The directory above, or `None` at the top level.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.into()))
    }

    /// The last part.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// Number of parts: 1 for a top-level directory.
    pub fn depth(&self) -> usize {
        self.0.split('/').count()
    }

    /// Whether `other` is this directory or lies beneath it.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for CgroupDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
