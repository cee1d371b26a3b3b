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
    /// The use of all groups of a kind that exist in a sample: their part of the node's CPU from the sample, their
    /// memory from the files that were read after it.
    fn of(kind: GroupKind, usage: &Usage, stats: Option<&GroupStats>) -> Self {
        let existing = || usage.groups.of_kind(kind).filter(|(_, usage)| usage.total.is_some());
        let cpu = existing().try_fold(NanoCpu(0), |sum, (_, usage)| {
            usage.of_node.map(|cpu| NanoCpu(sum.0.saturating_add(cpu.0)))
        });
        let memory_of = |name: &str| Some(stats?.group(kind, name)?.memory?.without_page_cache);
        let memory = existing().try_fold(Bytes(0), |sum, (group, _)| Some(sum + memory_of(&group.name)?));
        let read_at = stats.map_or(usage.at, |stats| stats.at);
        Self {
            cpu: cpu.map(|value| Sampled { at: usage.at, value }),
            memory: memory.map(|value| Sampled { at: read_at, value }),
        }
    }
}

impl SystemInputs {
    /// Takes a new sample, and what was read from files of its groups. What the sample does not know of the node
    /// stays as it was, and grows old; what it does not know of a pod or an application makes their sum unknown,
    /// since an old one would lack them.
    pub fn take(&mut self, usage: &Usage, stats: Option<&GroupStats>) {
        let at = usage.at;
        replace(&mut self.node_cpu, at, usage.node_cpu);
        replace(&mut self.node_memory, at, usage.node_memory);
        self.pods = UseSum::of(GroupKind::Pod, usage, stats);
        self.host_apps = UseSum::of(GroupKind::HostApp, usage, stats);
        self.take_numa(usage, stats);
    }

    fn take_numa(&mut self, usage: &Usage, stats: Option<&GroupStats>) {
        let at = usage.at;
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
        let mut nodes = usage.numa.keys();
        self.pods_numa_memory = match (nodes.next(), nodes.next()) {
            // All that pods have is on the only node, and no pod's file is read for it.
            (Some(only), None) => {
                self.pods.memory.map(|Sampled { at, value }| Sampled { at, value: [(*only, value)].into() })
            }
            _ => stats.and_then(|stats| {
                let value = stats.pods_numa_memory.clone()?;
                Some(Sampled { at: stats.at, value })
            }),
        };
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
mod tests;
