//! A kubepods tree of the test's own, in the real hierarchies.

use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

use crate::hierarchy::{self, Controller, Hierarchies};
pub use crate::leftovers::remove_everywhere;
use crate::leftovers::{self, PREFIX};
use crate::load::{Load, Work};
use crate::manifest::PodManifest;
use crate::names::{Class, Driver};

/// A directory `koordtest-<pid>-<n>` with a kubepods tree beneath it, in each hierarchy. Removed on drop, with
/// the processes in it.
#[derive(Debug)]
pub struct Tree {
    hierarchies: Hierarchies,
    top: String,
    driver: Driver,
}

/// The directories of one pod.
#[derive(Clone, Debug)]
pub struct PodDirs {
    /// The pod's own.
    pub pod: String,
    containers: Vec<(String, String)>,
}

impl PodDirs {
    /// The directory of the container with this name. The empty string, which no cgroup call accepts, when the
    /// pod has none.
    pub fn container(&self, name: &str) -> String {
        self.containers.iter().find(|(each, _)| each == name).map(|(_, dir)| dir.clone()).unwrap_or_default()
    }
}

impl Tree {
    /// A tree with systemd names: kubepods and both class directories exist.
    pub fn new() -> Result<Self> {
        Self::with_driver(Driver::Systemd)
    }

    /// A tree with the names of `driver`.
    pub fn with_driver(driver: Driver) -> Result<Self> {
        let tree = Self::bare(driver)?;
        tree.hierarchies.make(&tree.class_dir(Class::Burstable))?;
        tree.hierarchies.make(&tree.class_dir(Class::BestEffort))?;
        Ok(tree)
    }

