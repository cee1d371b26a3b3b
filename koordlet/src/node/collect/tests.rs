use std::collections::HashMap;
use std::fs;

use serde_json::json;

use super::*;
use crate::api::pod::Pod;
use crate::api::qos::KubeQos;
use crate::cgroup::path::CgroupDir;
use crate::host::machines::Machine;
use crate::host::numa::NodeNumaInfo;
use crate::host::topology::NodeCpuInfo;
use crate::state::facts::Facts;
use crate::state::groups::GroupKind;
use crate::state::pods::{ContainerEntry, ContainerKind, PodEntry};
use crate::state::usage::{CpuReading, GroupUsage};

/// CPU time by directory.
#[derive(Default)]
struct Recorded(HashMap<String, CpuReading>);

impl CpuTime for Recorded {
    fn sample(&mut self) {}

    fn reading(&mut self, dir: &CgroupDir) -> Option<CpuReading> {
        self.0.get(dir.as_str()).copied()
    }
}

/// A host of files, and counters by hand.
struct Host {
    root: tempfile::TempDir,
    cpu: Recorded,
    collector: Collector,
    pods: Arc<PodTable>,
    apps: Vec<HostAppDir>,
}

const MS: u64 = 1_000_000;

impl Host {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let scale = Scale { jiffy: Nanos(10_000_000), cpus: 2 };
        let collector = Collector::new(root.path(), scale);
        let (cpu, pods, apps) = (Recorded::default(), Arc::default(), Vec::new());
        let host = Self { root, cpu, collector, pods, apps };
        host.put("stat", "cpu 1000 0 500 9000 10 20 30 5 0 0\n");
        host.put("meminfo", "MemTotal: 16384000 kB\nMemFree: 4096000 kB\nMemAvailable: 7680000 kB\n");
        host
    }

    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn put(&self, file: &str, text: &str) {
        fs::write(self.root.path().join(file), text).unwrap();
    }

    /// A group that was there before anybody looked, with so many milliseconds of CPU time.
    fn group(&mut self, dir: &str, id: u64, total_ms: u64) {
        let reading = CpuReading { total: Nanos(total_ms * MS), identity: Some(id), born: None };
        self.cpu.0.insert(dir.to_owned(), reading);
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
        Arc::make_mut(&mut self.pods).pods.insert(uid.into(), Arc::new(entry));
    }

    fn tick(&mut self, at_ms: u64) -> Usage {
        let Self { cpu, collector, pods, apps, .. } = self;
        collector.tick(cpu, pods, apps, Nanos(at_ms * MS))
    }

    fn look(&mut self, at_ms: u64) -> Usage {
        let Self { cpu, collector, pods, apps, .. } = self;
        collector.recent_cpu(cpu, pods, apps, Nanos(at_ms * MS))
    }
}

/// CPU use of a pod that exists.
fn pod_cpu(usage: &Usage, uid: &str) -> Option<NanoCpu> {
    usage.group(GroupKind::Pod, uid).unwrap().cpu
}

#[expect(clippy::unnecessary_wraps, reason = "as the figures are compared")]
fn cpu(milli: u64) -> Option<NanoCpu> {
    Some(NanoCpu(milli * MS))
}

#[test]
fn node_use_follows_the_worked_examples() {
    let mut host = Host::new();
    let first = host.tick(0);
    assert_eq!((first.node_cpu, first.node_memory), (None, Some(Bytes(8_912_896_000))));
    assert_eq!(first.node_memory_with_page_cache, Some(Bytes(12_582_912_000)));
    host.put("stat", "cpu 1120 10 540 9220 12 21 35 5 0 0\n");
    assert_eq!(host.tick(1000).node_cpu, cpu(1760));
}

#[test]
fn node_figures_that_cannot_be_read_are_absent_and_come_back() {
    let mut host = Host::new();
    host.tick(0);
    host.put("stat", "cpu 1 2\n");
    host.put("meminfo", "MemTotal: 5 kB\n");
    let usage = host.tick(1000);
    assert_eq!((usage.node_cpu, usage.node_memory, usage.node_memory_with_page_cache), (None, None, None));
    let trouble = host.collector.trouble().unwrap();
    assert!(trouble.contains("/stat: ") && trouble.contains("malformed"), "{trouble}");
    host.put("stat", "cpu 1100 0 500 0 0 20 30\n");
    assert_eq!(host.tick(2000).node_cpu, cpu(500));
    assert_eq!(host.collector.trouble(), None);
}

