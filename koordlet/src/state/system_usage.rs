//! Use of the node that belongs to no pod and no host application (collection.md 6.6).
//!
//! One definition of memory holds for all terms: without page cache (15 row 8). A pod or application whose use is
//! not known is not counted as idle: that would show its use as the system's (15 row 6).

use std::collections::BTreeMap;

use super::usage::{GroupUsage, NanoCpu, Usage};
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
    /// The sum of one sample's groups.
    pub fn of<'a>(at: Nanos, groups: impl Iterator<Item = &'a GroupUsage>) -> Self {
        let start = (Some(NanoCpu(0)), Some(Bytes(0)));
        let (cpu, memory) = groups.fold(start, |(cpu, memory), group| {
            let cpu = cpu.zip(group.cpu).map(|(sum, cpu)| NanoCpu(sum.0.saturating_add(cpu.0)));
            (cpu, memory.zip(group.memory).map(|(sum, memory)| sum + memory))
        });
        Self {
            cpu: cpu.map(|value| Sampled { at, value }),
            memory: memory.map(|value| Sampled { at, value }),
        }
    }
}

impl SystemInputs {
    /// Takes a new sample, and the memory of pods by NUMA node that was read after it. What the sample does not
    /// know of the node stays as it was, and grows old; what it does not know of a pod or an application makes
    /// their sum unknown, since an old one would lack them.
    pub fn take(&mut self, usage: &Usage, pods_numa_memory: Option<&BTreeMap<u32, Bytes>>) {
        let at = usage.at;
        replace(&mut self.node_cpu, at, usage.node_cpu);
        replace(&mut self.node_memory, at, usage.node_memory);
        self.pods = UseSum::of(at, usage.pods.values());
        self.host_apps = UseSum::of(at, usage.host_apps.values());
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
        self.pods_numa_memory = pods_numa_memory.map(|value| Sampled { at, value: value.clone() });
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
    use crate::state::usage::NumaUsage;

    const S: u64 = 1_000_000_000;
    const OUTDATED: Nanos = Nanos(10 * S);

    fn milli(milli: u64) -> NanoCpu {
        NanoCpu(milli * 1_000_000)
    }

    fn group(cpu: u64, memory: u64) -> GroupUsage {
        GroupUsage { cpu: Some(milli(cpu)), memory: Some(Bytes(memory)) }
    }

    /// A sample of the node, one pod and one host application, in milli-cores and bytes.
    fn sample(at: u64, node: (u64, u64), pod: GroupUsage, app: GroupUsage) -> Usage {
        Usage {
            at: Nanos(at),
            node_cpu: Some(milli(node.0)),
            node_memory: Some(Bytes(node.1)),
            pods: [("p".into(), pod)].into(),
            host_apps: [("a".into(), app)].into(),
            ..Usage::default()
        }
    }

    fn with_numa(mut usage: Usage, nodes: &[(u64, u64)]) -> Usage {
        let nodes = (0..).zip(nodes).map(|(node, (cpu, memory))| {
            (node, NumaUsage { cpu: Some(milli(*cpu)), memory: Some(Bytes(*memory)) })
        });
        usage.numa = nodes.collect();
        usage
    }

    fn once(usage: &Usage, pods_numa: Option<&BTreeMap<u32, Bytes>>) -> SystemUsage {
        let mut inputs = SystemInputs::default();
        inputs.take(usage, pods_numa);
        inputs.usage(usage.at, OUTDATED)
    }

    #[test]
    fn system_use_follows_the_worked_examples() {
        let usage = with_numa(sample(S, (4000, 0), group(2500, 0), group(700, 0)), &[(3000, 0), (1000, 0)]);
        let system = once(&usage, None); // example 8
        assert_eq!(system.cpu, Some(milli(800)));
        assert_eq!(system.numa_cpu, [(0, milli(600)), (1, milli(200))].into());

        let system = once(&sample(S, (1000, 1024), group(500, 512), group(100, 128)), None); // row 44
        assert_eq!((system.cpu, system.memory), (Some(milli(400)), Some(Bytes(384))));
        let system = once(&sample(S, (1000, 1024), group(2000, 2048), group(100, 128)), None);
        assert_eq!((system.cpu, system.memory), (Some(milli(0)), Some(Bytes(0))));
    }

    #[test]
    fn use_by_numa_node_follows_the_worked_example() {
        let usage = with_numa(sample(S, (800, 0), group(0, 0), group(0, 0)), &[(1000, 1024), (3000, 2048)]);
        let pods = BTreeMap::from([(0, Bytes(512)), (1, Bytes(4096))]);
        let system = once(&usage, Some(&pods)); // row 45
        assert_eq!(system.numa_cpu, [(0, milli(200)), (1, milli(600))].into());
        assert_eq!(system.numa_memory, [(0, Bytes(512)), (1, Bytes(0))].into());
        let system = once(&usage, None);
        assert_eq!((system.numa_cpu.len(), system.numa_memory.len()), (2, 0));
    }

    #[test]
    fn a_node_figure_counts_until_it_is_exactly_as_old_as_allowed() {
        let mut inputs = SystemInputs::default();
        inputs.take(&sample(S, (1000, 1024), group(500, 512), group(100, 128)), None);
        let blind = Usage {
            at: Nanos(11 * S),
            node_cpu: None,
            node_memory: None,
            ..sample(0, (0, 0), group(500, 512), group(100, 128))
        };
        inputs.take(&blind, None);
        let at = |now| inputs.usage(Nanos(now), OUTDATED);
        assert_eq!((at(11 * S).cpu, at(11 * S).memory), (Some(milli(400)), Some(Bytes(384))));
        let late = at(11 * S + 1_000_000);
        assert_eq!((late.cpu, late.memory), (None, None));
    }

    #[test]
    fn c6_a_pod_of_unknown_use_is_not_the_systems() {
        let unknown = GroupUsage { cpu: None, memory: Some(Bytes(512)) };
        let system = once(&sample(S, (1000, 1024), unknown, group(100, 128)), None);
        assert_eq!((system.cpu, system.memory), (None, Some(Bytes(384))));
        let unknown = GroupUsage { cpu: Some(milli(500)), memory: None };
        let system = once(&sample(S, (1000, 1024), group(0, 0), unknown), None);
        assert_eq!((system.cpu, system.memory), (Some(milli(500)), None));
        // The next sample knows it: nothing of the gap is left.
        let mut inputs = SystemInputs::default();
        for pod in [unknown, group(900, 1000)] {
            inputs.take(&sample(S, (1000, 1024), pod, group(0, 0)), None);
        }
        assert_eq!(inputs.usage(Nanos(S), OUTDATED).memory, Some(Bytes(24)));
    }

    #[test]
    fn a_numa_node_that_has_gone_or_is_too_old_is_left_out() {
        let mut inputs = SystemInputs::default();
        let base = sample(S, (800, 0), group(0, 0), group(0, 0));
        inputs.take(&with_numa(base.clone(), &[(1000, 10), (3000, 20)]), Some(&BTreeMap::new()));
        let later = Usage { at: Nanos(12 * S), ..base.clone() };
        let mut partly = with_numa(later.clone(), &[(0, 0), (500, 30)]);
        partly.numa.insert(0, NumaUsage::default());
        inputs.take(&partly, Some(&BTreeMap::new()));
        let system = inputs.usage(Nanos(12 * S), OUTDATED);
        assert!(system.numa_cpu.is_empty(), "one node's use is too old to share by");
        assert_eq!(system.numa_memory, [(1, Bytes(30))].into());
        inputs.take(&with_numa(later, &[(500, 30)]), Some(&BTreeMap::new()));
        let system = inputs.usage(Nanos(12 * S), OUTDATED);
        assert_eq!(system.numa_cpu, [(0, milli(800))].into());
        assert_eq!(system.numa_memory.len(), 1);
    }

    #[test]
    fn where_no_numa_node_used_cpu_the_share_of_each_is_zero() {
        let usage = with_numa(sample(S, (800, 0), group(0, 0), group(0, 0)), &[(0, 0), (0, 0)]);
        assert_eq!(once(&usage, None).numa_cpu, [(0, milli(0)), (1, milli(0))].into());
    }

    proptest! {
        #[test]
        fn no_figure_is_above_the_node_and_nothing_panics(
            node: (u64, u64), pod: (u64, u64), numa in prop::collection::vec(any::<(u64, u64)>(), 0..4), now: u64,
        ) {
            let group = |(cpu, memory)| GroupUsage { cpu: Some(NanoCpu(cpu)), memory: Some(Bytes(memory)) };
            let mut usage = sample(S, (0, node.1), group(pod), group(pod));
            usage.node_cpu = Some(NanoCpu(node.0));
            usage.numa = (0..).zip(numa).map(|(id, (cpu, memory))| {
                (id, NumaUsage { cpu: Some(NanoCpu(cpu)), memory: Some(Bytes(memory)) })
            }).collect();
            let mut inputs = SystemInputs::default();
            inputs.take(&usage, Some(&BTreeMap::new()));
            let system = inputs.usage(Nanos(now), OUTDATED);
            prop_assert!(system.cpu.is_none_or(|cpu| cpu.0 <= node.0));
            prop_assert!(system.numa_cpu.values().all(|cpu| cpu.0 <= node.0));
        }
    }
}
