//! Use of the node that belongs to no pod and no host application (collection.md 6.6).
//!
//! One definition of memory holds for all terms: without page cache (15 row 8). A pod or application whose use is
//! not known is not counted as idle: that would show its use as the system's (15 row 6).

use std::collections::BTreeMap;

use super::group_stats::GroupStats;
use super::groups::GroupKind;
use super::usage::{NanoCpu, Usage};
use crate::units::{Bytes, Nanos};

/// One round. A figure whose inputs are missing or too old is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemUsage {
    /// Time of the usage sample that it was made from (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// CPU.
    pub cpu: Option<NanoCpu>,
    /// Memory without page cache.
    pub memory: Option<Bytes>,
    /// CPU by NUMA node.
    pub numa_cpu: BTreeMap<u32, NanoCpu>,
    /// Memory by NUMA node.
    pub numa_memory: BTreeMap<u32, Bytes>,
}

/// A figure and when it was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled<T> {
    /// `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// The figure.
    pub value: T,
}

/// Use of all pods, or of all host applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UseSum {
    /// CPU; `None` if that of one of them is not known.
    pub cpu: Option<Sampled<NanoCpu>>,
    /// Memory without page cache; likewise.
    pub memory: Option<Sampled<Bytes>>,
}

/// What system use is made of, each figure with its own time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemInputs {
    /// CPU use of the node.
    pub node_cpu: Option<Sampled<NanoCpu>>,
    /// Memory use of the node without page cache.
    pub node_memory: Option<Sampled<Bytes>>,
    /// All pods.
    pub pods: UseSum,
    /// All host applications.
    pub host_apps: UseSum,
    /// CPU use by NUMA node.
    pub numa_cpu: BTreeMap<u32, Sampled<NanoCpu>>,
    /// Memory use by NUMA node.
    pub numa_memory: BTreeMap<u32, Sampled<Bytes>>,
    /// Memory of all pods by NUMA node; a node that is not in it holds none. `None` if it is not known.
    pub pods_numa_memory: Option<Sampled<BTreeMap<u32, Bytes>>>,
}

impl UseSum {
    /// The sum of the groups of one kind that existed at a sample, with the memory that was read after it. Of a
    /// group that was born since the sample before, all its CPU time counts.
    pub fn of(kind: GroupKind, usage: &Usage, stats: &GroupStats) -> Self {
        let at = usage.at;
        let start = (Some(NanoCpu(0)), Some(Bytes(0)));
        let existing = usage.groups.of_kind(kind).filter(|(_, usage)| usage.total.is_some());
        let (cpu, memory) = existing.fold(start, |(cpu, memory), (group, usage)| {
            let cpu = cpu.zip(usage.of_node).map(|(sum, cpu)| NanoCpu(sum.0.saturating_add(cpu.0)));
            let of_group = stats.group(kind, &group.name).and_then(|stat| stat.memory);
            (cpu, memory.zip(of_group).map(|(sum, memory)| sum + memory.without_page_cache))
        });
        Self {
            cpu: cpu.map(|value| Sampled { at, value }),
            memory: memory.map(|value| Sampled { at, value }),
        }
    }
}

impl SystemInputs {
    /// Takes a new sample, and what was read of its groups after it. What the sample does not
    /// know of the node stays as it was, and grows old; what it does not know of a pod or an application makes
    /// their sum unknown, since an old one would lack them.
    pub fn take(&mut self, usage: &Usage, stats: &GroupStats) {
        let at = usage.at;
        replace(&mut self.node_cpu, at, usage.node_cpu);
        replace(&mut self.node_memory, at, usage.node_memory);
        self.pods = UseSum::of(GroupKind::Pod, usage, stats);
        self.host_apps = UseSum::of(GroupKind::HostApp, usage, stats);
        for (node, figures) in &usage.numa {
            if let Some(value) = figures.cpu {
                self.numa_cpu.insert(*node, Sampled { at, value });
            }
            if let Some(value) = figures.memory {
                self.numa_memory.insert(*node, Sampled { at, value });
            }
        }
        if !usage.numa.is_empty() {
            self.numa_cpu.retain(|node, _| usage.numa.contains_key(node));
            self.numa_memory.retain(|node, _| usage.numa.contains_key(node));
        }
        self.pods_numa_memory = stats.pods_numa_memory.clone().map(|value| Sampled { at, value });
    }

