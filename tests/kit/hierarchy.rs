//! Where this machine's cgroup hierarchies are mounted, from mountinfo.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// The controllers that a kubepods tree needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// CPU bandwidth and shares.
    Cpu,
    /// CPU usage; part of `cpu` on v2.
    Cpuacct,
    /// CPUs and memory nodes.
    Cpuset,
    /// Memory.
    Memory,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Cpuacct, Self::Cpuset, Self::Memory];

    /// The v1 name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Cpuset => "cpuset",
            Self::Memory => "memory",
        }
    }
}

/// The layout that the tests run on: v1 with a hierarchy a controller, or v2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hierarchies {
    /// Mount point of each controller, in the order of [`Controller::ALL`].
    V1([PathBuf; 4]),
    /// The unified mount point.
    V2(PathBuf),
}

impl Hierarchies {
    /// Reads `/proc/self/mountinfo`. A v2 mount without a cpu controller (a hybrid host) does not count.
    pub fn of_this_host() -> Result<Self> {
        let mounts = mounts()?;
        if let Some(v2) = mounts.iter().find(|mount| mount.is_v2() && offers_cpu(&mount.point)) {
            return Ok(Self::V2(v2.point.clone()));
        }
        let point = |controller: Controller| {
            mounts
                .iter()
                .find(|mount| mount.options.contains(controller.name()))
                .map(|mount| mount.point.clone())
                .with_context(|| format!("no cgroup hierarchy with controller {}", controller.name()))
        };
        let [cpu, cpuacct, cpuset, memory] = Controller::ALL;
        Ok(Self::V1([point(cpu)?, point(cpuacct)?, point(cpuset)?, point(memory)?]))
    }

    /// Whether this is the unified hierarchy.
    pub fn is_v2(&self) -> bool {
        matches!(self, Self::V2(_))
    }

    /// The mount point that holds `controller`.
    pub fn mount(&self, controller: Controller) -> &Path {
        match self {
            Self::V2(point) => point,
            Self::V1([cpu, cpuacct, cpuset, memory]) => match controller {
                Controller::Cpu => cpu,
                Controller::Cpuacct => cpuacct,
                Controller::Cpuset => cpuset,
                Controller::Memory => memory,
            },
        }
    }

    /// The distinct mount points of the four controllers.
    pub fn mounts(&self) -> BTreeSet<&Path> {
        Controller::ALL.iter().map(|controller| self.mount(*controller)).collect()
    }

    /// Makes `dir` and its missing parents in every hierarchy, usable at once: a v1 cpuset is filled from its
    /// parent, v2 parents hand down all their controllers.
    pub fn make(&self, dir: &str) -> Result<()> {
        if dir.is_empty() || dir.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
            bail!("{dir:?} is not a directory beneath a cgroup root");
        }
        match self {
            Self::V2(root) => make_v2(root, dir),
            Self::V1(_) => self.mounts().into_iter().try_for_each(|mount| make_v1(mount, dir)),
        }
    }
}

/// Mount points of every cgroup hierarchy of the host, whether or not the tests use it.
pub(crate) fn all_mount_points() -> Result<Vec<PathBuf>> {
    Ok(mounts()?.into_iter().map(|mount| mount.point).collect())
}

struct Mount {
    point: PathBuf,
    kind: String,
    options: BTreeSet<String>,
}

impl Mount {
    fn is_v2(&self) -> bool {
        self.kind == "cgroup2"
    }
}

fn mounts() -> Result<Vec<Mount>> {
    let text = fs::read_to_string("/proc/self/mountinfo").context("reading mountinfo")?;
    Ok(text.lines().filter_map(parse_mount).collect())
}

/// One line of mountinfo, if it is a cgroup mount whose root is the hierarchy's root.
fn parse_mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, _source, options) = (right.next()?, right.next()?, right.next()?);
    let is_cgroup = kind == "cgroup" || kind == "cgroup2";
    (is_cgroup && root == "/").then(|| Mount {
        point: point.into(),
        kind: kind.to_owned(),
        options: options.split(',').map(str::to_owned).collect(),
    })
}

fn offers_cpu(root: &Path) -> bool {
    fs::read_to_string(root.join("cgroup.controllers"))
        .is_ok_and(|text| text.split_whitespace().any(|name| name == "cpu"))
}

fn make_v1(mount: &Path, dir: &str) -> Result<()> {
    let mut path = mount.to_owned();
    for part in dir.split('/') {
        let parent = path.clone();
        path.push(part);
        if !path.is_dir() {
            make_dir(&path)?;
        }
        for file in ["cpuset.mems", "cpuset.cpus"] {
            if path.join(file).exists() && read(&path.join(file))?.is_empty() {
                write(&path.join(file), &read(&parent.join(file))?)?;
            }
        }
    }
    Ok(())
}

fn make_v2(root: &Path, dir: &str) -> Result<()> {
    let mut path = root.to_owned();
    for part in dir.split('/') {
        let offered = read(&path.join("cgroup.controllers"))?;
        let missing: Vec<&str> = {
            let enabled = read(&path.join("cgroup.subtree_control"))?;
            offered
                .split_whitespace()
                .filter(|name| ["cpu", "cpuset", "memory", "io", "pids"].contains(name))
                .filter(|name| !enabled.split_whitespace().any(|on| on == *name))
                .collect()
        };
        for name in missing {
            write(&path.join("cgroup.subtree_control"), &format!("+{name}"))?;
        }
        path.push(part);
        if !path.is_dir() {
            make_dir(&path)?;
        }
    }
    Ok(())
}

fn make_dir(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("making {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Reads a cgroup file, trimmed.
pub fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.trim().to_owned())
}

/// Writes an existing cgroup file, in one write.
pub fn write(path: &Path, value: &str) -> Result<()> {
    use std::io::Write as _;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .with_context(|| format!("opening {} to write", path.display()))?;
    file.write_all(value.as_bytes()).with_context(|| format!("writing {value:?} to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_give_kind_point_and_controllers() {
        let v1 = parse_mount("31 23 0:27 / /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu,cpuacct");
        let v1 = v1.expect("a cgroup mount");
        assert_eq!(v1.point, Path::new("/sys/fs/cgroup/cpu"));
        assert!(v1.options.contains("cpuacct") && !v1.is_v2());
        assert!(
            parse_mount("31 23 0:27 /sub /mnt rw - cgroup2 cgroup rw").is_none(),
            "a bind mount of a part"
        );
        assert!(parse_mount("22 1 8:1 / / rw - ext4 /dev/sda rw").is_none());
    }
}
