//! Real processes in a test's cgroups: they join the group before they do anything else, are killed by pid, and
//! waited for.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::binary;
use crate::tree::Tree;

/// What a process does.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// Keep this many threads busy.
    Spin {
        /// Number of threads.
        threads: u32,
    },
    /// Keep one thread busy for this share of each 10 ms, in percent.
    Duty {
        /// 1 to 100.
        percent: u32,
    },
    /// Run for a moment, then sleep for so many milliseconds, and so on.
    Blink {
        /// Of sleep.
        millis: u64,
    },
    /// Sleep for ever.
    Sleep,
}

/// A process in a cgroup of the test; it ends when this is dropped, or with the test itself.
#[derive(Debug)]
pub struct Load {
    child: Child,
}

impl Load {
    pub(crate) fn start(tree: &Tree, dir: &str, work: Work) -> Result<Self> {
        let mut command = Command::new(binary::load()?);
        let _ = match work {
            Work::Spin { threads } => command.args(["spin", &threads.to_string()]),
            Work::Duty { percent } => command.args(["duty", &percent.to_string()]),
            Work::Blink { millis } => command.args(["blink", &millis.to_string()]),
            Work::Sleep => command.arg("sleep"),
        };
        // It ends with its stdin, and so with this process however that ends.
        command.args(tree.procs_files(dir)).stdin(Stdio::piped());
        Self::spawn(&mut command)
    }

    /// Starts `command`, which must answer one line on stdout when it is set up.
    fn spawn(command: &mut Command) -> Result<Self> {
        use std::io::{BufRead as _, BufReader};
        let child = command.stdout(Stdio::piped()).spawn().context("starting a load process")?;
        let mut load = Self { child };
        let stdout = load.child.stdout.take().context("no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        if line.trim() == "ready" { Ok(load) } else { bail!("the load process did not get ready: {line:?}") }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it now.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        stop_child(&mut self.child);
    }
}

/// Kills a child of ours and waits for it.
pub(crate) fn stop_child(child: &mut Child) {
    // Both fail only when it has been waited for already.
    child.kill().ok();
    child.wait().ok();
}

/// Waits for a child of ours for `limit`; `None` when it still runs.
pub(crate) fn wait_child(child: &mut Child, limit: Duration) -> Result<Option<std::process::ExitStatus>> {
    let mut left = limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if left.is_zero() {
            return Ok(None);
        }
        let step = Duration::from_millis(5).min(left);
        sleep(step);
        left -= step;
    }
}

/// A file of our own, made or emptied.
pub fn own_file(path: &std::path::Path) -> Result<File> {
    File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .open(path)
        .with_context(|| format!("making {}", path.display()))
}
