//! A host that is all files: cgroups (v1), procfs and sysfs in a folder, with counters that run. Counters are written
//! in place and never get shorter, as the kernel's own: whoever holds a file open sees them move.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kit::Agent;
use serde_json::Value;
use tempfile::TempDir;

use crate::api_server::put;

/// How often counters move.
const STEP: Duration = Duration::from_millis(10);
/// Ticks of `/proc/stat` a second.
const TICKS: f64 = 100.0;
/// Enforcement periods a second.
const PERIODS: f64 = 10.0;
/// Age of every counter at the start, in seconds.
const AGE: f64 = 100_000.0;

/// The folder; its counters stand still when dropped.
pub(crate) struct MadeUpHost {
    dir: TempDir,
    stop: Arc<AtomicBool>,
    counters: Option<JoinHandle<Result<()>>>,
}

impl MadeUpHost {
    /// Nothing but a `kubepods` without pods, and no counters.
    pub(crate) fn bare() -> Result<Self> {
        let this = Self { dir: tempfile::tempdir()?, stop: Arc::default(), counters: None };
        for controller in ["cpu", "cpuacct", "cpuset", "memory"] {
            for class in ["burstable", "besteffort"] {
                fs::create_dir_all(this.path(&format!("cgroup/{controller}/kubepods/{class}")))?;
            }
        }
        Ok(this)
    }

    /// The host of a recorded run: `files` (path -> content) and `counters`.
    pub(crate) fn recorded(host: &Value) -> Result<Self> {
        let mut this = Self { dir: tempfile::tempdir()?, stop: Arc::default(), counters: None };
        for (path, content) in host["files"].as_object().context("files")? {
            this.put(path, content.as_str().context("the content of a file")?)?;
        }
        let cpus = cpus(host["files"]["lscpu.txt"].as_str().context("lscpu.txt")?)?;
        this.put_sysfs(&cpus)?;
        let counters = Counters::open(&this, &host["counters"], cpus.len())?;
        let stop = Arc::clone(&this.stop);
        this.counters = Some(std::thread::spawn(move || counters.run(&stop)));
        Ok(this)
    }

    /// A file or folder of it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Writes a file of it.
    pub(crate) fn put(&self, path: &str, content: &str) -> Result<()> {
        let path = self.path(path);
        fs::create_dir_all(path.parent().context("a file's folder")?)?;
        put(path, content)
    }

    /// An agent that takes this folder for its host, and the API server that `kubeconfig` names.
    pub(crate) fn agent(&self, kubeconfig: &Path, node: &str) -> Result<Agent> {
        Ok(Agent::of_host(kubeconfig, node)?
            .flag("cgroup-root-dir", self.path("cgroup"))
            .flag("sys-fs-root-dir", self.path("no-resctrl"))
            .flag("var-lib-kubelet-dir", self.path("kubelet"))
            .flag("cgroup-driver", "cgroupfs")
            // The kernel's events tell of other groups than these.
            .flag("ebpf", "off"))
    }

    /// What the kernel shows of such CPUs.
    fn put_sysfs(&self, cpus: &[Cpu]) -> Result<()> {
        let devices = "sys/devices/system";
        let last = cpus.len().saturating_sub(1);
        for which in ["online", "present"] {
            self.put(&format!("{devices}/cpu/{which}"), &format!("0-{last}\n"))?;
        }
        for cpu in cpus {
            let at = format!("{devices}/cpu/cpu{}", cpu.number);
            let same = |key: fn(&Cpu) -> u32| {
                let mask = cpus.iter().filter(|other| key(other) == key(cpu));
                format!("{:x}\n", mask.fold(0_u64, |mask, other| mask | 1 << other.number))
            };
            self.put(&format!("{at}/topology/core_id"), &format!("{}\n", cpu.core))?;
            self.put(&format!("{at}/topology/physical_package_id"), &format!("{}\n", cpu.socket))?;
            self.put(&format!("{at}/topology/thread_siblings"), &same(|cpu| cpu.core))?;
            self.put(&format!("{at}/topology/core_siblings"), &same(|cpu| cpu.socket))?;
            let caches = [
                (1, "Data", cpu.l1),
                (1, "Instruction", cpu.l1),
                (2, "Unified", cpu.l1),
                (3, "Unified", cpu.l3),
            ];
            for (index, (level, kind, id)) in caches.into_iter().enumerate() {
                let cache = format!("{at}/cache/index{index}");
                let shared = if level == 3 { same(|cpu| cpu.l3) } else { same(|cpu| cpu.l1) };
                self.put(&format!("{cache}/level"), &format!("{level}\n"))?;
                self.put(&format!("{cache}/type"), &format!("{kind}\n"))?;
                self.put(&format!("{cache}/id"), &format!("{id}\n"))?;
                self.put(&format!("{cache}/shared_cpu_map"), &shared)?;
            }
        }
        let mut nodes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for cpu in cpus {
            nodes.entry(cpu.node).or_default().push(cpu.number.to_string());
        }
        for (node, cpus) in nodes {
            self.put(&format!("{devices}/node/node{node}/cpulist"), &format!("{}\n", cpus.join(",")))?;
        }
        Ok(())
    }
}

