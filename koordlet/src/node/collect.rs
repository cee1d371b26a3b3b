//! One tick: CPU time of all groups, ticks and memory of the node, memory of the groups -> one `Usage`
//! (collection.md 6.2, 6.3, 6.5).
//!
//! CPU time comes from a `CpuTime`, so that nothing here knows whether eBPF or files gave it. A figure that is
//! not known is absent, never 0: a group has no CPU figure until two readings of it exist, and memory at once.
//! A group that has no directory is not in the answer at all.

use std::path::Path;
use std::sync::Arc;

use nix::unistd::{SysconfVar, sysconf};

use super::groups::Groups;
use super::memory::MemoryReader;
use super::procfs::{ProcError, ProcReader};
use super::rate::{self, Reading};
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::state::pods::{ContainerKind, PodTable};
use crate::state::usage::{CpuTime, GroupUsage, NanoCpu, Usage};
use crate::units::{Bytes, Nanos};

/// What turns the kernel's numbers into figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Length of a tick of `/proc/stat`.
    pub jiffy: Nanos,
    /// Number of CPUs: no figure is above it.
    pub cpus: u32,
}

impl Scale {
    /// Of this machine; 10 ms where the system does not tell.
    pub fn of_this_machine() -> Self {
        let ask = |name| sysconf(name).ok().flatten().and_then(|value| u64::try_from(value).ok());
        let ticks = ask(SysconfVar::CLK_TCK).filter(|ticks| *ticks > 0).unwrap_or(100);
        let cpus = ask(SysconfVar::_NPROCESSORS_CONF).and_then(|cpus| u32::try_from(cpus).ok());
        Self { jiffy: Nanos(1_000_000_000 / ticks), cpus: cpus.filter(|cpus| *cpus > 0).unwrap_or(u32::MAX) }
    }
}

/// A host application with its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAppDir {
    /// Its name in the NodeSLO.
    pub name: String,
    /// Its cgroup directory.
    pub dir: CgroupDir,
}

/// Takes samples and remembers what the next one needs.
#[derive(Debug)]
pub struct Collector {
    scale: Scale,
    proc: ProcReader,
    memory: MemoryReader,
    node: Option<Reading>,
    groups: Groups,
    odd_memory: u64,
    stat_failing: bool,
    meminfo_failing: bool,
}

impl Collector {
    /// For the machine whose procfs is `proc` and whose cgroups are those of `layout`.
    pub fn new(proc: &Path, layout: Arc<Layout>, scale: Scale) -> Self {
        Self {
            scale,
            proc: ProcReader::new(proc),
            memory: MemoryReader::new(layout),
            node: None,
            groups: Groups::new(scale.cpus),
            odd_memory: 0,
            stat_failing: false,
            meminfo_failing: false,
        }
    }

    /// One full sample. `now` is the time right before the call (`CLOCK_MONOTONIC`): the sample is the first
    /// thing taken.
    pub fn tick(
        &mut self,
        cpu_time: &mut dyn CpuTime,
        pods: &PodTable,
        host_apps: &[HostAppDir],
        now: Nanos,
    ) -> Usage {
        cpu_time.sample();
        let mut usage = Usage {
            at: now,
            node_cpu: self.node_cpu(now),
            node_memory: self.node_memory(),
            ..Usage::default()
        };
        let Self { groups, memory, .. } = self;
        groups.begin();
        let mut sample = |name: &str, dir: &CgroupDir| {
            let (group, cpu) = groups.visit(cpu_time, name, dir, now);
            let memory = memory.usage(&mut group.memory, dir, cpu.ran, now);
            let figures = GroupUsage { cpu: cpu.usage, memory };
            (cpu.known || memory.is_some()).then(|| (Arc::clone(&group.name), figures))
        };
        for pod in pods.pods.values() {
            usage.pods.extend(sample(&pod.uid, &pod.dir));
            for container in pod.containers.iter().filter(|container| container.kind == ContainerKind::App) {
                if let (Some(id), Some(dir)) = (&container.id, &container.dir) {
                    usage.containers.extend(sample(id, dir));
                }
            }
        }
        for app in host_apps {
            usage
                .host_apps
                .extend(sample(&app.name, &app.dir).map(|(_, figures)| (app.name.clone(), figures)));
        }
        groups.end();
        usage
    }