#[test]
fn h08_more_available_than_there_is_counts_as_odd() {
    let mut host = Host::new();
    host.put("meminfo", "MemTotal: 100 kB\nMemAvailable: 120 kB\n");
    assert_eq!(host.tick(0).node_memory, Some(Bytes(0)));
    assert_eq!(host.collector.odd_samples(), 1);
}

#[test]
fn groups_have_cpu_figures_from_the_second_tick_on() {
    let mut host = Host::new();
    host.pod("a", &[("c", ContainerKind::App), ("i", ContainerKind::Init)]);
    for dir in ["kubepods/poda", "kubepods/poda/c", "kubepods/poda/i", "host-latency-sensitive/nginx"] {
        host.group(dir, 7, 5000);
    }
    let dir = CgroupDir::new("host-latency-sensitive/nginx").unwrap();
    host.apps.push(HostAppDir { name: "nginx".into(), dir });
    let usage = host.tick(0);
    let first = GroupUsage { total: Some(Nanos(5000 * MS)), identity: Some(7), ..GroupUsage::default() };
    let all: Vec<_> = usage.groups.iter().map(|(group, usage)| (&*group.name, *usage)).collect();
    assert_eq!(all, [("a", first), ("containerd://c", first), ("nginx", first)]);
    host.group("kubepods/poda", 7, 5500);
    let usage = host.tick(1000);
    assert_eq!(pod_cpu(&usage, "a"), cpu(500));
    assert_eq!(usage.group(GroupKind::Container, "containerd://c").unwrap().cpu, cpu(0));
}

#[test]
fn c076_another_group_under_the_same_path_starts_anew() {
    let mut host = Host::new();
    host.pod("a", &[]);
    host.group("kubepods/poda", 7, 1);
    host.tick(0);
    host.group("kubepods/poda", 8, 900);
    assert_eq!(pod_cpu(&host.tick(1000), "a"), None, "another id, though the counter grew");
    host.group("kubepods/poda", 8, 1000);
    assert_eq!(pod_cpu(&host.tick(2000), "a"), cpu(100));
    host.group("kubepods/poda", 8, 1);
    let usage = host.tick(3000);
    assert_eq!((pod_cpu(&usage, "a"), usage.unknown_pods()), (None, 1), "the counter went back");
    assert_eq!(host.collector.odd_samples(), 1);
    host.group("kubepods/poda", 8, 2);
    assert_eq!(pod_cpu(&host.tick(4000), "a"), cpu(1));
}

#[test]
fn a_pod_that_is_born_counts_with_all_its_time_and_one_that_was_there_is_unknown() {
    let mut host = Host::new();
    host.tick(0);
    for uid in ["born", "found", "early", "reused"] {
        host.pod(uid, &[]);
    }
    host.group("kubepods/podreused", 1, 9000);
    host.tick(1000);
    for uid in ["born", "found", "early"] {
        host.group(&format!("kubepods/pod{uid}"), 2, 600);
    }
    host.group("kubepods/podreused", 3, 200);
    let mut born = |uid: &str, at_ms| {
        host.cpu.0.get_mut(&format!("kubepods/pod{uid}")).unwrap().born = Some(Nanos(at_ms * MS));
    };
    born("born", 1500);
    // Told of before the last tick, though nobody knew then that it is a pod's.
    born("early", 900);
    let usage = host.tick(2000);
    let of_node = |usage: &Usage, uid: &str| usage.group(GroupKind::Pod, uid).unwrap().of_node;
    assert!(usage.pods().all(|(_, usage)| usage.cpu.is_none()), "no series begins with a guess");
    assert_eq!(of_node(&usage, "born"), cpu(600));
    assert_eq!(of_node(&usage, "reused"), cpu(200));
    assert_eq!((of_node(&usage, "found"), of_node(&usage, "early")), (None, None));
    assert_eq!(usage.unknown_pods(), 2);
    let usage = host.tick(3000);
    assert_eq!((of_node(&usage, "found"), usage.unknown_pods()), (cpu(0), 0));
}

#[test]
fn c074_a_tick_at_the_same_time_has_no_cpu_figures() {
    let mut host = Host::new();
    host.pod("a", &[]);
    host.group("kubepods/poda", 7, 5000);
    host.tick(10_000);
    host.group("kubepods/poda", 7, 6000);
    let usage = host.tick(10_000);
    assert_eq!((usage.node_cpu, pod_cpu(&usage, "a")), (None, None));
}

