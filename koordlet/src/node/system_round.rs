//! The round of system use (collection.md 6.6): follows the round of group files, whose memory figures it needs ->
//! `Facts::system` and the `sys_*` series.

use super::follower::Follow;
use super::round_log::RoundResult;
use crate::state::facts::{Facts, Published};
use crate::state::group_stats::GroupStats;
use crate::state::series::key::SeriesKey;
use crate::state::series::metric::Metric;
use crate::state::series::shared::SharedSeries;
use crate::state::system_usage::{SystemInputs, SystemUsage};
use crate::state::usage::Usage;
use crate::units::Nanos;

/// The step of the follower.
#[derive(Debug)]
pub struct SystemRound {
    inputs: SystemInputs,
    /// `--collect-sys-metric-outdated-interval`
    outdated: Nanos,
    groups: Published<GroupStats>,
    published: Published<SystemUsage>,
    series: SharedSeries,
}

impl SystemRound {
    /// Takes the memory of groups from `facts` and publishes there.
    pub fn new(facts: &Facts, series: SharedSeries, outdated: Nanos) -> Self {
        let (groups, published) = (facts.groups.clone(), facts.system.clone());
        Self { inputs: SystemInputs::default(), outdated, groups, published, series }
    }
}

impl Follow for SystemRound {
    fn name(&self) -> &'static str {
        "system-usage"
    }

    fn follow(&mut self, usage: &Usage) -> RoundResult {
        self.inputs.take(usage, self.groups.get().as_deref());
        let system = self.inputs.usage(usage.at, self.outdated);
        self.series.append(system.at, samples(&system));
        self.published.set(system);
        Ok(())
    }
}

fn samples(system: &SystemUsage) -> impl Iterator<Item = (SeriesKey, f64)> {
    let cpu = system.cpu.map(|cpu| (SeriesKey::node(Metric::SysCpuUsage), cpu.cores()));
    let memory = system.memory.map(|bytes| (SeriesKey::node(Metric::SysMemoryUsage), bytes.0 as f64));
    let numa_cpu = system
        .numa_cpu
        .iter()
        .map(|(node, cpu)| (SeriesKey::numa(Metric::SysNumaCpuUsage, *node), cpu.cores()));
    let numa_memory = system
        .numa_memory
        .iter()
        .map(|(node, bytes)| (SeriesKey::numa(Metric::SysNumaMemoryUsage, *node), bytes.0 as f64));
    cpu.into_iter().chain(memory).chain(numa_cpu).chain(numa_memory)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cgroup::path::CgroupDir;
    use crate::state::group_stats::{GroupStat, MemoryUse};
    use crate::state::groups::{Group, GroupKind, GroupList, PerGroup};
    use crate::state::series::settings::SeriesSettings;
    use crate::state::usage::{GroupUsage, NanoCpu, NumaUsage};
    use crate::units::Bytes;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_round_is_published_and_kept_by_node_and_numa_node() {
        let facts = Facts::default();
        let series = SharedSeries::new(SeriesSettings::default());
        let mut round = SystemRound::new(&facts, series.clone(), Nanos(10 * S));
        let dir = CgroupDir::new("kubepods/podp").unwrap();
        let list = Arc::new(GroupList::new(vec![Group::new(GroupKind::Pod, "p", dir)]));
        let cpu = NanoCpu(S / 2);
        let usage = Usage {
            at: Nanos(S),
            node_cpu: Some(NanoCpu(S)),
            node_memory: Some(Bytes(1024)),
            numa: [(0, NumaUsage { cpu: Some(NanoCpu(S)), memory: Some(Bytes(1000)) })].into(),
            groups: PerGroup::new(Arc::clone(&list), |_| GroupUsage::of(cpu)),
            ..Usage::default()
        };
        round.follow(&usage).unwrap();
        let blind = facts.system.get().unwrap();
        assert_eq!((blind.cpu, blind.memory), (Some(cpu), None), "no memory of pods was read yet");

        let memory = MemoryUse { without_page_cache: Bytes(512), with_page_cache: Bytes(4096) };
        let stat = GroupStat { memory: Some(memory), ..GroupStat::default() };
        let stats =
            GroupStats { at: usage.at, groups: PerGroup::new(list, |_| stat), ..GroupStats::default() };
        facts.groups.set(stats);
        round.follow(&Usage { at: Nanos(2 * S), ..usage }).unwrap();
        let system = facts.system.get().unwrap();
        assert_eq!((system.cpu, system.memory), (Some(cpu), Some(Bytes(512))));
        assert_eq!(system.numa_memory, [(0, Bytes(488))].into());
        let kept = |key| series.newest(&key, Nanos(0), Nanos(9 * S)).map(|(at, value)| (at.0 / S, value));
        assert_eq!(kept(SeriesKey::node(Metric::SysCpuUsage)), Some((2, 0.5)));
        assert_eq!(kept(SeriesKey::node(Metric::SysMemoryUsage)), Some((2, 512.0)));
        assert_eq!(kept(SeriesKey::numa(Metric::SysNumaCpuUsage, 0)), Some((2, 0.5)));
        assert_eq!(kept(SeriesKey::numa(Metric::SysNumaMemoryUsage, 0)), Some((2, 488.0)));
    }
}
