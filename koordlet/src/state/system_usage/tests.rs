use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::cgroup::path::CgroupDir;
use crate::state::group_stats::{GroupStat, MemoryUse};
use crate::state::groups::{Group, GroupList, PerGroup};
use crate::state::usage::{GroupUsage, NumaUsage};

const S: u64 = 1_000_000_000;
const OUTDATED: Nanos = Nanos(10 * S);

fn milli(milli: u64) -> NanoCpu {
    NanoCpu(milli * 1_000_000)
}

/// Use of a pod or an application; unknown where `None`.
#[derive(Clone, Copy)]
struct Use {
    cpu: Option<NanoCpu>,
    memory: Option<Bytes>,
}

fn used(cpu: u64, memory: u64) -> Use {
    Use { cpu: Some(milli(cpu)), memory: Some(Bytes(memory)) }
}

/// A sample of the node, one pod and one host application, and what their files say.
#[derive(Clone)]
struct Scene {
    usage: Usage,
    stats: GroupStats,
}

impl Scene {
    /// The node's use in milli-cores and bytes.
    fn new(at: u64, node: (u64, u64), pod: Use, app: Use) -> Self {
        let dir = |name| CgroupDir::new(name).unwrap();
        let list = Arc::new(GroupList::new(vec![
            Group::new(GroupKind::Pod, "p", dir("kubepods/podp")),
            Group::new(GroupKind::HostApp, "a", dir("host-latency-sensitive/a")),
        ]));
        let of = |group: &Group| if group.kind == GroupKind::Pod { pod } else { app };
        let usage = |group: &Group| GroupUsage {
            cpu: None,
            of_node: of(group).cpu,
            total: Some(Nanos(0)),
            identity: None,
        };
        let stat = |group: &Group| GroupStat {
            memory: of(group).memory.map(|memory| MemoryUse {
                without_page_cache: memory,
                with_page_cache: memory + Bytes(1 << 20),
            }),
            ..GroupStat::default()
        };
        Self {
            usage: Usage {
                at: Nanos(at),
                node_cpu: Some(milli(node.0)),
                node_memory: Some(Bytes(node.1)),
                groups: PerGroup::new(Arc::clone(&list), usage),
                ..Usage::default()
            },
            stats: GroupStats { at: Nanos(at), groups: PerGroup::new(list, stat), pods_numa_memory: None },
        }
    }

    /// The use of NUMA nodes.
    fn with_numa(mut self, nodes: &[(u64, u64)]) -> Self {
        let figures =
            |(cpu, memory): &(u64, u64)| NumaUsage { cpu: Some(milli(*cpu)), memory: Some(Bytes(*memory)) };
        self.usage.numa = (0..).zip(nodes.iter().map(figures)).collect();
        self
    }

    /// What pods have on NUMA nodes.
    fn with_pods_on(mut self, nodes: &[u64]) -> Self {
        self.stats.pods_numa_memory = Some((0..).zip(nodes.iter().copied().map(Bytes)).collect());
        self
    }

    fn at(mut self, at: u64) -> Self {
        self.usage.at = Nanos(at);
        self.stats.at = Nanos(at);
        self
    }

    fn taken_by(&self, inputs: &mut SystemInputs) {
        inputs.take(&self.usage, Some(&self.stats));
    }

    fn system(&self) -> SystemUsage {
        let mut inputs = SystemInputs::default();
        self.taken_by(&mut inputs);
        inputs.usage(self.usage.at, OUTDATED)
    }
}

#[test]
fn system_use_follows_the_worked_examples() {
    let scene = Scene::new(S, (4000, 0), used(2500, 0), used(700, 0)).with_numa(&[(3000, 0), (1000, 0)]);
    let system = scene.system(); // example 8
    assert_eq!(system.cpu, Some(milli(800)));
    assert_eq!(system.numa_cpu, [(0, milli(600)), (1, milli(200))].into());

    let system = Scene::new(S, (1000, 1024), used(500, 512), used(100, 128)).system(); // row 44
    assert_eq!((system.cpu, system.memory), (Some(milli(400)), Some(Bytes(384))));
    let system = Scene::new(S, (1000, 1024), used(2000, 2048), used(100, 128)).system();
    assert_eq!((system.cpu, system.memory), (Some(milli(0)), Some(Bytes(0))));
}

#[test]
fn use_by_numa_node_follows_the_worked_example() {
    let scene = Scene::new(S, (800, 0), used(0, 0), used(0, 0)).with_numa(&[(1000, 1024), (3000, 2048)]);
    let system = scene.clone().with_pods_on(&[512, 4096]).system(); // row 45
    assert_eq!(system.numa_cpu, [(0, milli(200)), (1, milli(600))].into());
    assert_eq!(system.numa_memory, [(0, Bytes(512)), (1, Bytes(0))].into());
    let system = scene.system();
    assert_eq!((system.numa_cpu.len(), system.numa_memory.len()), (2, 0));
}

#[test]
fn on_the_only_numa_node_are_all_pods() {
    let system = Scene::new(S, (800, 1024), used(100, 500), used(0, 100)).with_numa(&[(800, 1000)]).system();
    assert_eq!(system.numa_cpu, [(0, milli(700))].into());
    assert_eq!(system.numa_memory, [(0, Bytes(500))].into());
}

