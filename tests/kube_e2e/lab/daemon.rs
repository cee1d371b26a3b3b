//! A server of the cluster as a child process with a log of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::place::Place;

/// How long a server may take to start or end. Generous: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(3);
const LOOK: Duration = Duration::from_millis(100);
/// Lines of a log that an error shows.
const TAIL: usize = 25;

/// A running server; ended when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts `command`, logging to `NAME.log`. Its pid is noted, so that it can be ended without this process.
    pub(crate) fn start(place: &Place, name: &'static str, command: &mut Command) -> Result<Self> {
        let log = place.log(name);
        let file = std::fs::File::options().create(true).append(true).open(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let daemon = Self { name, child, log };
        place.note_process(daemon.pid())?;
        Ok(daemon)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `is_so`, which is tried again after an error; fails with the end of the log when the process has
    /// ended or time is over.
    pub(crate) fn wait_until(&self, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
        let mut left = PATIENCE;
        let mut last = Ok(false);
        while self.runs() && !left.is_zero() {
            last = is_so();
            if matches!(last, Ok(true)) {
                return Ok(());
            }
            sleep(LOOK);
            left = left.saturating_sub(LOOK);
        }
        let why = last.err().map(|error| format!(" ({error:#})")).unwrap_or_default();
        bail!(
            "{}: not so within {PATIENCE:?}: {what}{why}; its log ends with:\n{}",
            self.name,
            self.log_tail()
        )
    }

    /// SIGTERM, and SIGKILL where that is not heeded.
    pub(crate) fn stop(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            kill(Pid::from_raw(self.pid().try_into()?), Signal::SIGTERM)?;
            let child = &mut self.child;
            if !kit::until(PATIENCE / 6, || matches!(child.try_wait(), Ok(Some(_)))) {
                kit::skip::note(format_args!("{} did not end on SIGTERM", self.name));
                self.kill();
            }
        }
        Ok(())
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        // Both fail only when it has been waited for already.
        self.child.kill().ok();
        self.child.wait().ok();
    }

    fn runs(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        // The name, in brackets, may hold anything.
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    }

    fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(TAIL)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}
