//! What this machine offers to tests: each check gives `Ok`, or the reason to skip.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::geteuid;

use crate::hierarchy::Hierarchies;

/// The reason why something cannot be tested here.
pub type Offer = Result<(), String>;

/// Root, which cgroups and BPF need.
pub fn root() -> Offer {
    if geteuid().is_root() { Ok(()) } else { Err("needs root".to_owned()) }
}

/// A cgroup hierarchy of either version with cpu, cpuset and memory.
pub fn cgroups() -> Offer {
    root()?;
    Hierarchies::of_this_host().map(|_| ()).map_err(|error| format!("needs cgroups: {error:#}"))
}

/// cgroup v1.
pub fn cgroup_v1() -> Offer {
    only(false, "needs cgroup v1")
}

/// cgroup v2 with a cpu controller.
pub fn cgroup_v2() -> Offer {
    only(true, "needs cgroup v2 with controllers")
}

/// Kernel BTF, and not switched off by `KOORDLET_TEST_EBPF=off`.
pub fn ebpf() -> Offer {
    root()?;
    if ebpf_is_off() {
        return Err("eBPF is switched off for this run".to_owned());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err("needs a kernel with BTF".to_owned());
    }
    Ok(())
}

/// Whether this run is to do without eBPF (`cargo xtask test --ebpf=off`).
pub fn ebpf_is_off() -> bool {
    std::env::var("KOORDLET_TEST_EBPF").is_ok_and(|value| value == "off")
}

/// At least `count` CPUs.
pub fn cpus(count: usize) -> Offer {
    let here = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if here >= count { Ok(()) } else { Err(format!("needs {count} CPUs, here are {here}")) }
}

/// A program on PATH.
pub fn program(name: &str) -> Offer {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.map(|_| ()).map_err(|error| format!("needs {name} on PATH: {error}"))
}

/// `promtool`: where `cargo xtask test` has unpacked it, else on PATH.
pub fn promtool() -> Result<PathBuf, String> {
    let own = std::env::var_os("KOORDLET_TEST_PROMTOOL").map(PathBuf::from);
    let tool = own.unwrap_or_else(|| "promtool".into());
    program(&tool.to_string_lossy()).map(|()| tool)
}

/// A Python that has the Prometheus client library: Debian's own, else the first on PATH.
pub fn python_with_prometheus() -> Result<&'static str, String> {
    let imports = |python: &&str| {
        let mut command = Command::new(python);
        command.args(["-c", "import prometheus_client"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let found = ["/usr/bin/python3", "python3"].into_iter().find(imports);
    found.ok_or_else(|| "needs a Python with the module prometheus_client".to_owned())
}

/// Whether the tests run in the virtual machine of `cargo xtask vm-test`.
pub fn in_guest() -> bool {
    std::env::var_os("KOORDLET_TEST_GUEST").is_some()
}

/// `here` on a real machine, `guest` in the slow virtual machine.
pub fn guest_scale<T>(here: T, guest: T) -> T {
    if in_guest() { guest } else { here }
}

fn only(v2: bool, reason: &str) -> Offer {
    cgroups()?;
    match Hierarchies::of_this_host() {
        Ok(found) if found.is_v2() == v2 => Ok(()),
        _ => Err(reason.to_owned()),
    }
}
