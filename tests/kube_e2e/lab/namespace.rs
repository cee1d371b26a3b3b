//! The mount namespace of containerd and kubelet: what they write outside of the cluster's folder stays in it, and goes
//! with the last process in it.
//!
//! This program is its own tool for that: `unshare` starts it there, and it becomes the server.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use nix::mount::{MsFlags, mount};

/// First argument of this program within.
pub(crate) const INSIDE: &str = "inside";

/// What a kubelet wants of the kernel. It finds files with these values in place and leaves the machine's alone.
const SYSCTLS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];
/// Folders that runtime and kubelet use by fixed names: empty ones in memory.
const EMPTY: [&str; 3] = ["/run", "/var/lib", "/var/log"];
/// The kubelet's folder within, which is one of the cluster's folder.
pub(super) const KUBELET_DIR: &str = "/var/lib/kubelet";

/// `command` in a new namespace. `dir` is the cluster's folder.
pub(super) fn in_new(dir: &Path, command: &Command) -> Result<Command> {
    let mut outer = Command::new("unshare");
    outer.arg("--mount").arg(std::env::current_exe()?).arg(INSIDE).arg(dir);
    Ok(with(outer, command))
}

/// `command` in the namespace of a process.
pub(super) fn in_that_of(pid: u32, command: &Command) -> Command {
    let mut outer = Command::new("nsenter");
    outer.arg("--mount").arg("--target").arg(pid.to_string());
    with(outer, command)
}

fn with(mut outer: Command, command: &Command) -> Command {
    outer.arg(command.get_program()).args(command.get_args());
    outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer
}

/// Within: lays everything out, then becomes the command.
pub(crate) fn enter(arguments: &[String]) -> Result<ExitCode> {
    let [dir, program, rest @ ..] = arguments else { anyhow::bail!("{INSIDE} DIR PROGRAM ARGUMENTS") };
    lay_out(Path::new(dir))?;
    Err(anyhow::Error::new(Command::new(program).args(rest).exec()).context(format!("starting {program}")))
}

fn lay_out(dir: &Path) -> Result<()> {
    // Containers get mounts that appear later; nothing of it reaches the namespace outside, which is no peer.
    change(Path::new("/"), MsFlags::MS_SHARED | MsFlags::MS_REC)?;
    let values = dir.join("sysctl");
    for (name, value) in SYSCTLS {
        let file = values.join(name);
        fs::create_dir_all(file.parent().unwrap_or(&values))?;
        drop(kit::load::own_file(&file)?);
        kit::hierarchy::write(&file, value)?;
        bind(&file, &Path::new("/proc/sys").join(name))?;
    }
    let kubelet = dir.join("kubelet");
    fs::create_dir_all(&kubelet)?;
    for empty in EMPTY {
        mount(Some("none"), empty, Some("tmpfs"), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("an empty {empty}"))?;
    }
    fs::create_dir(KUBELET_DIR)?;
    bind(&kubelet, &PathBuf::from(KUBELET_DIR))
}

fn change(path: &Path, flags: MsFlags) -> Result<()> {
    mount(None::<&str>, path, None::<&str>, flags, None::<&str>)
        .with_context(|| format!("changing the mount {}", path.display()))
}

fn bind(what: &Path, over: &Path) -> Result<()> {
    mount(Some(what), over, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .with_context(|| format!("laying {} over {}", what.display(), over.display()))
}
