//! Boots the guest under QEMU and listens to its console.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::counts::Output;
use crate::follow::follow;

/// 8 CPUs: two sockets, each a NUMA node, of two cores with two threads.
const CPUS: &str = "8,sockets=2,cores=2,threads=2";
/// NUMA nodes: id, CPUs and MiB of memory. The second has room for a page of 1 GiB beside the rest.
const NODES: [(&str, &str, u32); 2] = [("0", "0-3", 1024), ("1", "4-7", 2560)];
/// Memory in all, in MiB.
const MEMORY: &str = "3584";
/// What the guest's script says last.
const END: &str = "guest ended with ";

/// What came of it.
pub(super) struct Outcome {
    /// The counted output of the tests.
    pub(super) output: Output,
    /// The guest's script ended with 0. A guest that crashed or was switched off did not.
    pub(super) ended_well: bool,
}

/// Boots and waits for the end, at most for `limit`.
pub(super) fn boot(kernel: &Path, image: &Path, limit: Duration) -> Result<Outcome> {
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.arg("-kernel").arg(kernel).arg("-initrd").arg(image);
    // One emulation thread: as fast as more on few cores, and never seen to hang.
    qemu.args(["-accel", "tcg,thread=single", "-M", "q35"]);
    // A model with threads: without one the topology has no SMT.
    qemu.args(["-cpu", "Skylake-Server-v4", "-smp", CPUS, "-m", MEMORY]);
    for (node, cpus, mib) in NODES {
        qemu.args(["-object", &format!("memory-backend-memfd,id=m{node},size={mib}M,share=on")]);
        qemu.args(["-numa", &format!("node,nodeid={node},cpus={cpus},memdev=m{node}")]);
    }
    qemu.args(["-numa", "dist,src=0,dst=1,val=21"]);
    qemu.args(["-display", "none", "-monitor", "none", "-nic", "none", "-no-reboot", "-serial", "stdio"]);
    // A crash ends the machine instead of leaving it.
    let kernel_line = "console=ttyS0 quiet loglevel=1 panic=-1 oops=panic psi=1";
    // A page of 1 GiB can only be had at boot.
    qemu.args(["-append", &format!("{kernel_line} hugepagesz=1G hugepages=1:1")]);
    // The emulator warns of features of the model that it does not emulate.
    qemu.stderr(std::process::Stdio::null());
    let mut output = Output::default();
    let mut end = None;
    let status = follow(&mut qemu, limit, |line| {
        output.line(line);
        end = line.strip_prefix(END).map(str::to_owned).or(end.take());
    })
    .context("running QEMU")?;
    Ok(Outcome { output, ended_well: status.success() && end.as_deref() == Some("0") })
}