#[test]
fn a_pod_without_a_directory_is_not_in_the_answer() {
    let mut host = Host::new();
    host.pod("a", &[("c", ContainerKind::App)]);
    assert_eq!(host.tick(0).pods().count(), 0);
    host.group("kubepods/poda", 7, 0);
    assert_eq!(host.tick(1000).pods().count(), 1);
    host.cpu.0.clear();
    let usage = host.tick(2000);
    assert_eq!((usage.pods().count(), usage.containers().count(), usage.unknown_pods()), (0, 0, 0));
    host.group("kubepods/poda", 7, 1000);
    assert_eq!(pod_cpu(&host.tick(3000), "a"), None, "nothing is kept of what had gone");
}

#[test]
fn groups_that_no_tick_visits_are_forgotten_and_the_others_kept() {
    let mut host = Host::new();
    for (uid, total) in [("a", 0), ("b", 0)] {
        host.pod(uid, &[]);
        host.group(&format!("kubepods/pod{uid}"), 7, total);
    }
    host.tick(0);
    let both = Arc::clone(&host.pods);
    Arc::make_mut(&mut host.pods).pods.remove("a");
    let list = Arc::clone(host.tick(1000).groups.list());
    host.pods = both;
    for uid in ["a", "b"] {
        host.group(&format!("kubepods/pod{uid}"), 7, 1000);
    }
    let usage = host.tick(2000);
    assert_eq!((pod_cpu(&usage, "a"), pod_cpu(&usage, "b")), (None, cpu(1000)));
    assert!(!Arc::ptr_eq(&list, usage.groups.list()));
    host.pods = Arc::new((*host.pods).clone());
    assert!(Arc::ptr_eq(host.tick(3000).groups.list(), usage.groups.list()), "a table with the same groups");
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
        host.group("kubepods/poda", 7, total);
        let look = host.look(at);
        assert_eq!(pod_cpu(&look, "a"), usage, "at {at} ms");
        assert_eq!((look.node_cpu, look.node_memory), (None, None));
    }
    host.group("kubepods/poda", 8, 1);
    assert_eq!(pod_cpu(&host.look(400), "a"), None, "another group");
    host.group("kubepods/poda", 7, 300);
    assert_eq!(pod_cpu(&host.tick(1000), "a"), cpu(300));
}

#[test]
fn a_sample_tells_node_numa_nodes_and_best_effort_of_one_moment() {
    let mut host = Host::new();
    let machine = Machine::named("two-sockets-smt");
    let (roots, facts) = (machine.roots(), Facts::default());
    facts.cpus.set(NodeCpuInfo::read(&roots).unwrap());
    facts.numa.set(NodeNumaInfo::read(&roots).unwrap());
    let scale = Scale::of_machine(&roots);
    assert_eq!(scale, Scale { jiffy: Nanos(10 * MS), cpus: 8 }, "of that machine, not of this one");
    let numa = NumaUse::new(&roots.sys, scale.jiffy, facts.cpus, facts.numa);
    let be_dir = CgroupDir::new("kubepods/besteffort").unwrap();
    host.collector = Collector::new(host.root.path(), scale).with_numa(numa).with_best_effort(be_dir);
    let stat = |file: &str| fs::read_to_string(roots.proc.join(file)).unwrap();
    host.put("stat", &stat("stat"));
    assert_eq!(host.tick(0).be_cpu_time, None, "no such directory");
    host.group("kubepods/besteffort", 7, 250);
    host.put("stat", &stat("stat.1s-later"));
    let usage = host.tick(1000);
    assert_eq!(usage.be_cpu_time.unwrap().total, Nanos(250 * MS));
    let milli = |cpu: Option<NanoCpu>| cpu.map(|cpu| cpu.milli().0);
    let numa: BTreeMap<_, _> = usage.numa.iter().map(|(node, use_)| (node, milli(use_.cpu))).collect();
    let got = json!({"node": milli(usage.node_cpu), "numa": numa});
    assert_eq!(got, machine.expected["milliCpuOverOneSecond"]);
    // One CPU's line is broken: the node's figure stays.
    host.put("stat", &stat("stat.1s-later").replace("cpu3 155", "cpu3 x"));
    let usage = host.tick(2000);
    assert_eq!(usage.node_cpu, cpu(0));
    assert!(usage.numa.values().all(|figures| figures.cpu.is_none() && figures.memory.is_some()));
}
