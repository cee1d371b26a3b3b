//! The programs of the guest: agent, load and tests, linked statically, since the guest has no libraries.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::command::{capture, cargo, run as run_command};
use crate::workspace::Workspace;

/// Named explicitly, so that the flags below do not reach build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Paths of the built programs.
pub(super) struct Programs {
    /// The agent.
    pub(super) agent: PathBuf,
    /// The kit's load process.
    pub(super) load: PathBuf,
    /// Prints the worlds of the hook rules; runs here.
    pub(super) worlds: PathBuf,
    /// The tests of the real kernel.
    pub(super) tests: PathBuf,
}

/// Builds them in a target folder of their own.
pub(super) fn build(workspace: &Workspace) -> Result<Programs> {
    println!("building agent and tests statically");
    let mut binaries = cargo_static(workspace, "build");
    run_command(binaries.args([
        "-p",
        "koordlet",
        "-p",
        "koordlet-tests",
        "--bin",
        "koordlet",
        "--bin",
        "kit-load",
        "--bin",
        "hook-worlds",
    ]))?;
    let mut tests = cargo_static(workspace, "test");
    tests.args(["-p", "koordlet-tests", "--test", "real_kernel", "--no-run"]);
    tests.args(["--message-format=json-render-diagnostics"]).stderr(Stdio::inherit());
    let messages = capture(&mut tests)?;
    let built = target_dir(workspace).join(TARGET).join("release");
    Ok(Programs {
        agent: built.join("koordlet"),
        load: built.join("kit-load"),
        worlds: built.join("hook-worlds"),
        tests: test_program(&messages).context("Cargo named no test program")?,
    })
}

fn cargo_static(workspace: &Workspace, verb: &str) -> Command {
    let mut command = cargo(workspace);
    command
        .args([verb, "--release", "--quiet", "--target", TARGET])
        .env("CARGO_TARGET_DIR", target_dir(workspace))
        .env("KOORDLET_BPF_OBJECT", workspace.bpf_object())
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static")
        // Link time optimisation is slow, and no figure of an emulated machine counts.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    command
}

fn target_dir(workspace: &Workspace) -> PathBuf {
    workspace.target("vm/build")
}

fn test_program(messages: &str) -> Option<PathBuf> {
    let values = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut tests = values.filter(|message| message["profile"]["test"] == true);
    tests.find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
}
