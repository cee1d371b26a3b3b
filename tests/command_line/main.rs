//! The command line as scripts see it: verbs, exit codes, one line for each failure (design.md 5). Needs no
//! agent and changes nothing.

#![expect(clippy::unwrap_used, reason = "a test binary: a panic is a failed test")]

use std::process::{Command, Output};

/// Runs the agent's binary with no environment of its own.
fn koordlet(arguments: &[&str]) -> Output {
    let mut command = Command::new(kit::binary::koordlet().unwrap());
    command.args(arguments).env_remove("NODE_NAME").env_remove("agent_mode").output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

#[test]
fn every_mistake_is_told_and_the_code_is_2() {
    let output = koordlet(&["run", "-nope", "--ebpf=perhaps", "--addr", "9316", "--feature-gates=X=true"]);
    assert_eq!(code(&output), 2);
    let told = lines(&output.stderr).join("\n");
    for part in ["--nope", "--ebpf", "perhaps", "--addr", "\"X\"", "NODE_NAME"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(output.stdout.is_empty());
    for arguments in
        [&["frobnicate"][..], &["inspect"], &["inspect", "moon"], &["explain", "a", "b"], &["-o"]]
    {
        assert_eq!(code(&koordlet(arguments)), 2, "{arguments:?}");
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    let help = lines(&koordlet(&["-h"]).stdout).join("\n");
    for part in ["NODE_NAME", "VERB -h", "Exit codes"] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for arguments in [&["--help"][..], &["-h"], &["-help"], &["run", "--help"], &["--version"]] {
        let output = koordlet(arguments);
        assert_eq!((code(&output), output.stderr.len()), (0, 0), "{arguments:?}");
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn without_an_agent_explain_fails_with_one_line() {
    let run_dir = tempfile::tempdir().unwrap();
    let flag = format!("--run-dir={}", run_dir.path().display());
    let socket = run_dir.path().join("admin.sock");
    for step in 0..2 {
        let output = koordlet(&["explain", "default/web", "-o", "json", &flag]);
        assert_eq!(code(&output), 1);
        let told = lines(&output.stderr);
        assert!(told.len() == 1 && told[0].contains("no agent answers"), "{step}: {told:?}");
        if step == 0 {
            // A socket that nobody listens on any more is the same case.
            drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        }
    }
}

#[test]
fn inspect_answers_in_json_with_one_dash_or_two() {
    for format in [&["-o", "json"][..], &["-o=json"], &["--output=json"], &["-output", "json"]] {
        let output = koordlet(&[&["inspect", "node"], format].concat());
        assert_eq!(code(&output), 0, "{format:?}: {:?}", lines(&output.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(answer.get("node_cpu_info").is_some(), "{format:?}");
    }
}

#[test]
fn restore_without_agent_and_ledger_has_nothing_to_do() {
    let run_dir = tempfile::tempdir().unwrap();
    let flag = format!("--run-dir={}", run_dir.path().display());
    let output = koordlet(&["restore", &flag, "-o", "json"]);
    assert_eq!(code(&output), 0, "{:?}", lines(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer, serde_json::json!({"restored": [], "gone": [], "failed": []}));
}
