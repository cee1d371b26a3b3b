//! The run directory: the lock and the ledger in it, at start and when somebody clears it away while we run.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::ledger::lock::RunLock;
use super::ledger::{Damage, Ledger};
use super::{ExecutorConfig, ExecutorError};
use crate::units::Nanos;

/// Between two looks whether it is still there.
const LOOK: Nanos = Nanos(5_000_000_000);

/// The lock and the ledger of the run directory; a dry run has neither, but its socket lies there.
pub(super) fn open(
    config: &ExecutorConfig,
) -> Result<(Option<RunLock>, Ledger, Option<Damage>), ExecutorError> {
    let path = &config.run_dir;
    make(path).map_err(|source| ExecutorError::RunDir { path: path.clone(), source })?;
    if config.dry_run {
        return Ok((None, Ledger::in_memory(), None));
    }
    let lock = RunLock::take(path)?;
    let (ledger, damage) = Ledger::open(path)?;
    Ok((Some(lock), ledger, damage))
}

fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Looks from time to time whether lock and ledger are where a next agent finds them, and puts them back.
/// Without the lock a second agent would start beside this one, without the ledger the originals were lost.
pub(super) struct RunDirGuard {
    path: PathBuf,
    lock: Option<RunLock>,
    looked: Nanos,
}

impl RunDirGuard {
    /// Guards what `open` gave; nothing without a lock.
    pub(super) fn new(path: PathBuf, lock: Option<RunLock>, now: Nanos) -> Self {
        Self { path, lock, looked: now }
    }

    /// Whether it is time and something is missing.
    pub(super) fn misses_something(&mut self, ledger: &Ledger, now: Nanos) -> bool {
        let Some(lock) = self.lock.as_ref().filter(|_| now - self.looked >= LOOK) else { return false };
        self.looked = now;
        !(lock.is_in_place() && ledger.is_in_place())
    }

    /// Takes the lock again and writes the ledger anew.
    ///
    /// # Errors
    /// Another agent has the lock: this one is none any more. Or there is no directory to be had.
    pub(super) fn put_back(&mut self, ledger: &mut Ledger) -> Result<(), ExecutorError> {
        let failed = |source| ExecutorError::RunDir { path: self.path.clone(), source };
        make(&self.path).map_err(failed)?;
        if !self.lock.as_ref().is_some_and(RunLock::is_in_place) {
            self.lock = Some(RunLock::take(&self.path)?);
        }
        ledger.put_in_place().map_err(failed)
    }

    /// The path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::cgroup::layout::Layout;
    use crate::executor::ledger::{FILE, lock};
    use crate::host::roots::Roots;

    #[test]
    fn a_dry_run_has_a_directory_for_its_socket_and_neither_lock_nor_ledger() {
        let above = tempfile::tempdir().unwrap();
        fs::create_dir(above.path().join("cpu")).unwrap();
        let config = ExecutorConfig {
            layout: Arc::new(Layout::of_folder(above.path()).unwrap()),
            run_dir: above.path().join("not/yet/there"),
            roots: Roots::host(),
            dry_run: true,
            host_root: None,
            observer: None,
        };
        assert!(open(&config).unwrap().0.is_none());
        assert_eq!(fs::read_dir(&config.run_dir).unwrap().count(), 0);
    }

    #[test]
    fn a_cleared_run_directory_is_made_again_unless_another_agent_took_it() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("run");
        make(&path).unwrap();
        let lock = RunLock::take(&path).unwrap();
        let mut ledger = Ledger::open(&path).unwrap().0;
        let mut guard = RunDirGuard::new(path.clone(), Some(lock), Nanos(0));
        assert!(!guard.misses_something(&ledger, LOOK));
        fs::remove_dir_all(&path).unwrap();
        assert!(!guard.misses_something(&ledger, Nanos(LOOK.0 + 1)), "not before its time");
        assert!(guard.misses_something(&ledger, Nanos(2 * LOOK.0)));
        guard.put_back(&mut ledger).unwrap();
        assert!(path.join(FILE).exists() && path.join(lock::FILE).exists());
        assert!(!guard.misses_something(&ledger, Nanos(3 * LOOK.0)));
        assert!(matches!(RunLock::take(&path), Err(lock::LockError::Held { .. })));

        fs::remove_dir_all(&path).unwrap();
        make(&path).unwrap();
        let _second = RunLock::take(&path).unwrap();
        assert!(matches!(guard.put_back(&mut ledger), Err(ExecutorError::Lock(_))));
        assert!(!path.join(FILE).exists(), "the ledger is the second one's");
    }
}
