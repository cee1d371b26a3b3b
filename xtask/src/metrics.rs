//! `cargo xtask metrics`: writes the reference page of all metrics. A test fails where it is stale.

use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::command::{capture, cargo};
use crate::workspace::Workspace;

/// Where the page lives.
const PAGE: &str = "deploy/metrics.md";

/// Has the agent's own table printed, and writes it down.
pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    let mut print = cargo(workspace);
    print.args(["run", "--quiet", "-p", "koordlet-tests", "--bin", "metrics-page"]);
    let page = capture(&mut print).context("making the page")?;
    let file = workspace.root().join(PAGE);
    let written = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&file)
        .and_then(|mut open| writeln!(open, "{}", page.trim_end()));
    written.with_context(|| format!("writing {}", file.display()))?;
    println!("written: {PAGE}");
    Ok(ExitCode::SUCCESS)
}
