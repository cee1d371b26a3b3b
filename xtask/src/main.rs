//! Build, test, demo and bench commands of the project: `cargo xtask VERB`, one file a verb.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks on stdout and stderr"
)]

mod bench;
mod build_ebpf;
mod command;
mod counts;
mod crds;
mod debian;
mod demo;
mod e2e;
mod elf;
mod follow;
mod metrics;
mod newer;
mod setup;
mod test;
mod tidy;
mod toolchain;
mod vm_test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, test, demo and bench commands of the project")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Find or install the toolchain of the eBPF programs
    Setup,
    /// Build the eBPF object that the agent embeds
    BuildEbpf,
    /// Show the agent at work on this machine, with real processes
    Demo(demo::Options),
    /// Run every test, and the house rules; the last line holds the counts
    Test(test::Options),
    /// Check the house rules: layers, purity, unsafe, names, formatting, lints
    Tidy,
    /// Measure the agent and its sensors beside their budgets
    Bench(bench::Options),
    /// Write deploy/metrics.md, the reference page of all metrics, from the code
    Metrics,
    /// Write deploy/crds, the definitions of the custom resources, from the code
    Crds,
    /// Run the agent against real peers: `e2e kube` starts etcd, kube-apiserver, kubelet and containerd
    E2e(e2e::Options),
    /// Run the real-kernel tests in a virtual machine with cgroup v2 and two NUMA nodes
    VmTest(vm_test::Options),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = Workspace::find().and_then(|workspace| match cli.verb {
        Verb::Setup => setup::run(&workspace).map(|_| ExitCode::SUCCESS),
        Verb::BuildEbpf => build_ebpf::run(&workspace).map(|_| ExitCode::SUCCESS),
        Verb::Demo(options) => demo::run(&workspace, &options),
        Verb::Test(options) => test::run(&workspace, &options),
        Verb::Tidy => tidy::run(&workspace),
        Verb::Bench(options) => bench::run(&workspace, &options),
        Verb::Metrics => metrics::run(&workspace),
        Verb::Crds => crds::run(&workspace),
        Verb::E2e(options) => e2e::run(&workspace, &options),
        Verb::VmTest(options) => vm_test::run(&workspace, &options),
    });
    outcome.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
