//! What is collected each second, into the series: which figure goes into which series (collection.md 5.2). Each
//! series is refused or taken by itself (collection.md 15 row 26); a figure that is not known is no sample.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::state::facts::{Facts, Switch};
use crate::state::group_stats::GroupStats;
use crate::state::groups::{Group, GroupKind};
use crate::state::series::key::SeriesKey;
use crate::state::series::metric::Metric;
use crate::state::series::shared::SharedSeries;
use crate::state::usage::Usage;

/// Writes them. Clones write the same series.
#[derive(Clone, Debug)]
pub struct History {
    series: SharedSeries,
    /// `--enable-pagecache-collector`
    page_cache: bool,
    /// Whether a policy asks for memory with page cache (collection.md 15 row 9).
    page_cache_asked: Switch,
    failing: Arc<AtomicBool>,
}

impl History {
    /// Into `series`; memory with page cache only if `page_cache` or once `facts` say that somebody wants it.
    pub fn new(series: SharedSeries, facts: &Facts, page_cache: bool) -> Self {
        let page_cache_asked = facts.page_cache_asked.clone();
        Self { series, page_cache, page_cache_asked, failing: Arc::default() }
    }

    /// A sample of the node and of the CPU use of groups.
    pub fn usage(&self, usage: &Usage) {
        self.told(self.series.append(usage.at, of_usage(usage, self.with_page_cache())));
    }

    /// A round of the files of groups.
    pub fn groups(&self, stats: &GroupStats) {
        self.told(self.series.append(stats.at, of_groups(stats, self.with_page_cache())));
    }

    fn with_page_cache(&self) -> bool {
        self.page_cache || self.page_cache_asked.is_on()
    }

    /// Tells of refused samples, once until there are none.
    fn told(&self, refused: usize) {
        let failed = refused > 0;
        if self.failing.swap(failed, Ordering::Relaxed) || !failed {
            return;
        }
        let why = self.series.last_refusal().map(|refusal| refusal.to_string()).unwrap_or_default();
        tracing::warn!(refused, why, "samples are not kept");
    }
}

fn of_usage(usage: &Usage, page_cache: bool) -> impl Iterator<Item = (SeriesKey, f64)> {
    let node = [
        (Metric::NodeCpuUsage, usage.node_cpu.map(|cpu| cpu.cores())),
        (Metric::NodeMemoryUsage, usage.node_memory.map(|bytes| bytes.0 as f64)),
        (
            Metric::NodeMemoryUsageWithPageCache,
            usage.node_memory_with_page_cache.filter(|_| page_cache).map(|bytes| bytes.0 as f64),
        ),
    ];
    let node = node.into_iter().filter_map(|(metric, value)| Some((SeriesKey::node(metric), value?)));
    let numa = usage.numa.iter().flat_map(|(id, figures)| {
        let cpu = figures.cpu.map(|cpu| (SeriesKey::numa(Metric::NodeNumaCpuUsage, *id), cpu.cores()));
        let memory = figures.memory.map(|bytes| bytes.0 as f64);
        let memory = memory.map(|bytes| (SeriesKey::numa(Metric::NodeNumaMemoryUsage, *id), bytes));
        cpu.into_iter().chain(memory)
    });
    let groups = usage.groups.iter().filter_map(|(group, usage)| {
        let metric = match group.kind {
            GroupKind::Pod => Metric::PodCpuUsage,
            GroupKind::Container => Metric::ContainerCpuUsage,
            GroupKind::HostApp => Metric::HostAppCpuUsage,
        };
        Some((key(group, metric), usage.cpu?.cores()))
    });
    node.chain(numa).chain(groups)
}

fn of_groups(stats: &GroupStats, page_cache: bool) -> impl Iterator<Item = (SeriesKey, f64)> {
    stats.groups.iter().flat_map(move |(group, stat)| {
        let (memory, with_page_cache, throttled) = match group.kind {
            GroupKind::Pod => {
                (Metric::PodMemoryUsage, Metric::PodMemoryUsageWithPageCache, Some(Metric::PodCpuThrottled))
            }
            GroupKind::Container => (
                Metric::ContainerMemoryUsage,
                Metric::ContainerMemoryUsageWithPageCache,
                Some(Metric::ContainerCpuThrottled),
            ),
            GroupKind::HostApp => (Metric::HostAppMemoryUsage, Metric::HostAppMemoryUsageWithPageCache, None),
        };
        // A host application's is always kept (collection.md 6.5).
        let page_cache = page_cache || group.kind == GroupKind::HostApp;
        let samples = [
            (Some(memory), stat.memory.map(|memory| memory.without_page_cache.0 as f64)),
            (
                Some(with_page_cache).filter(|_| page_cache),
                stat.memory.map(|memory| memory.with_page_cache.0 as f64),
            ),
            (throttled, stat.throttled),
        ];
        samples.into_iter().filter_map(|(metric, value)| Some((key(group, metric?), value?)))
    })
}

