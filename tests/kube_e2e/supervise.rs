//! Runs the tests in a child process and cleans up after it: after a signal, after a crash, and when time is over, too.

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::lab::place;

/// First argument of the child.
pub(crate) const WORKER: &str = "worker";
/// Minutes until everything is ended, where nothing else is said.
const MINUTES: u64 = 60;

/// The exit code is the child's; 1 when it had to be ended.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    place::sweep()?;
    let signals = catch_signals()?;
    // What loses its parent comes to this process, not to one that may not wait for it.
    nix::sys::prctl::set_child_subreaper(true).context("adopting orphans")?;
    let minutes = std::env::var("KOORDLET_E2E_MINUTES").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(60 * minutes.unwrap_or(MINUTES));
    let mut child = Command::new(std::env::current_exe()?)
        .arg(WORKER)
        .args(arguments)
        .spawn()
        .context("starting the tests")?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > end || matches!(signals.read_signal(), Ok(Some(_))) {
            kit::skip::note(format_args!("kube-e2e: interrupted, or out of time: cleaning up"));
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    place::sweep()?;
    let success = status.is_some_and(|status| status.success());
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// To be called before any thread or child starts. Children inherit the mask: see [`take_signals`].
fn catch_signals() -> Result<SignalFd> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block().context("blocking signals")?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .context("a descriptor for signals")
}

/// In a child of the supervisor: signals do again what they do.
pub(crate) fn take_signals() -> Result<()> {
    SigSet::empty().thread_set_mask().context("unblocking signals")
}