    /// The system's use at `now`, collection.md 6.6, from figures that are at most `outdated` old. Where the whole
    /// node's figure is not known, those of its NUMA nodes are not either.
    pub fn usage(&self, now: Nanos, outdated: Nanos) -> SystemUsage {
        let fresh = Fresh { now, outdated };
        let cpu = fresh.rest(self.node_cpu, [self.pods.cpu, self.host_apps.cpu]);
        let memory = fresh.rest(self.node_memory, [self.pods.memory, self.host_apps.memory]);
        SystemUsage {
            at: now,
            cpu,
            memory,
            numa_cpu: cpu.map(|cpu| self.numa_cpu(cpu, fresh)).unwrap_or_default(),
            numa_memory: memory.map(|_| self.numa_memory(fresh)).unwrap_or_default(),
        }
    }

    /// System CPU spread over the NUMA nodes as their whole use is; nothing if one of those is too old, 0 where
    /// no node used any.
    fn numa_cpu(&self, system: NanoCpu, fresh: Fresh) -> BTreeMap<u32, NanoCpu> {
        if !self.numa_cpu.values().all(|cpu| fresh.is(cpu.at)) {
            return BTreeMap::new();
        }
        let total: u128 = self.numa_cpu.values().map(|cpu| u128::from(cpu.value.0)).sum();
        let share = |cpu: &Sampled<NanoCpu>| {
            // Rounded to the nearest.
            let product = u128::from(system.0) * u128::from(cpu.value.0);
            let nanos = product.saturating_add(total / 2).checked_div(total);
            NanoCpu(nanos.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(0))
        };
        self.numa_cpu.iter().map(|(node, cpu)| (*node, share(cpu))).collect()
    }

    /// Memory of each NUMA node without that of the pods; nothing if that is not known or too old. Host
    /// applications are not taken off: nothing tells on which nodes their memory is.
    fn numa_memory(&self, fresh: Fresh) -> BTreeMap<u32, Bytes> {
        let Some(pods) = self.pods_numa_memory.as_ref().filter(|pods| fresh.is(pods.at)) else {
            return BTreeMap::new();
        };
        let of_pods = |node| pods.value.get(node).copied().unwrap_or_default();
        let nodes = self.numa_memory.iter().filter(|(_, memory)| fresh.is(memory.at));
        nodes.map(|(node, memory)| (*node, memory.value - of_pods(node))).collect()
    }
}

/// Which figures count: those from `outdated` before `now` on.
#[derive(Clone, Copy)]
struct Fresh {
    now: Nanos,
    outdated: Nanos,
}

impl Fresh {
    fn is(self, at: Nanos) -> bool {
        self.now - at <= self.outdated
    }

    /// What `parts` leave of `whole`, at least 0; `None` unless all are known and fresh.
    fn rest<T: Copy + Amount>(self, whole: Option<Sampled<T>>, parts: [Option<Sampled<T>>; 2]) -> Option<T> {
        let value = |figure: Option<Sampled<T>>| Some(figure.filter(|f| self.is(f.at))?.value);
        let mut rest = value(whole)?;
        for part in parts {
            rest = rest.less(value(part)?);
        }
        Some(rest)
    }
}

/// What can be taken away from, down to 0.
trait Amount {
    fn less(self, part: Self) -> Self;
}

impl Amount for NanoCpu {
    fn less(self, part: Self) -> Self {
        Self(self.0.saturating_sub(part.0))
    }
}

impl Amount for Bytes {
    fn less(self, part: Self) -> Self {
        self - part
    }
}

