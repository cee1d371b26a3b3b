//! `cargo xtask e2e`: the agent against the real peers that a node has. It takes minutes and a Go toolchain, so CI's
//! everyday run leaves it out.
//!
//! `kube`: etcd, kube-apiserver, containerd and kubelet on a loopback address of this machine. The programs come from
//! Debian, from a folder that `KOORDLET_E2E_BIN` names, or are built once from Go modules into `target/e2e/bin`.

mod go_modules;
mod programs;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::command::{cargo, run as run_command};
use crate::counts::{Counts, Output};
use crate::follow::follow;
use crate::workspace::Workspace;
use crate::{build_ebpf, debian};

/// etcd, a runtime for containers, what their image is made of, and what makes certificates and namespaces.
const PACKAGES: [&str; 6] = ["etcd-server", "runc", "busybox-static", "openssl", "util-linux", "tar"];

/// Arguments of the verb.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Real etcd, kube-apiserver, kubelet and containerd on this machine; needs root
    Kube(Kube),
}

#[derive(Args)]
struct Kube {
    /// Only tests whose name contains this
    filter: Option<String>,
    /// Outages last as long as the slow faults of real clusters: two minutes without an API server
    #[arg(long)]
    full: bool,
    /// After so many minutes everything is ended
    #[arg(long, default_value_t = 60)]
    minutes: u64,
}

/// Runs one part; the last line holds the counts.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    match &options.part {
        Part::Kube(options) => kube(workspace, options),
    }
}

fn kube(workspace: &Workspace, options: &Kube) -> Result<ExitCode> {
    let start = Instant::now();
    debian::install(&PACKAGES)?;
    let folder = programs::find_or_build(workspace)?;
    build_ebpf::run(workspace)?;
    println!("building the agent and the tests");
    let mut build = cargo(workspace);
    build.args(["build", "--quiet", "-p", "koordlet", "-p", "koordlet-tests", "--bins"]);
    run_command(&mut build)?;
    let mut tests = Command::new(workspace.target("debug/kube-e2e"));
    tests
        .env("KOORDLET_E2E_BIN", folder)
        .env("KOORDLET_E2E_DEPLOY", workspace.path("deploy"))
        .env("KOORDLET_E2E_LOG", workspace.target("e2e/log"))
        .env("KOORDLET_E2E_MINUTES", options.minutes.to_string())
        .args(options.full.then_some("--full"))
        .args(&options.filter);
    let mut output = Output::default();
    // It minds its own limit, and then cleans up.
    let limit = Duration::from_mins(options.minutes + 5);
    let status = follow(&mut tests, limit, |line| output.line(line))?;
    let mut counts = Counts::default();
    counts.add("kube", output, status.success());
    println!("\n{} s in all; logs in {}", start.elapsed().as_secs(), workspace.target("e2e/log").display());
    for name in &counts.failures {
        println!("failed: {name}");
    }
    println!("{counts}");
    Ok(if counts.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
