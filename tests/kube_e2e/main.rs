//! The agent against real Kubernetes parts: etcd, kube-apiserver, containerd and kubelet on a loopback address, each test
//! with the agent's real binary and no more rights than the RBAC that is shipped. `cargo xtask e2e kube` builds what is
//! needed and starts this: `kube-e2e [--full] [FILTER]`.
//!
//! A supervisor starts the tests as a child and, however that ends, ends what it left (pids, cgroups, folders). Figures
//! are printed and never asserted.

mod cases;
mod lab;
mod suite;
mod supervise;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "kube-e2e: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments.split_first() {
        Some((first, rest)) if first == supervise::WORKER => suite::run(rest),
        Some((first, rest)) if first == lab::namespace::INSIDE => lab::namespace::enter(rest),
        _ => supervise::run(arguments),
    }
}