fn replace<T>(held: &mut Option<Sampled<T>>, at: Nanos, value: Option<T>) {
    if let Some(value) = value {
        *held = Some(Sampled { at, value });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cgroup::path::CgroupDir;
    use crate::state::group_stats::{GroupStat, MemoryUse};
    use crate::state::groups::Group;
    use crate::state::usage::{GroupUsage, NumaUsage};

    const S: u64 = 1_000_000_000;
    const OUTDATED: Nanos = Nanos(10 * S);

    fn milli(milli: u64) -> NanoCpu {
        NanoCpu(milli * 1_000_000)
    }

    /// Use of a pod or application.
    type Use = (Option<NanoCpu>, Option<Bytes>);

    fn group(cpu: u64, memory: u64) -> Use {
        (Some(milli(cpu)), Some(Bytes(memory)))
    }

    /// A sample and what was read after it.
    #[derive(Clone, Default)]
    struct Round {
        usage: Usage,
        stats: GroupStats,
    }

    impl Round {
        fn set(&mut self, kind: GroupKind, (cpu, memory): Use) {
            let group = Group::new(kind, "x", CgroupDir::new("x").unwrap());
            let usage = GroupUsage { of_node: cpu, total: Some(Nanos(0)), ..GroupUsage::default() };
            let both = |bytes| MemoryUse { without_page_cache: bytes, with_page_cache: Bytes(u64::MAX) };
            let stat = GroupStat { memory: memory.map(both), throttled: None };
            self.usage.groups.set(group.clone(), usage);
            self.stats.groups.set(group, stat);
        }

        fn at(mut self, at: u64) -> Self {
            self.usage.at = Nanos(at);
            self
        }

        fn with_numa(mut self, nodes: &[(u64, u64)]) -> Self {
            let nodes = (0..).zip(nodes).map(|(node, (cpu, memory))| {
                (node, NumaUsage { cpu: Some(milli(*cpu)), memory: Some(Bytes(*memory)) })
            });
            self.usage.numa = nodes.collect();
            self
        }

        fn with_pods_numa(mut self, nodes: &[(u32, u64)]) -> Self {
            let nodes = nodes.iter().map(|(node, bytes)| (*node, Bytes(*bytes)));
            self.stats.pods_numa_memory = Some(nodes.collect());
            self
        }

        fn into(self, inputs: &mut SystemInputs) {
            inputs.take(&self.usage, &self.stats);
        }
    }

    /// A sample of the node, one pod and one host application, in milli-cores and bytes.
    fn sample(at: u64, node: (u64, u64), pod: Use, app: Use) -> Round {
        let mut round = Round::default().at(at);
        round.usage.node_cpu = Some(milli(node.0));
        round.usage.node_memory = Some(Bytes(node.1));
        round.set(GroupKind::Pod, pod);
        round.set(GroupKind::HostApp, app);
        round
    }

    fn once(round: Round) -> SystemUsage {
        let (mut inputs, at) = (SystemInputs::default(), round.usage.at);
        round.into(&mut inputs);
        inputs.usage(at, OUTDATED)
    }

    #[test]
    fn system_use_follows_the_worked_examples() {
        let round = sample(S, (4000, 0), group(2500, 0), group(700, 0));
        let system = once(round.with_numa(&[(3000, 0), (1000, 0)])); // example 8
        assert_eq!(system.cpu, Some(milli(800)));
        assert_eq!(system.numa_cpu, [(0, milli(600)), (1, milli(200))].into());

        let system = once(sample(S, (1000, 1024), group(500, 512), group(100, 128))); // row 44
        assert_eq!((system.cpu, system.memory), (Some(milli(400)), Some(Bytes(384))));
        let system = once(sample(S, (1000, 1024), group(2000, 2048), group(100, 128)));
        assert_eq!((system.cpu, system.memory), (Some(milli(0)), Some(Bytes(0))));
    }

    #[test]
    fn use_by_numa_node_follows_the_worked_example() {
        let round = sample(S, (800, 0), group(0, 0), group(0, 0)).with_numa(&[(1000, 1024), (3000, 2048)]);
        let system = once(round.clone().with_pods_numa(&[(0, 512), (1, 4096)])); // row 45
        assert_eq!(system.numa_cpu, [(0, milli(200)), (1, milli(600))].into());
        assert_eq!(system.numa_memory, [(0, Bytes(512)), (1, Bytes(0))].into());
        let system = once(round);
        assert_eq!((system.numa_cpu.len(), system.numa_memory.len()), (2, 0));
    }

    #[test]
    fn a_node_figure_counts_until_it_is_exactly_as_old_as_allowed() {
        let mut inputs = SystemInputs::default();
        let round = sample(S, (1000, 1024), group(500, 512), group(100, 128));
        let mut blind = round.clone().at(11 * S);
        (blind.usage.node_cpu, blind.usage.node_memory) = (None, None);
        round.into(&mut inputs);
        blind.into(&mut inputs);
        let at = |now| inputs.usage(Nanos(now), OUTDATED);
        assert_eq!((at(11 * S).cpu, at(11 * S).memory), (Some(milli(400)), Some(Bytes(384))));
        let late = at(11 * S + 1_000_000);
        assert_eq!((late.cpu, late.memory), (None, None));
    }

    #[test]
    fn c6_a_pod_of_unknown_use_is_not_the_systems() {
        let unknown = (None, Some(Bytes(512)));
        let system = once(sample(S, (1000, 1024), unknown, group(100, 128)));
        assert_eq!((system.cpu, system.memory), (None, Some(Bytes(384))));
        let unknown = (Some(milli(500)), None);
        let system = once(sample(S, (1000, 1024), group(0, 0), unknown));
        assert_eq!((system.cpu, system.memory), (Some(milli(500)), None));
        // The next sample knows it: nothing of the gap is left.
        let mut inputs = SystemInputs::default();
        for pod in [unknown, group(900, 1000)] {
            sample(S, (1000, 1024), pod, group(0, 0)).into(&mut inputs);
        }
        assert_eq!(inputs.usage(Nanos(S), OUTDATED).memory, Some(Bytes(24)));
    }

    #[test]
    fn a_group_without_a_directory_does_not_count() {
        let mut round = sample(S, (1000, 1024), group(500, 512), group(100, 128));
        let gone = Group::new(GroupKind::Pod, "gone", CgroupDir::new("gone").unwrap());
        round.usage.groups.set(gone.clone(), GroupUsage::default());
        round.stats.groups.set(gone, GroupStat::default());
        let system = once(round);
        assert_eq!((system.cpu, system.memory), (Some(milli(400)), Some(Bytes(384))));
    }

    #[test]
    fn a_numa_node_that_has_gone_or_is_too_old_is_left_out() {
        let mut inputs = SystemInputs::default();
        let base = sample(S, (800, 0), group(0, 0), group(0, 0)).with_pods_numa(&[]);
        base.clone().with_numa(&[(1000, 10), (3000, 20)]).into(&mut inputs);
        let later = base.at(12 * S);
        let mut partly = later.clone().with_numa(&[(0, 0), (500, 30)]);
        partly.usage.numa.insert(0, NumaUsage::default());
        partly.into(&mut inputs);
        let system = inputs.usage(Nanos(12 * S), OUTDATED);
        assert!(system.numa_cpu.is_empty(), "one node's use is too old to share by");
        assert_eq!(system.numa_memory, [(1, Bytes(30))].into());
        later.with_numa(&[(500, 30)]).into(&mut inputs);
        let system = inputs.usage(Nanos(12 * S), OUTDATED);
        assert_eq!(system.numa_cpu, [(0, milli(800))].into());
        assert_eq!(system.numa_memory.len(), 1);
    }

    #[test]
    fn where_no_numa_node_used_cpu_the_share_of_each_is_zero() {
        let round = sample(S, (800, 0), group(0, 0), group(0, 0)).with_numa(&[(0, 0), (0, 0)]);
        assert_eq!(once(round).numa_cpu, [(0, milli(0)), (1, milli(0))].into());
    }

    proptest! {
        #[test]
        fn no_figure_is_above_the_node_and_nothing_panics(
            node: (u64, u64), pod: (u64, u64), numa in prop::collection::vec(any::<(u64, u64)>(), 0..4), now: u64,
        ) {
            let pod = (Some(NanoCpu(pod.0)), Some(Bytes(pod.1)));
            let mut round = sample(S, (0, node.1), pod, pod).with_pods_numa(&[]);
            round.usage.node_cpu = Some(NanoCpu(node.0));
            round.usage.numa = (0..).zip(numa).map(|(id, (cpu, memory))| {
                (id, NumaUsage { cpu: Some(NanoCpu(cpu)), memory: Some(Bytes(memory)) })
            }).collect();
            let mut inputs = SystemInputs::default();
            round.into(&mut inputs);
            let system = inputs.usage(Nanos(now), OUTDATED);
            prop_assert!(system.cpu.is_none_or(|cpu| cpu.0 <= node.0));
            prop_assert!(system.numa_cpu.values().all(|cpu| cpu.0 <= node.0));
        }
    }
}