    /// A quick look between two ticks: CPU use of pods and host applications over the last 200 ms, nothing
    /// else. No system call beyond the sample's own. The first looks after a start have no figures.
    pub fn recent_cpu(
        &mut self,
        cpu_time: &mut dyn CpuTime,
        pods: &PodTable,
        host_apps: &[HostAppDir],
        now: Nanos,
    ) -> Usage {
        cpu_time.sample();
        let mut usage = Usage { at: now, ..Usage::default() };
        let groups = &mut self.groups;
        let mut look = |name: &str, dir: &CgroupDir| {
            let (name, cpu) = groups.look(cpu_time, name, dir, now)?;
            Some((name, GroupUsage { cpu, memory: None }))
        };
        for pod in pods.pods.values() {
            usage.pods.extend(look(&pod.uid, &pod.dir));
        }
        for app in host_apps {
            usage.host_apps.extend(look(&app.name, &app.dir).map(|(_, figures)| (app.name.clone(), figures)));
        }
        usage
    }

    /// Pairs of readings that gave no figure since the start: counters or times that went back, and memory
    /// figures that cannot be right.
    pub fn odd_samples(&self) -> u64 {
        self.groups.odd().saturating_add(self.odd_memory)
    }

    /// Use of all CPUs since the last tick, collection.md 6.2.
    fn node_cpu(&mut self, now: Nanos) -> Option<NanoCpu> {
        let ticks = known(self.proc.total_ticks(), &mut self.stat_failing)?;
        let reading = Reading { at: now, total: Nanos(ticks.saturating_mul(self.scale.jiffy.0)) };
        let last = self.node.replace(reading)?;
        rate::between(last, reading, self.scale.cpus)
    }

    /// Memory in use on the node without page cache, collection.md 6.2.
    fn node_memory(&mut self) -> Option<Bytes> {
        let info = known(self.proc.meminfo(), &mut self.meminfo_failing)?;
        let (total, available) = (info.get("MemTotal")?, info.get("MemAvailable")?);
        if available > total {
            self.odd_memory = self.odd_memory.saturating_add(1);
        }
        Some(info.used())
    }
}

