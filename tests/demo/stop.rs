//! Ctrl-C and SIGTERM as something to ask for: the demo then leaves by its normal way out and cleans up.

use anyhow::{Context as _, Result};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The caught signals.
pub(crate) struct StopSignals(SignalFd);

impl StopSignals {
    /// From now on the signals wait to be asked for. To be called before any thread starts. Children inherit
    /// that; the agent clears its mask itself.
    pub(crate) fn catch() -> Result<Self> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block().context("blocking signals")?;
        let fd = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        Ok(Self(fd.context("a descriptor for signals")?))
    }

    /// Whether one has come.
    pub(crate) fn has_come(&self) -> bool {
        matches!(self.0.read_signal(), Ok(Some(_)))
    }
}
