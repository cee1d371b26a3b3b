//! Where a cluster lives: a folder, a loopback address, and a note of its processes and cgroups, from which a later
//! process ends and removes everything when the one that made it is gone.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

/// Folders are named so, with the pid of their owner. Short: paths of sockets beneath must fit in 107 characters.
const PREFIX: &str = "koordlet-e2e-";
/// In the folder: `PID START` lines.
const PROCESSES: &str = "processes";
/// In the folder: the top cgroup directory.
const TREE: &str = "tree";
/// Ports that a cluster's address must have free.
const PORTS: [u16; 5] = [2379, 2380, 6443, 10_250, 10_248];

/// The place of one cluster.
#[derive(Debug)]
pub(crate) struct Place {
    /// Of its own.
    pub(crate) dir: PathBuf,
    /// Everything listens here.
    pub(crate) address: Ipv4Addr,
    logs: PathBuf,
}

impl Place {
    /// A new one. Logs go to `KOORDLET_E2E_LOG`, which survives, and are begun anew.
    pub(crate) fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&dir).with_context(|| format!("making {}", dir.display()))?;
        let logs = std::env::var_os("KOORDLET_E2E_LOG").map_or_else(|| dir.join("log"), PathBuf::from);
        fs::create_dir_all(&logs)?;
        for entry in fs::read_dir(&logs)?.flatten() {
            fs::remove_file(entry.path())?;
        }
        Ok(Self { dir, address: free_address()?, logs })
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The log of a process.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// Writes a file in the folder, whole, in one step.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        let hidden = path.with_extension("new");
        let mut file = fs::File::options().create(true).truncate(true).write(true).open(&hidden)?;
        file.write_all(text.as_bytes()).with_context(|| format!("writing {}", hidden.display()))?;
        fs::rename(&hidden, &path)?;
        Ok(path)
    }

    /// Notes a process.
    pub(crate) fn note_process(&self, pid: u32) -> Result<()> {
        let mut file = fs::File::options().create(true).append(true).open(self.path(PROCESSES))?;
        Ok(writeln!(file, "{pid} {}", start_of(pid).unwrap_or_default())?)
    }

    /// Notes the top directory of the cluster's cgroups.
    pub(crate) fn note_tree(&self, top: &str) -> Result<()> {
        self.write(TREE, top).map(drop)
    }

    /// Removes the folder, and what still runs of the cluster.
    pub(crate) fn remove(self) -> Result<()> {
        end_all(&self.dir)
    }
}

/// Ends and removes what dead owners left behind.
pub(crate) fn sweep() -> Result<()> {
    for entry in fs::read_dir(std::env::temp_dir())?.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if owner.is_some_and(|pid| start_of(pid).is_none()) {
            end_all(&entry.path())?;
        }
    }
    Ok(())
}

/// Ends all processes of the cluster in `dir`, then removes its cgroups and the folder. Only processes that were noted
/// and are still the same, and those that name the folder in their arguments, as the runtime's shims do.
fn end_all(dir: &Path) -> Result<()> {
    let noted = fs::read_to_string(dir.join(PROCESSES)).unwrap_or_default();
    let noted = noted.lines().filter_map(|line| line.split_once(' ')).filter_map(|(pid, start)| {
        let pid = pid.parse::<u32>().ok()?;
        (start_of(pid).as_deref() == Some(start)).then_some(pid)
    });
    let mut processes: BTreeSet<u32> = noted.collect();
    processes.extend(naming(dir)?);
    for pid in &processes {
        end(*pid)?;
    }
    if let Ok(top) = fs::read_to_string(dir.join(TREE)) {
        kit::tree::remove_everywhere(top.trim())?;
    }
    // A shim that lost its container may have started something in the last moment.
    for pid in naming(dir)? {
        end(pid)?;
    }
    fs::remove_dir_all(dir).with_context(|| format!("removing {}", dir.display()))
}

/// Processes with a path beneath `dir` among their arguments.
fn naming(dir: &Path) -> Result<Vec<u32>> {
    let beneath = format!("{}/", dir.display());
    let pids = fs::read_dir("/proc")?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids
        .filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&beneath)
        })
        .collect())
}

/// SIGKILL, and the wait for its end where it is a child.
fn end(pid: u32) -> Result<()> {
    let raw = Pid::from_raw(pid.try_into()?);
    // It may be gone, and it need not be a child.
    kill(raw, Signal::SIGKILL).ok();
    waitpid(raw, None).ok();
    let gone = kit::until(Duration::from_secs(20), || state_of(pid).is_none_or(|state| state == 'Z'));
    anyhow::ensure!(gone, "process {pid} does not end");
    Ok(())
}

/// The time at which a process started, in ticks since boot; `None` when it is gone.
fn start_of(pid: u32) -> Option<String> {
    fields_of(pid)?.split(' ').nth(19).map(str::to_owned)
}

fn state_of(pid: u32) -> Option<char> {
    fields_of(pid)?.chars().next()
}

/// `/proc/PID/stat` from the third field on.
fn fields_of(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned())
}

/// The first of 127.97.N.1 where no port is taken.
fn free_address() -> Result<Ipv4Addr> {
    let mut all = (0..=255).map(|net| Ipv4Addr::new(127, 97, net, 1));
    let free = |address: &Ipv4Addr| PORTS.iter().all(|port| TcpListener::bind((*address, *port)).is_ok());
    all.find(free).context("no loopback address has the cluster's ports free")
}
