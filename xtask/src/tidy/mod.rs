//! `cargo xtask tidy`: the house rules as tests. Each rule is a function from the sources to its findings.

mod layers;
mod places;
mod readme;
mod shape;
mod sources;

use std::process::{Command, ExitCode};

use anyhow::Result;

use self::sources::{Finding, Sources};
use crate::command::{capture, cargo};
use crate::counts::Counts;
use crate::workspace::Workspace;

type Rule = (&'static str, fn(&Sources) -> Vec<Finding>);

/// What the sources must hold to, each with its name in the output.
const RULES: &[Rule] = &[
    ("a room imports only what it may", layers::imports),
    ("pure rooms have no files and no clock", layers::purity),
    ("only the executor writes to the host", places::writes),
    ("unsafe is where it may be", places::unsafe_code),
    ("versions of cgroups stay in one room", places::cgroup_versions),
    ("every crate takes the workspace's lints", shape::workspace_lints),
    ("files stay short", shape::file_length),
    ("files are named for their idea", shape::file_names),
    ("every file says what it is", shape::file_headers),
    ("no test is ignored", shape::ignored_tests),
    ("the top level holds nothing else", shape::top_level),
    ("the README's commands exist", readme::commands),
];

/// The verb: prints findings and the counts.
pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    let mut counts = Counts::default();
    check(workspace, &mut counts)?;
    println!("{counts}");
    Ok(if counts.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks every rule; each counts as one test.
pub(crate) fn check(workspace: &Workspace, counts: &mut Counts) -> Result<()> {
    println!("\n== house rules");
    let sources = Sources::read(workspace.root())?;
    for (name, rule) in RULES {
        let findings = rule(&sources);
        report(name, findings.is_empty(), counts);
        for finding in findings {
            println!("    {finding}");
        }
    }
    for (name, tool, mut command) in tools(workspace) {
        if capture(cargo(workspace).args([tool, "--version"])).is_err() {
            println!("rule: {name} ... skipped: cargo {tool} is not installed");
            counts.skipped += 1;
            continue;
        }
        let outcome = capture(&mut command);
        report(name, outcome.is_ok(), counts);
        if let Err(error) = outcome {
            println!("{error:#}");
        }
    }
    Ok(())
}

fn report(name: &str, held: bool, counts: &mut Counts) {
    println!("rule: {name} ... {}", if held { "ok" } else { "FAILED" });
    counts.add_check(&format!("rule: {name}"), held);
}

/// The rules that Cargo's own tools check: name, tool, command.
fn tools(workspace: &Workspace) -> Vec<(&'static str, &'static str, Command)> {
    let mut format = cargo(workspace);
    format.args(["fmt", "--all", "--check"]);
    let mut format_ebpf = cargo(workspace);
    format_ebpf.args(["fmt", "--check", "--manifest-path", "koordlet-ebpf/Cargo.toml"]);
    let mut lints = cargo(workspace);
    lints.args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    vec![
        ("the code is formatted", "fmt", format),
        ("the eBPF code is formatted", "fmt", format_ebpf),
        ("no lint complains", "clippy", lints),
    ]
}