/// The value; a failure is logged once until it is over.
fn known<T>(read: Result<T, ProcError>, failing: &mut bool) -> Option<T> {
    match read {
        Ok(value) => {
            *failing = false;
            Some(value)
        }
        Err(error) => {
            if !*failing {
                tracing::warn!(error = &error as &dyn std::error::Error, "use of the node is not known");
            }
            *failing = true;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;

    use super::*;
    use crate::api::pod::Pod;
    use crate::api::qos::KubeQos;
    use crate::state::pods::{ContainerEntry, PodEntry};

    /// CPU time by directory: (cgroup id, nanoseconds).
    #[derive(Default)]
    struct Recorded(HashMap<String, (u64, u64)>);

    impl CpuTime for Recorded {
        fn sample(&mut self) {}

        fn total(&mut self, dir: &CgroupDir) -> Option<Nanos> {
            self.0.get(dir.as_str()).map(|(_, total)| Nanos(*total))
        }

        fn identity(&mut self, dir: &CgroupDir) -> Option<u64> {
            self.0.get(dir.as_str()).map(|(id, _)| *id)
        }
    }

    /// A host of files: procfs, and v1 memory groups.
    struct Host {
        root: tempfile::TempDir,
        cpu: Recorded,
        collector: Collector,
        pods: PodTable,
        apps: Vec<HostAppDir>,
    }

    const MEMORY: &str = "total_inactive_anon 4096\ntotal_active_anon 8192\ntotal_unevictable 0\n\
        total_inactive_file 1024\ntotal_active_file 2048\ntotal_cache 5\ntotal_rss 6\n";

    impl Host {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir_all(root.path().join("cgroup/memory")).unwrap();
            fs::create_dir_all(root.path().join("proc")).unwrap();
            let layout = Arc::new(Layout::of_folder(&root.path().join("cgroup")).unwrap());
            let scale = Scale { jiffy: Nanos(10_000_000), cpus: 2 };
            let collector = Collector::new(&root.path().join("proc"), layout, scale);
            let (cpu, pods, apps) = (Recorded::default(), PodTable::default(), Vec::new());
            let host = Self { root, cpu, collector, pods, apps };
            host.put("proc/stat", "cpu 1000 0 500 9000 10 20 30 5 0 0\n");
            host.put("proc/meminfo", "MemTotal: 16384000 kB\nMemAvailable: 7680000 kB\n");
            host
        }

        #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
        fn put(&self, file: &str, text: &str) {
            fs::write(self.root.path().join(file), text).unwrap();
        }

        fn group(&mut self, dir: &str, id: u64, total: u64) {
            fs::create_dir_all(self.root.path().join("cgroup/memory").join(dir)).unwrap();
            self.put(&format!("cgroup/memory/{dir}/memory.stat"), MEMORY);
            self.cpu.0.insert(dir.to_owned(), (id, total));
        }

        fn pod(&mut self, uid: &str, containers: &[(&str, ContainerKind)]) {
            let dir = CgroupDir::new(&format!("kubepods/pod{uid}")).unwrap();
            let containers = containers.iter().enumerate().map(|(index, (id, kind))| ContainerEntry {
                name: (*id).to_owned(),
                kind: *kind,
                index,
                id: Some(format!("containerd://{id}")),
                dir: Some(dir.join(id).unwrap()),
            });
            let entry = PodEntry {
                pod: Pod::default().into(),
                uid: uid.into(),
                kube_qos: KubeQos::Guaranteed,
                qos: None,
                containers: containers.collect(),
                dir,
                hooks_live: false,
            };
            self.pods.pods.insert(uid.into(), Arc::new(entry));
        }

        fn tick(&mut self, at_ms: u64) -> Usage {
            let Self { cpu, collector, pods, apps, .. } = self;
            collector.tick(cpu, pods, apps, Nanos(at_ms * 1_000_000))
        }

        fn look(&mut self, at_ms: u64) -> Usage {
            let Self { cpu, collector, pods, apps, .. } = self;
            collector.recent_cpu(cpu, pods, apps, Nanos(at_ms * 1_000_000))
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the figures are compared")]
    fn cpu(milli: u64) -> Option<NanoCpu> {
        Some(NanoCpu(milli * 1_000_000))
    }

    #[test]
    fn node_use_follows_the_worked_examples() {
        let mut host = Host::new();
        let first = host.tick(0);
        assert_eq!((first.node_cpu, first.node_memory), (None, Some(Bytes(8_912_896_000))));
        host.put("proc/stat", "cpu 1120 10 540 9220 12 21 35 5 0 0\n");
        assert_eq!(host.tick(1000).node_cpu, cpu(1760));
    }

    #[test]
    fn node_figures_that_cannot_be_read_are_absent_and_come_back() {
        let mut host = Host::new();
        host.tick(0);
        host.put("proc/stat", "cpu 1 2\n");
        host.put("proc/meminfo", "MemTotal: 5 kB\n");
        let usage = host.tick(1000);
        assert_eq!((usage.node_cpu, usage.node_memory), (None, None));
        host.put("proc/stat", "cpu 1100 0 500 0 0 20 30\n");
        assert_eq!(host.tick(2000).node_cpu, cpu(500));
    }

    #[test]
    fn h08_more_available_than_there_is_counts_as_odd() {
        let mut host = Host::new();
        host.put("proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 120 kB\n");
        assert_eq!(host.tick(0).node_memory, Some(Bytes(0)));
        assert_eq!(host.collector.odd_samples(), 1);
    }

    #[test]
    fn memory_is_there_at_once_and_cpu_from_the_second_tick_on() {
        let mut host = Host::new();
        host.pod("a", &[("c", ContainerKind::App), ("i", ContainerKind::Init)]);
        for dir in ["kubepods/poda", "kubepods/poda/c", "kubepods/poda/i", "host-latency-sensitive/nginx"] {
            host.group(dir, 7, 5_000_000_000);
        }
        let dir = CgroupDir::new("host-latency-sensitive/nginx").unwrap();
        host.apps.push(HostAppDir { name: "nginx".into(), dir });
        let first = GroupUsage { cpu: None, memory: Some(Bytes(12_288)) };
        let usage = host.tick(0);
        assert_eq!(usage.pods["a"], first);
        assert_eq!(usage.containers.keys().map(|id| &**id).collect::<Vec<_>>(), ["containerd://c"]);
        assert_eq!(usage.host_apps["nginx"], first);
        host.group("kubepods/poda", 7, 5_500_000_000);
        let usage = host.tick(1000);
        assert_eq!(usage.pods["a"].cpu, cpu(500));
        assert_eq!(usage.containers["containerd://c"].cpu, cpu(0));
    }

    #[test]
    fn c076_another_group_under_the_same_path_starts_anew() {
        let mut host = Host::new();
        host.pod("a", &[]);
        host.group("kubepods/poda", 7, 1_000_000);
        host.tick(0);
        host.group("kubepods/poda", 8, 900_000_000);
        assert_eq!(host.tick(1000).pods["a"].cpu, None, "another id, though the counter grew");
        host.group("kubepods/poda", 8, 1_000_000_000);
        assert_eq!(host.tick(2000).pods["a"].cpu, cpu(100));
        host.group("kubepods/poda", 8, 1_000_000);
        assert_eq!(host.tick(3000).pods["a"].cpu, None, "the counter went back");
        assert_eq!(host.collector.odd_samples(), 1);
        host.group("kubepods/poda", 8, 2_000_000);
        assert_eq!(host.tick(4000).pods["a"].cpu, cpu(1));
    }

    #[test]
    fn c074_a_tick_at_the_same_time_has_no_cpu_figures() {
        let mut host = Host::new();
        host.pod("a", &[]);
        host.group("kubepods/poda", 7, 5_000_000_000);
        host.tick(10_000);
        host.group("kubepods/poda", 7, 6_000_000_000);
        let usage = host.tick(10_000);
        assert_eq!((usage.node_cpu, usage.pods["a"].cpu), (None, None));
    }

    #[test]
    fn a_pod_without_a_directory_is_not_in_the_answer() {
        let mut host = Host::new();
        host.pod("a", &[("c", ContainerKind::App)]);
        assert_eq!(host.tick(0).pods.len(), 0);
        host.group("kubepods/poda", 7, 0);
        assert_eq!(host.tick(1000).pods.len(), 1);
        fs::remove_dir_all(host.root.path().join("cgroup/memory/kubepods")).unwrap();
        host.cpu.0.clear();
        let usage = host.tick(2000);
        assert_eq!((usage.pods.len(), usage.containers.len()), (0, 0));
    }

    #[test]
    fn groups_that_no_tick_visits_are_forgotten() {
        let mut host = Host::new();
        host.pod("a", &[]);
        host.group("kubepods/poda", 7, 0);
        host.tick(0);
        let pods = std::mem::take(&mut host.pods);
        host.tick(1000);
        host.pods = pods;
        host.group("kubepods/poda", 7, 1_000_000_000);
        assert_eq!(host.tick(2000).pods["a"].cpu, None);
    }

    #[test]
    fn a_look_covers_200_ms_and_leaves_the_tick_alone() {
        let mut host = Host::new();
        host.pod("a", &[]);
        host.group("kubepods/poda", 7, 0);
        host.tick(0);
        for (at, total, usage) in
            [(0, 0, None), (100, 100, cpu(1000)), (200, 300, cpu(1500)), (300, 300, cpu(1000))]
        {
            host.group("kubepods/poda", 7, total * 1_000_000);
            let look = host.look(at);
            assert_eq!(look.pods["a"], GroupUsage { cpu: usage, memory: None }, "at {at} ms");
            assert_eq!((look.node_cpu, look.node_memory), (None, None));
        }
        assert_eq!(host.tick(1000).pods["a"].cpu, cpu(300));
    }
}
