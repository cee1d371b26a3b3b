//! Files of the run directory: ordinary ones of our own, whatever else was put in their place. A link could
//! lead anywhere, a named pipe would never be read to its end.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens `path` as `options` say, if it is an ordinary file. Never waits. New files are for root alone.
pub(super) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let options = options.mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    // Links, and pipes that nobody reads, are refused by the kernel.
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not an ordinary file")) }
}

/// Whether `file` is still what `path` leads to.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(held), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (held.dev(), held.ino()) == (there.dev(), there.ino())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    #[test]
    fn only_ordinary_files_are_opened_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        symlink("/dev/zero", path("link")).unwrap();
        fs::create_dir(path("dir")).unwrap();
        for name in ["pipe", "link", "dir"] {
            assert!(open(OpenOptions::new().read(true), &path(name)).is_err(), "{name} is read");
            let writing = open(OpenOptions::new().append(true).create(true), &path(name));
            assert!(writing.is_err(), "{name} is written");
        }
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_not_in_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut options = OpenOptions::new();
        let make = options.write(true).create(true);
        let file = open(make, &path).unwrap();
        assert!(is_at(&file, &path));
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&file, &path));
        let other = open(make, &path).unwrap();
        assert!(!is_at(&file, &path) && is_at(&other, &path));
    }
}