#[test]
fn a_node_figure_counts_until_it_is_exactly_as_old_as_allowed() {
    let mut inputs = SystemInputs::default();
    let scene = Scene::new(S, (1000, 1024), used(500, 512), used(100, 128));
    scene.taken_by(&mut inputs);
    let mut blind = scene.at(11 * S);
    (blind.usage.node_cpu, blind.usage.node_memory) = (None, None);
    blind.taken_by(&mut inputs);
    let at = |now| inputs.usage(Nanos(now), OUTDATED);
    assert_eq!((at(11 * S).cpu, at(11 * S).memory), (Some(milli(400)), Some(Bytes(384))));
    let late = at(11 * S + 1_000_000);
    assert_eq!((late.cpu, late.memory), (None, None));
}

#[test]
fn c6_a_group_of_unknown_use_is_not_the_systems() {
    let no_cpu = Use { cpu: None, memory: Some(Bytes(512)) };
    let no_memory = Use { cpu: Some(milli(500)), memory: None };
    let system = Scene::new(S, (1000, 1024), no_cpu, used(100, 128)).system();
    assert_eq!((system.cpu, system.memory), (None, Some(Bytes(384))));
    let system = Scene::new(S, (1000, 1024), used(0, 0), no_memory).system();
    assert_eq!((system.cpu, system.memory), (Some(milli(500)), None));
    // The next sample knows it: nothing of the gap is left.
    let mut inputs = SystemInputs::default();
    for pod in [no_memory, used(900, 1000)] {
        Scene::new(S, (1000, 1024), pod, used(0, 0)).taken_by(&mut inputs);
    }
    assert_eq!(inputs.usage(Nanos(S), OUTDATED).memory, Some(Bytes(24)));
}

#[test]
fn a_pod_without_a_directory_uses_nothing_and_one_whose_files_were_not_read_is_unknown() {
    let mut scene = Scene::new(S, (1000, 1024), used(500, 512), used(100, 128));
    let groups = &scene.usage.groups;
    scene.usage.groups = PerGroup::new(Arc::clone(groups.list()), |group| match group.kind {
        GroupKind::Pod => GroupUsage::default(),
        _ => *groups.get(group.kind, &group.name).unwrap(),
    });
    let system = scene.system();
    assert_eq!((system.cpu, system.memory), (Some(milli(900)), Some(Bytes(896))));
    let mut inputs = SystemInputs::default();
    inputs.take(&scene.usage, None);
    assert_eq!(inputs.usage(Nanos(S), OUTDATED).memory, None);
}

#[test]
fn c8_memory_is_without_page_cache_in_every_term() {
    let system = Scene::new(S, (0, 4 << 20), used(0, 1 << 20), used(0, 1 << 20)).system();
    assert_eq!(system.memory, Some(Bytes(2 << 20)));
}

#[test]
fn a_numa_node_that_has_gone_or_is_too_old_is_left_out() {
    let mut inputs = SystemInputs::default();
    let base = Scene::new(S, (800, 0), used(0, 0), used(0, 0)).with_pods_on(&[]);
    base.clone().with_numa(&[(1000, 10), (3000, 20), (0, 0)]).taken_by(&mut inputs);
    let later = base.at(12 * S);
    let mut partly = later.clone().with_numa(&[(0, 0), (500, 30), (0, 0)]);
    partly.usage.numa.insert(0, NumaUsage::default());
    partly.taken_by(&mut inputs);
    let system = inputs.usage(Nanos(12 * S), OUTDATED);
    assert!(system.numa_cpu.is_empty(), "one node's use is too old to share by");
    assert_eq!(system.numa_memory, [(1, Bytes(30)), (2, Bytes(0))].into());
    later.with_numa(&[(500, 30), (500, 40)]).taken_by(&mut inputs);
    let system = inputs.usage(Nanos(12 * S), OUTDATED);
    assert_eq!(system.numa_cpu, [(0, milli(400)), (1, milli(400))].into());
    assert_eq!(system.numa_memory.len(), 2);
}

#[test]
fn where_no_numa_node_used_cpu_the_share_of_each_is_zero() {
    let scene = Scene::new(S, (800, 0), used(0, 0), used(0, 0)).with_numa(&[(0, 0), (0, 0)]);
    assert_eq!(scene.system().numa_cpu, [(0, milli(0)), (1, milli(0))].into());
}

proptest! {
    #[test]
    fn no_figure_is_above_the_node_and_nothing_panics(
        node: (u64, u64), pod: (u64, u64), numa in prop::collection::vec(any::<(u64, u64)>(), 0..4), now: u64,
    ) {
        let pod = Use { cpu: Some(NanoCpu(pod.0)), memory: Some(Bytes(pod.1)) };
        let mut scene = Scene::new(S, (0, node.1), pod, pod).with_pods_on(&[]);
        scene.usage.node_cpu = Some(NanoCpu(node.0));
        scene.usage.numa = (0..).zip(numa).map(|(id, (cpu, memory))| {
            (id, NumaUsage { cpu: Some(NanoCpu(cpu)), memory: Some(Bytes(memory)) })
        }).collect();
        let mut inputs = SystemInputs::default();
        scene.taken_by(&mut inputs);
        let system = inputs.usage(Nanos(now), OUTDATED);
        prop_assert!(system.cpu.is_none_or(|cpu| cpu.0 <= node.0));
        prop_assert!(system.memory.is_none_or(|memory| memory.0 <= node.1));
        prop_assert!(system.numa_cpu.values().all(|cpu| cpu.0 <= node.0));
    }
}
