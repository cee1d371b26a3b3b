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

/// `NAME_MAX`: longest part of a path, in bytes.
const MAX_PART: usize = 255;
/// Longest path: `PATH_MAX`, less what the hierarchy's root and a file's name may take.
const MAX_LENGTH: usize = 3584;

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
        // The kernel makes no such directory; what names one comes from an object that is wrong.
        if trimmed.contains(['\0', '\n']) {
            return Err(error("it has a NUL byte or a line break"));
        }
        if trimmed.len() > MAX_LENGTH || trimmed.split('/').any(|part| part.len() > MAX_PART) {
            return Err(error("it is longer than a path can be"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_cannot_have_names_no_directory() {
        let long = |length| "x".repeat(length);
        assert!(CgroupDir::new(&format!("kubepods/pod{}/{}", long(252), long(255))).is_ok());
        for bad in [
            "",
            "/",
            "a//b",
            "a/..",
            "./a",
            "a\0",
            "a\nb",
            &long(256),
            &format!("kubepods/{}", long(5000)),
            &vec![long(255); 15].join("/"),
        ] {
            let error = CgroupDir::new(bad).unwrap_err().to_string();
            assert!(error.len() < 400, "{error}");
        }
    }
}
