//! A folder with the cgroup files of 100 pods of ten containers, of which two pods are replaced each second, and a
//! tenth of which works.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use koordlet::api::pod::Pod;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::state::pods::PodEntry;
use serde_json::json;

const PODS: usize = 100;
const CONTAINERS: usize = 10;
/// Pods that end and begin each second: 20 containers.
const REPLACED: usize = 2;
/// One container in so many works, its pod with it.
const WORKS: usize = 10;
/// CPU time of a second of such a container, in nanoseconds.
const WORK: u64 = 50_000_000;

/// A pod with its directories; the pod's own is the first.
struct Running {
    object: Arc<Pod>,
    dirs: Vec<String>,
    used: u64,
}

/// The folder.
pub(crate) struct Churn {
    folder: tempfile::TempDir,
    naming: Naming,
    running: VecDeque<Running>,
    groups: Vec<String>,
    made: usize,
}

impl Churn {
    /// With all pods, in memory if the machine has a file system for that.
    pub(crate) fn start() -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let builder = tempfile::Builder::new();
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory)? } else { builder.tempdir()? };
        for controller in ["cpu", "cpuacct", "cpuset", "memory"] {
            fs::create_dir(folder.path().join(controller))?;
        }
        let naming = Naming::new(CgroupDriver::Cgroupfs, "")?;
        let mut churn = Self { folder, naming, running: VecDeque::new(), groups: Vec::new(), made: 0 };
        for _ in 0..PODS {
            churn.begin()?;
        }
        churn.list();
        Ok(churn)
    }

    /// The cgroup root.
    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// How the directories are named.
    pub(crate) fn naming(&self) -> &Naming {
        &self.naming
    }

    /// The pods.
    pub(crate) fn pods(&self) -> Vec<Arc<Pod>> {
        self.running.iter().map(|pod| Arc::clone(&pod.object)).collect()
    }

    /// Directories of all pods and containers.
    pub(crate) fn groups(&self) -> &[String] {
        &self.groups
    }

    /// What happens in a second.
    pub(crate) fn second(&mut self) -> Result<()> {
        for _ in 0..REPLACED {
            let ended = self.running.pop_front().context("no pod")?;
            let pod = ended.dirs.first().context("no directory")?;
            for controller in ["cpu", "cpuacct", "memory"] {
                fs::remove_dir_all(self.folder.path().join(controller).join(pod))?;
            }
            self.begin()?;
        }
        for number in 0..self.running.len() {
            self.work(number)?;
        }
        self.list();
        Ok(())
    }

    fn list(&mut self) {
        self.groups = self.running.iter().flat_map(|pod| pod.dirs.iter().cloned()).collect();
    }

    fn begin(&mut self) -> Result<()> {
        let number = self.made;
        self.made += 1;
        let object: Pod = serde_json::from_value(object(number))?;
        let object = Arc::new(object);
        let entry = PodEntry::new(Arc::clone(&object), &self.naming)?;
        let containers = entry.containers.iter().filter_map(|container| container.dir.as_ref());
        let dirs = std::iter::once(&entry.dir).chain(containers).map(|dir| dir.as_str().to_owned());
        let dirs: Vec<String> = dirs.collect();
        for (index, dir) in dirs.iter().enumerate() {
            self.make(dir, number + index)?;
        }
        self.running.push_back(Running { object, dirs, used: 0 });
        Ok(())
    }

    /// Adds CPU time to one of a pod's containers, and to the pod.
    fn work(&mut self, number: usize) -> Result<()> {
        let Some(pod) = self.running.get_mut(number) else { return Ok(()) };
        pod.used += WORK;
        let (used, dirs) = (pod.used, [pod.dirs.first().cloned(), pod.dirs.get(CONTAINERS / WORKS).cloned()]);
        for dir in dirs.iter().flatten() {
            put(&self.file("cpuacct", dir, "cpuacct.usage"), &format!("{used}\n"))?;
            let periods = used / 100_000_000;
            let text = format!("nr_periods {periods}\nnr_throttled {}\nthrottled_time 0\n", periods / 4);
            put(&self.file("cpu", dir, "cpu.stat"), &text)?;
        }
        Ok(())
    }

    fn make(&self, dir: &str, number: usize) -> Result<()> {
        let bytes = (number as u64 % 512 + 1) << 20;
        let names =
            ["inactive_anon", "active_anon", "unevictable", "inactive_file", "active_file", "cache", "rss"];
        // The kernel's file has some sixty lines.
        let lines = ["", "total_", "hierarchical_", "recursive_", "local_", "other_", "more_", "last_"]
            .iter()
            .flat_map(|prefix| names.map(|name| format!("{prefix}{name} {bytes}\n")));
        put(&self.file("memory", dir, "memory.stat"), &lines.collect::<String>())?;
        put(&self.file("cpuacct", dir, "cpuacct.usage"), "0\n")?;
        put(&self.file("cpu", dir, "cpu.stat"), "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n")
    }

    fn file(&self, controller: &str, dir: &str, name: &str) -> PathBuf {
        self.folder.path().join(controller).join(dir).join(name)
    }
}

fn put(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("no folder")?;
    fs::create_dir_all(folder)?;
    let file = fs::File::options().create(true).truncate(true).write(true).open(path);
    file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
        .with_context(|| path.display().to_string())
}

fn object(number: usize) -> serde_json::Value {
    let name = |container: usize| format!("c{container}");
    let id = |container: usize| format!("containerd://{number:032x}{container:032x}");
    let spec: Vec<_> = (0..CONTAINERS).map(|each| json!({"name": name(each)})).collect();
    let statuses: Vec<_> =
        (0..CONTAINERS).map(|each| json!({"name": name(each), "containerID": id(each)})).collect();
    json!({
        "metadata": {
            "namespace": "bench",
            "name": format!("pod-{number}"),
            "uid": format!("{number:08x}-1111-2222-3333-444444444444"),
        },
        "spec": {"containers": spec},
        "status": {"phase": "Running", "qosClass": "BestEffort", "containerStatuses": statuses},
    })
}