impl Drop for MadeUpHost {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.counters.take().map(JoinHandle::join);
        if let Some(Ok(Err(error))) = ended {
            kit::skip::note(format_args!("the host's counters stopped: {error:#}"));
        }
    }
}

/// A row of `lscpu -e=CPU,NODE,SOCKET,CORE,CACHE,ONLINE`.
struct Cpu {
    number: u32,
    node: u32,
    socket: u32,
    core: u32,
    l1: u32,
    l3: u32,
}

fn cpus(text: &str) -> Result<Vec<Cpu>> {
    let row = |line: &str| {
        let numbers: Vec<u32> = line.split([' ', ':']).map_while(|column| column.parse().ok()).collect();
        let [number, node, socket, core, l1, _, _, l3] = numbers.try_into().ok().context(line.to_owned())?;
        Ok(Cpu { number, node, socket, core, l1, l3 })
    };
    text.lines().skip(1).map(row).collect()
}

/// What moves.
struct Counters {
    stat: File,
    cpus: usize,
    stat_cores: f64,
    groups: Vec<Group>,
}

struct Group {
    usage: File,
    stat: File,
    cores: f64,
    throttled: f64,
}

impl Counters {
    fn open(host: &MadeUpHost, counters: &Value, cpus: usize) -> Result<Self> {
        let open = |path: String| {
            host.put(&path, "")?;
            anyhow::Ok(File::options().write(true).open(host.path(&path))?)
        };
        let group = |(dir, speed): (&String, &Value)| {
            Ok(Group {
                usage: open(format!("cgroup/cpuacct/{dir}/cpuacct.usage"))?,
                stat: open(format!("cgroup/cpu/{dir}/cpu.stat"))?,
                cores: speed["cores"].as_f64().context("cores")?,
                throttled: speed["throttledShare"].as_f64().context("throttledShare")?,
            })
        };
        let groups = counters["cgroups"].as_object().context("cgroups")?;
        let counters = Self {
            stat: open("proc/stat".to_owned())?,
            cpus,
            stat_cores: counters["procStatCores"].as_f64().context("procStatCores")?,
            groups: groups.iter().map(group).collect::<Result<_>>()?,
        };
        counters.write(AGE)?;
        Ok(counters)
    }

    fn run(&self, stop: &AtomicBool) -> Result<()> {
        let start = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            self.write(AGE + start.elapsed().as_secs_f64())?;
            sleep(STEP);
        }
        Ok(())
    }

    /// As everything stands at this age.
    fn write(&self, age: f64) -> Result<()> {
        let user = age * self.stat_cores * TICKS;
        let mut stat = format!("cpu  {user:.0} 0 0 1000000 0 0 0 0 0 0\n");
        for cpu in 0..self.cpus {
            let user = user / self.cpus as f64;
            writeln!(stat, "cpu{cpu} {user:.0} 0 0 125000 0 0 0 0 0 0")?;
        }
        self.stat.write_all_at(stat.as_bytes(), 0)?;
        for Group { usage, stat, cores, throttled } in &self.groups {
            usage.write_all_at(format!("{:.0}\n", age * cores * 1e9).as_bytes(), 0)?;
            let periods = age * PERIODS;
            let text = format!(
                "nr_periods {periods:.0}\nnr_throttled {:.0}\nthrottled_time 0\n",
                periods * throttled
            );
            stat.write_all_at(text.as_bytes(), 0)?;
        }
        Ok(())
    }
}
