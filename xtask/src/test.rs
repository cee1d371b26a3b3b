//! `cargo xtask test`: every test of the project, counted over all programs, and the house rules.
//!
//! The test programs are built by Cargo and started from here one by one, since those that share the kernel must
//! run single threaded and alone, and since a crash of one must not hide the rest.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::command::{capture, cargo, run as run_command};
use crate::counts::{Counts, Output};
use crate::follow::follow;
use crate::workspace::Workspace;
use crate::{build_ebpf, debian, tidy};

/// What the tests of the real kernel start: a container runtime, a static shell for its container, a library that reads
/// the metrics, and the programs that show the network's classes and rules.
const PACKAGES: [&str; 5] = ["runc", "busybox-static", "python3-prometheus-client", "iproute2", "nftables"];
/// The package of promtool, which judges the metrics. It is unpacked and not installed: it would start a server.
const PROMETHEUS: &str = "prometheus";
/// Test programs that share the kernel.
const ALONE: [&str; 1] = ["real_kernel"];
/// How long one test program may take.
const LIMIT: Duration = Duration::from_mins(20);

/// Arguments of the verb.
#[derive(Args)]
pub(crate) struct Options {
    /// `off`: neither build nor run what needs BPF; those tests count as skipped
    #[arg(long, value_enum, default_value_t = Ebpf::On)]
    ebpf: Ebpf,
    /// Only tests whose name contains this
    filter: Option<String>,
}

/// Whether the tests have BPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ebpf {
    /// With it.
    On,
    /// Without it.
    Off,
}

/// Runs the tests; the last line holds the counts.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let start = Instant::now();
    if options.ebpf == Ebpf::On {
        build_ebpf::run(workspace)?;
    }
    if let Err(error) = debian::install(&PACKAGES) {
        eprintln!("xtask: {error:#}: tests that need it will say that they are skipped");
    }
    if let Err(error) = debian::unpack(PROMETHEUS, &workspace.target(PROMETHEUS)) {
        eprintln!("xtask: {error:#}: the test of promtool will say that it is skipped");
    }
    let mut counts = Counts::default();
    let promtool = workspace.target(PROMETHEUS).join("usr/bin/promtool");
    for program in build(workspace)? {
        run_program(&program, &promtool, options, &mut counts)?;
    }
    run_doc_tests(workspace, options, &mut counts)?;
    if options.filter.is_none() {
        tidy::check(workspace, &mut counts)?;
    }
    println!("\n{} s in all", start.elapsed().as_secs());
    for name in &counts.failures {
        println!("failed: {name}");
    }
    println!("{counts}");
    Ok(if counts.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A test program and where it has to run.
struct Program {
    name: String,
    path: PathBuf,
    package: PathBuf,
}

/// Builds the binaries that tests start, and all test programs.
fn build(workspace: &Workspace) -> Result<Vec<Program>> {
    println!("building binaries and tests");
    run_command(cargo(workspace).args(["build", "--workspace", "--bins", "--quiet"]))?;
    let mut command = cargo(workspace);
    command.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics", "--quiet"]);
    let messages = capture(command.stderr(Stdio::inherit()))?;
    let values = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(values.filter_map(|message| program_of(&message)).collect())
}

fn program_of(message: &Value) -> Option<Program> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let folder = package.file_name()?.to_string_lossy().into_owned();
    Some(Program { name: format!("{folder}/{}", message["target"]["name"].as_str()?), path, package })
}

fn run_program(program: &Program, promtool: &Path, options: &Options, counts: &mut Counts) -> Result<()> {
    let mut command = Command::new(&program.path);
    if promtool.is_file() {
        command.env("KOORDLET_TEST_PROMTOOL", promtool);
    }
    command.current_dir(&program.package).env("CARGO_MANIFEST_DIR", &program.package);
    command.arg("--show-output").args(&options.filter);
    if ALONE.iter().any(|name| program.name.ends_with(name)) {
        command.arg("--test-threads=1");
    }
    println!("\n== {}", program.name);
    count(&program.name, &mut command, options, counts)
}

fn run_doc_tests(workspace: &Workspace, options: &Options, counts: &mut Counts) -> Result<()> {
    println!("\n== examples in the documentation");
    let mut command = cargo(workspace);
    command.args(["test", "--workspace", "--doc", "--quiet", "--no-fail-fast", "--"]).args(&options.filter);
    count("documentation", &mut command, options, counts)
}

/// Runs a test program, passes its output on, and counts.
fn count(name: &str, command: &mut Command, options: &Options, counts: &mut Counts) -> Result<()> {
    if options.ebpf == Ebpf::Off {
        command.env("KOORDLET_TEST_EBPF", "off");
    }
    let mut output = Output::default();
    let status = follow(command, LIMIT, |line| output.line(line))
        .with_context(|| format!("running the tests of {name}"))?;
    counts.add(name, output, status.success());
    Ok(())
}