    /// Only the top directory: no kubepods yet.
    pub fn bare(driver: Driver) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        leftovers::sweep()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let tree = Self {
            hierarchies: Hierarchies::of_this_host()?,
            top: format!("{PREFIX}{}-{number}", process::id()),
            driver,
        };
        tree.hierarchies.make(&tree.top)?;
        Ok(tree)
    }

    /// Only the top directory, in every hierarchy of the host: a real kubelet makes its own tree beneath, and wants it
    /// in each.
    pub fn for_kubelet(driver: Driver) -> Result<Self> {
        let tree = Self::bare(driver)?;
        for mount in hierarchy::all_mount_points()? {
            match std::fs::create_dir(mount.join(&tree.top)) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(error).with_context(|| format!("making {} in {}", tree.top, mount.display()));
                }
                _ => {}
            }
        }
        Ok(tree)
    }

    /// The top directory: what `--kubelet-cgroup-root` gets.
    pub fn root(&self) -> &str {
        &self.top
    }

    /// Who names the directories.
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// The layout beneath.
    pub fn hierarchies(&self) -> &Hierarchies {
        &self.hierarchies
    }

    /// Whether the hierarchies are the unified one.
    pub fn is_v2(&self) -> bool {
        self.hierarchies.is_v2()
    }

    /// The kubepods directory.
    pub fn kubepods(&self) -> String {
        format!("{}/{}", self.top, self.driver.kubepods())
    }

    /// The directory of a QoS class.
    pub fn class_dir(&self, class: Class) -> String {
        format!("{}/{}", self.top, self.driver.class_dir(class))
    }

    /// Where a pod's directories are or would be; nothing is made.
    pub fn pod_dirs(&self, pod: &PodManifest) -> PodDirs {
        let (class, uid) = (pod.class(), pod.uid());
        let dir = |id: &str| self.driver.container_dir(class, uid, pod.runtime(), id);
        PodDirs {
            pod: format!("{}/{}", self.top, self.driver.pod_dir(class, uid)),
            containers: pod
                .container_ids()
                .map(|(name, id)| (name.to_owned(), format!("{}/{}", self.top, dir(id))))
                .collect(),
        }
    }

    /// Makes the directories of a pod and its containers.
    pub fn make_pod(&self, pod: &PodManifest) -> Result<PodDirs> {
        let dirs = self.pod_dirs(pod);
        self.make(&dirs.pod)?;
        dirs.containers.iter().try_for_each(|(_, dir)| self.make(dir))?;
        Ok(dirs)
    }

    /// Makes `dir` (as given by the other methods) in each hierarchy.
    pub fn make(&self, dir: &str) -> Result<()> {
        self.check(dir)?;
        self.hierarchies.make(dir)
    }

    /// Removes `dir` and all beneath it from each hierarchy, with the processes in it.
    pub fn remove(&self, dir: &str) -> Result<()> {
        self.check(dir)?;
        self.hierarchies.mounts().into_iter().try_for_each(|mount| leftovers::remove_tree(&mount.join(dir)))
    }

    /// The path of a cgroup file.
    pub fn file(&self, controller: Controller, dir: &str, file: &str) -> PathBuf {
        self.hierarchies.mount(controller).join(dir).join(file)
    }

    /// Reads a cgroup file, trimmed.
    pub fn read(&self, controller: Controller, dir: &str, file: &str) -> Result<String> {
        hierarchy::read(&self.file(controller, dir, file))
    }

    /// Writes a cgroup file.
    pub fn write(&self, controller: Controller, dir: &str, file: &str, value: &str) -> Result<()> {
        self.check(dir)?;
        hierarchy::write(&self.file(controller, dir, file), value)
    }

    /// The cfs quota of `dir` in microseconds per 100 ms, -1 when unlimited, on either version.
    pub fn cfs_quota(&self, dir: &str) -> Result<i64> {
        if !self.is_v2() {
            return Ok(self.read(Controller::Cpu, dir, "cpu.cfs_quota_us")?.parse()?);
        }
        let text = self.read(Controller::Cpu, dir, "cpu.max")?;
        match text.split(' ').next() {
            Some("max") => Ok(-1),
            first => Ok(first.context("an empty cpu.max")?.parse()?),
        }
    }

    /// Sets the cfs quota as another writer than the agent would; -1 for unlimited.
    pub fn set_cfs_quota(&self, dir: &str, quota: i64) -> Result<()> {
        let (file, text) = match (self.is_v2(), quota) {
            (false, quota) => ("cpu.cfs_quota_us", quota.to_string()),
            (true, -1) => ("cpu.max", "max".to_owned()),
            (true, quota) => ("cpu.max", quota.to_string()),
        };
        self.write(Controller::Cpu, dir, file, &text)
    }

    /// The file of the cfs quota, for a test that names it.
    pub fn cfs_quota_file(&self, dir: &str) -> PathBuf {
        self.file(Controller::Cpu, dir, if self.is_v2() { "cpu.max" } else { "cpu.cfs_quota_us" })
    }

    /// The CPUs of `dir` as a list; on v2 the effective ones.
    pub fn cpus(&self, dir: &str) -> Result<String> {
        self.read(Controller::Cpuset, dir, if self.is_v2() { "cpuset.cpus.effective" } else { "cpuset.cpus" })
    }

    /// The kernel's own count of CPU time of `dir` and all beneath it, in nanoseconds (v2: whole microseconds).
    pub fn cpu_usage_nanos(&self, dir: &str) -> Result<u64> {
        if !self.is_v2() {
            return Ok(self.read(Controller::Cpuacct, dir, "cpuacct.usage")?.parse()?);
        }
        let stat = self.read(Controller::Cpu, dir, "cpu.stat")?;
        let usec = stat.lines().find_map(|line| line.strip_prefix("usage_usec ")).context("no usage_usec")?;
        Ok(usec.parse::<u64>()? * 1000)
    }

    /// Starts a process in `dir` of all hierarchies.
    pub fn load(&self, dir: &str, work: Work) -> Result<Load> {
        self.check(dir)?;
        Load::start(self, dir, work)
    }

    /// Starts a process with `threads` busy threads in `dir`.
    pub fn spin(&self, dir: &str, threads: u32) -> Result<Load> {
        self.load(dir, Work::Spin { threads })
    }

    /// The `cgroup.procs` files of `dir`, one a hierarchy: a process joins by writing `0` to each.
    pub fn procs_files(&self, dir: &str) -> Vec<PathBuf> {
        self.hierarchies.mounts().into_iter().map(|mount| mount.join(dir).join("cgroup.procs")).collect()
    }

    /// Moves a process of the test's own into `dir` of all hierarchies.
    pub fn attach(&self, dir: &str, pid: u32) -> Result<()> {
        self.check(dir)?;
        self.procs_files(dir).iter().try_for_each(|file| hierarchy::write(file, &pid.to_string()))
    }

    fn check(&self, dir: &str) -> Result<()> {
        let inside = dir.strip_prefix(&self.top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        anyhow::ensure!(inside, "{dir:?} is outside of this test's tree {}", self.top);
        Ok(())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Err(error) = remove_everywhere(&self.top) {
            crate::skip::complain(format_args!("cleaning up failed: {error:#}"));
        }
    }
}
