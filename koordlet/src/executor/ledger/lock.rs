//! A lock against a second agent on the same run directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::own_file;

/// File name in the run directory. Holds the owner's process id.
pub const FILE: &str = "lock";

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("{path} is locked: another agent (process {holder}) is running on this node")]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Process id that its owner wrote into it, or `unknown`.
        holder: String,
    },
    /// The file could not be made or locked.
    #[error("cannot lock {path}")]
    File {
        /// The lock file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Held as long as it lives; the kernel lets go of it when the process dies.
#[derive(Debug)]
pub struct RunLock {
    file: Flock<File>,
    path: PathBuf,
}

impl RunLock {
    /// Takes the lock of `run_dir` or says who has it.
    pub fn take(run_dir: &Path) -> Result<Self, LockError> {
        let path = run_dir.join(FILE);
        let failed = |source| LockError::File { path: path.clone(), source };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = own_file::open(options, &path).map_err(failed)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                // Only a help for whoever meets the lock; a full disk must not keep the agent from starting.
                if let Err(error) = name_holder(&mut file) {
                    tracing::warn!(%error, path = %path.display(), "the lock does not tell who holds it");
                }
                if !own_file::is_at(&file, &path) {
                    return Err(failed(io::Error::other("it was replaced at the same moment")));
                }
                Ok(Self { file, path })
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut holder = String::new();
                let read = file.read_to_string(&mut holder);
                let known = read.is_ok() && holder.trim().parse::<u32>().is_ok();
                let holder = if known { holder.trim().to_owned() } else { "unknown".to_owned() };
                Err(LockError::Held { path, holder })
            }
            Err((_, errno)) => Err(failed(errno.into())),
        }
    }

    /// Whether the locked file is the one that a second agent would try to lock.
    pub fn is_in_place(&self) -> bool {
        own_file::is_at(&self.file, &self.path)
    }
}

fn name_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_lock_names_the_holder_and_a_dropped_one_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let lock = RunLock::take(dir.path()).unwrap();
        let error = RunLock::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        assert!(lock.is_in_place());
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        assert!(!lock.is_in_place());
        let second = RunLock::take(dir.path()).unwrap();
        assert!(second.is_in_place());
        drop((lock, second));
        RunLock::take(dir.path()).unwrap();
    }
}
