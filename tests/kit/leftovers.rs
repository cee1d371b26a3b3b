//! Sweeps `koordtest-<pid>-<n>` directories of test processes that are gone.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::hierarchy::all_mount_points;
use crate::wait::until;

/// Every top-level directory of the kit begins so.
pub(crate) const PREFIX: &str = "koordtest-";

/// Removes what dead test processes left in any hierarchy.
pub(crate) fn sweep() -> Result<()> {
    for mount in all_mount_points()? {
        let Ok(entries) = fs::read_dir(&mount) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name.to_str().and_then(owner).is_some_and(|pid| !is_alive(pid)) {
                remove_tree(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// Removes a top-level directory of the kit from all hierarchies, with the processes in it.
pub fn remove_everywhere(top: &str) -> Result<()> {
    all_mount_points()?.iter().try_for_each(|mount| remove_tree(&mount.join(top)))
}

/// Removes one directory of the kit's and all beneath it, with the processes in it: only processes that a test
/// started are ever put there.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    if !path.components().any(|part| part.as_os_str().to_string_lossy().starts_with(PREFIX)) {
        bail!("refusing to remove {}: not a directory of the test kit", path.display());
    }
    let gone = until(Duration::from_secs(10), || {
        remove_once(path);
        !path.exists()
    });
    if gone { Ok(()) } else { bail!("{} cannot be removed", path.display()) }
}

fn remove_once(path: &Path) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_once(&entry.path());
    }
    let procs = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    for pid in procs.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 1) {
        // A process that is gone meanwhile is what we want.
        kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
    }
    // EBUSY while killed processes leave: the caller tries again.
    fs::remove_dir(path).ok();
}

/// The pid in `koordtest-<pid>-<n>`.
fn owner(name: &str) -> Option<u32> {
    let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    pid.parse().ok()
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kits_own_names_have_an_owner() {
        assert_eq!(owner("koordtest-12-3"), Some(12));
        assert_eq!(owner("kubepods.slice"), None);
        assert_eq!(owner("koordtest-x-1"), None);
        assert!(remove_tree(Path::new("/sys/fs/cgroup/memory/other")).is_err());
    }
}
