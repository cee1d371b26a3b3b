//! `cargo xtask vm-test`: the same agent and the same real-kernel tests in a virtual machine that this machine cannot
//! be: cgroup v2 with all controllers, 8 CPUs with SMT, two NUMA nodes, Debian's stock kernel.
//!
//! QEMU emulates (no KVM is needed), the root file system is an initramfs made here, the way in and out is that
//! image and the serial console. Everything is kept under `target/vm`.

mod boot;
mod image;
mod kernel;
mod oracle;
mod programs;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use crate::build_ebpf;
use crate::counts::Counts;
use crate::debian;
use crate::workspace::Workspace;

/// QEMU, what the image is made with and of, and what the oracle of the hook rules is written in.
const PACKAGES: [&str; 5] = ["qemu-system-x86", "busybox-static", "cpio", "util-linux", "python3"];

/// Arguments of the verb.
#[derive(Args)]
pub(crate) struct Options {
    /// Only tests whose name contains this
    filter: Option<String>,
    /// After so many minutes the machine is switched off
    #[arg(long, default_value_t = 20)]
    minutes: u64,
}

/// Boots, prints what the guest prints, and counts; fails unless the guest's script ended with 0.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    let start = Instant::now();
    build_ebpf::run(workspace)?;
    debian::install(&PACKAGES)?;
    let kernel = kernel::fetch(&workspace.target("vm"))?;
    let programs = programs::build(workspace)?;
    let answers = oracle::answers(workspace, &programs.worlds)?;
    let image = image::make(&workspace.target("vm"), &programs, &answers, options.filter.as_deref())?;
    println!("booting {}", kernel.display());
    let outcome = boot::boot(&kernel, &image, Duration::from_mins(options.minutes))?;
    let mut counts = Counts::default();
    counts.add("guest", outcome.output, outcome.ended_well);
    println!("\n{} s in all", start.elapsed().as_secs());
    for name in &counts.failures {
        println!("failed: {name}");
    }
    println!("{counts}");
    let success = outcome.ended_well && counts.is_success();
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
