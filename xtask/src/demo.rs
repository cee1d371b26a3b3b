//! `cargo xtask demo`: builds the agent for release and runs the demo against it.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::Args;

use crate::build_ebpf;
use crate::command::{cargo, run as run_command};
use crate::workspace::Workspace;

/// Arguments of the verb.
#[derive(Args)]
pub(crate) struct Options {
    /// Leave a picture of the run
    #[arg(long, value_name = "FILE.svg")]
    record: Option<PathBuf>,
}

/// Fails when the demo did: when nothing was enforced.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    build_ebpf::run(workspace)?;
    println!("building for release");
    let mut build = cargo(workspace);
    build.args(["build", "--release", "--quiet", "-p", "koordlet", "-p", "koordlet-tests", "--bins"]);
    run_command(&mut build)?;
    let mut demo = Command::new(workspace.target("release/demo"));
    demo.env("KOORDLET_BIN", workspace.target("release/koordlet"));
    if let Some(path) = &options.record {
        demo.arg("--record").arg(path);
    }
    // In this process's place: on Ctrl-C the shell then waits until the demo has cleaned up.
    Err(anyhow::Error::new(demo.exec()).context("starting the demo"))
}
