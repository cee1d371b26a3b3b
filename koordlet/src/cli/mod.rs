//! One file a verb.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::config::{Invocation, Verb};

mod agent_client;
pub mod doctor;
pub mod explain;
pub mod inspect;
mod log;
mod log_bounds;
pub mod restore;
pub mod run;

/// Carries out one verb. An error is for the caller to print, with its causes in one line.
pub fn carry_out(invocation: Invocation) -> anyhow::Result<ExitCode> {
    let Invocation { verb, output, config } = invocation;
    match verb {
        Verb::Run => run::run(config, output),
        Verb::Doctor => doctor::run(&config, output),
        Verb::InspectNode => inspect::run(&config.roots, output),
        Verb::Explain { target } => explain::run(&config, output, target.as_deref()),
        Verb::Restore => restore::run(&config, output),
    }
}

/// Writes a verb's answer to stdout. A reader that has gone (`| head`) is an error like any other, not a panic.
fn answer(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}