fn key(group: &Group, metric: Metric) -> SeriesKey {
    match group.kind {
        GroupKind::Pod => SeriesKey::pod(metric, &group.name),
        GroupKind::Container => SeriesKey::container(metric, &group.name),
        GroupKind::HostApp => SeriesKey::host_app(metric, &group.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::path::CgroupDir;
    use crate::state::group_stats::{GroupStat, MemoryUse};
    use crate::state::series::settings::SeriesSettings;
    use crate::state::usage::{GroupUsage, NanoCpu, NumaUsage};
    use crate::units::{Bytes, Nanos};

    const KINDS: [GroupKind; 3] = [GroupKind::Pod, GroupKind::Container, GroupKind::HostApp];

    fn group(kind: GroupKind) -> Group {
        Group::new(kind, "x", CgroupDir::new("x").unwrap())
    }

    fn usage(at: u64) -> Usage {
        let mut usage = Usage {
            at: Nanos(at),
            node_cpu: Some(NanoCpu(1_500_000_000)),
            node_memory: Some(Bytes(100)),
            node_memory_with_page_cache: Some(Bytes(200)),
            numa: [(1, NumaUsage { cpu: Some(NanoCpu(500_000_000)), memory: Some(Bytes(50)) })].into(),
            ..Usage::default()
        };
        for kind in KINDS {
            usage.groups.set(group(kind), GroupUsage::of(NanoCpu(250_000_000)));
        }
        usage
    }

    fn stats(at: u64) -> GroupStats {
        let mut stats = GroupStats { at: Nanos(at), ..GroupStats::default() };
        let memory = MemoryUse { without_page_cache: Bytes(7), with_page_cache: Bytes(9) };
        for kind in KINDS {
            let throttled = (kind != GroupKind::HostApp).then_some(0.25);
            stats.groups.set(group(kind), GroupStat { memory: Some(memory), throttled });
        }
        stats
    }

    /// Series with their newest values, as text.
    fn kept(history: &History) -> Vec<String> {
        let any = (Nanos(0), Nanos(u64::MAX));
        let newest = |metric: &Metric| {
            let found = history.series.query(*metric, &[], any.0, any.1).unwrap();
            found.last.map(|value| format!("{metric} {value}"))
        };
        Metric::ALL.iter().filter_map(newest).collect()
    }

    fn history(page_cache: bool) -> (History, Facts) {
        let facts = Facts::default();
        (History::new(SharedSeries::new(SeriesSettings::default()), &facts, page_cache), facts)
    }

    #[test]
    fn each_figure_has_its_series() {
        let (history, _) = history(true);
        history.usage(&usage(1));
        history.groups(&stats(1));
        let expected = [
            "node_cpu_usage 1.5",
            "node_memory_usage 100",
            "node_memory_usage_with_page_cache 200",
            "node_numa_cpu_usage 0.5",
            "node_numa_memory_usage 50",
            "pod_cpu_usage 0.25",
            "pod_memory_usage 7",
            "pod_memory_usage_with_page_cache 9",
            "pod_cpu_throttled 0.25",
            "container_cpu_usage 0.25",
            "container_memory_usage 7",
            "container_memory_usage_with_page_cache 9",
            "container_cpu_throttled 0.25",
            "host_application_cpu_usage 0.25",
            "host_application_memory_usage 7",
            "host_application_memory_usage_with_page_cache 9",
        ];
        assert_eq!(kept(&history), expected);
        assert_eq!(history.series.stats().refused, 0);
    }

    #[test]
    fn c9_page_cache_is_kept_when_the_flag_or_a_policy_asks() {
        let (history, facts) = history(false);
        let with_page_cache = |history: &History| {
            let kept = kept(history).into_iter();
            kept.filter(|line| line.contains("page_cache")).count()
        };
        history.usage(&usage(1));
        history.groups(&stats(1));
        assert_eq!(with_page_cache(&history), 1, "only the host application's");
        facts.page_cache_asked.set(true);
        history.usage(&usage(2));
        history.groups(&stats(2));
        assert_eq!(with_page_cache(&history), 4);
    }

    #[test]
    fn c26_a_figure_that_is_not_known_is_no_sample_and_a_bad_one_is_refused_alone() {
        let (history, _) = history(false);
        history.usage(&Usage { at: Nanos(1), ..Usage::default() });
        assert!(kept(&history).is_empty());
        let mut stats = stats(2);
        stats.groups.set(group(GroupKind::Pod), GroupStat { memory: None, throttled: Some(f64::NAN) });
        history.groups(&stats);
        assert_eq!(history.series.stats().refused, 1);
        assert_eq!(kept(&history).len(), 4, "{:?}", kept(&history));
    }
}
