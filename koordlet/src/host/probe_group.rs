//! A group in which one can see what files groups have. The root group of a hierarchy lacks most of them, so
//! without any group beneath it (no kubelet yet, no systemd) an empty one is made and removed again.
//!
//! An empty directory of this process's own name, made and removed again, is also how the run directory is
//! tried: permission bits do not tell it of every file system. These are the only things that are made on the
//! host outside of the executor: nothing runs in them, no value is written.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// A group's directory in one hierarchy; removed when dropped if it was made for this.
#[derive(Debug)]
pub struct ProbeGroup {
    path: PathBuf,
    made: bool,
}

impl ProbeGroup {
    /// The first of `wanted` that is there, else any group right beneath `root`, else one made for this.
    pub fn beneath(root: &Path, wanted: &[&str]) -> io::Result<Self> {
        match Self::existing(root, wanted) {
            Some(path) => Ok(Self { path, made: false }),
            None => Self::made_in(root),
        }
    }

    /// The first of `wanted` that is there, else any group right beneath `root`.
    pub fn existing(root: &Path, wanted: &[&str]) -> Option<PathBuf> {
        let wanted = wanted.iter().map(|dir| root.join(dir)).find(|path| path.is_dir());
        wanted.or_else(|| any_child(root))
    }

    /// A directory made for this in `parent`.
    pub fn made_in(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("koordlet-doctor-{}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self { path, made: true }),
            // Left by a process of the same id that was killed in between.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self { path, made: true }),
            Err(error) => Err(error),
        }
    }

    /// The group's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ProbeGroup {
    fn drop(&mut self) {
        if self.made
            && let Err(error) = fs::remove_dir(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the probe group stays behind");
        }
    }
}

fn any_child(root: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(root).ok()?;
    entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_made_only_where_there_is_none_and_removed_again() {
        let root = tempfile::tempdir().unwrap();
        let made = ProbeGroup::beneath(root.path(), &["kubepods"]).unwrap();
        let path = made.path().to_owned();
        assert!(path.is_dir() && path.starts_with(root.path()));
        drop(made);
        assert!(!path.exists());
        fs::create_dir(root.path().join("system.slice")).unwrap();
        assert!(ProbeGroup::beneath(root.path(), &["kubepods"]).unwrap().path().ends_with("system.slice"));
        fs::create_dir(root.path().join("kubepods")).unwrap();
        drop(ProbeGroup::beneath(root.path(), &["kubepods.slice", "kubepods"]).unwrap());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    }
}
