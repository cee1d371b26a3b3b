//! What is collected each second, into the series: which figure goes into which series (collection.md 5.2). Each
//! series is refused or taken by itself (collection.md 15 row 26); a figure that is not known is no sample.

use std::sync::Arc;

use crate::state::facts::{Facts, Switch};
use crate::state::group_stats::{GroupStat, GroupStats};
use crate::state::groups::{Group, GroupKind, GroupList, PerGroup};
use crate::state::series::key::SeriesKey;
use crate::state::series::metric::Metric;
use crate::state::series::placed::PlacedSeries;
use crate::state::series::shared::SharedSeries;
use crate::state::usage::{GroupUsage, NanoCpu, Usage};
use crate::units::{Bytes, Nanos};

/// Writes them. Whoever writes has one of his own, since it remembers where in the series his groups are.
#[derive(Debug)]
pub struct History {
    series: SharedSeries,
    /// `--enable-pagecache-collector`
    page_cache: bool,
    /// Whether a policy asks for memory with page cache (collection.md 15 row 9).
    page_cache_asked: Switch,
    list: Arc<GroupList>,
    cpu: Vec<PlacedSeries>,
    memory: Vec<PlacedSeries>,
    with_page_cache: Vec<PlacedSeries>,
    throttled: Vec<PlacedSeries>,
}

impl History {
    /// Into `series`; memory with page cache only if `page_cache` or while `facts` say that somebody wants it.
    pub fn new(series: SharedSeries, facts: &Facts, page_cache: bool) -> Self {
        Self {
            series,
            page_cache,
            page_cache_asked: facts.page_cache_asked.clone(),
            list: Arc::default(),
            cpu: Vec::new(),
            memory: Vec::new(),
            with_page_cache: Vec::new(),
            throttled: Vec::new(),
        }
    }

    /// A sample of the node and of the CPU use of groups.
    pub fn usage(&mut self, usage: &Usage) {
        self.follow(usage.groups.list());
        self.series.append(usage.at, of_node(usage, self.wants_page_cache()));
        let cpu = |usage: &GroupUsage| usage.cpu.map(NanoCpu::cores);
        append(&self.series, usage.at, &mut self.cpu, &usage.groups, cpu_of, |_, usage| cpu(usage));
    }

    /// A round of the files of groups.
    pub fn groups(&mut self, stats: &GroupStats) {
        self.follow(stats.groups.list());
        let page_cache = self.wants_page_cache();
        let Self { series, memory, with_page_cache, throttled, .. } = self;
        let (at, groups) = (stats.at, &stats.groups);
        append(series, at, memory, groups, memory_of, |_, stat| {
            stat.memory.map(|memory| float(memory.without_page_cache))
        });
        append(series, at, with_page_cache, groups, with_page_cache_of, |group, stat| {
            // A host application's is always kept (collection.md 6.5).
            let wanted = page_cache || group.kind == GroupKind::HostApp;
            stat.memory.filter(|_| wanted).map(|memory| float(memory.with_page_cache))
        });
        append(series, at, throttled, groups, throttled_of, |group, stat: &GroupStat| {
            stat.throttled.filter(|_| group.kind != GroupKind::HostApp)
        });
    }

    fn wants_page_cache(&self) -> bool {
        self.page_cache || self.page_cache_asked.is_on()
    }

    /// Forgets the places of another list's groups.
    fn follow(&mut self, list: &Arc<GroupList>) {
        if Arc::ptr_eq(&self.list, list) {
            return;
        }
        self.list = Arc::clone(list);
        let Self { cpu, memory, with_page_cache, throttled, .. } = self;
        for places in [cpu, memory, with_page_cache, throttled] {
            places.clear();
        }
    }
}

/// Appends one figure of each group, and makes the places where they are not those of the list yet.
fn append<T>(
    series: &SharedSeries,
    at: Nanos,
    places: &mut Vec<PlacedSeries>,
    groups: &PerGroup<T>,
    metric: impl Fn(GroupKind) -> Metric,
    figure: impl Fn(&Group, &T) -> Option<f64>,
) {
    if places.is_empty() {
        let place = |(group, _): (&Group, &T)| PlacedSeries::new(key(group, metric(group.kind)));
        places.extend(groups.iter().map(place));
    }
    let samples = places.iter_mut().zip(groups.iter());
    let samples = samples.filter_map(|(place, (group, of_group))| Some((place, figure(group, of_group)?)));
    series.append_placed(at, samples);
}

fn of_node(usage: &Usage, page_cache: bool) -> impl Iterator<Item = (SeriesKey, f64)> {
    let with_page_cache = usage.node_memory_with_page_cache.filter(|_| page_cache);
    let node = [
        (Metric::NodeCpuUsage, usage.node_cpu.map(NanoCpu::cores)),
        (Metric::NodeMemoryUsage, usage.node_memory.map(float)),
        (Metric::NodeMemoryUsageWithPageCache, with_page_cache.map(float)),
    ];
    let node = node.into_iter().filter_map(|(metric, value)| Some((SeriesKey::node(metric), value?)));
    let numa = usage.numa.iter().flat_map(|(id, figures)| {
        let cpu = figures.cpu.map(|cpu| (SeriesKey::numa(Metric::NodeNumaCpuUsage, *id), cpu.cores()));
        let memory = figures.memory.map(float);
        let memory = memory.map(|bytes| (SeriesKey::numa(Metric::NodeNumaMemoryUsage, *id), bytes));
        cpu.into_iter().chain(memory)
    });
    node.chain(numa)
}

fn cpu_of(kind: GroupKind) -> Metric {
    match kind {
        GroupKind::Pod => Metric::PodCpuUsage,
        GroupKind::Container => Metric::ContainerCpuUsage,
        GroupKind::HostApp => Metric::HostAppCpuUsage,
    }
}

fn memory_of(kind: GroupKind) -> Metric {
    match kind {
        GroupKind::Pod => Metric::PodMemoryUsage,
        GroupKind::Container => Metric::ContainerMemoryUsage,
        GroupKind::HostApp => Metric::HostAppMemoryUsage,
    }
}

fn with_page_cache_of(kind: GroupKind) -> Metric {
    match kind {
        GroupKind::Pod => Metric::PodMemoryUsageWithPageCache,
        GroupKind::Container => Metric::ContainerMemoryUsageWithPageCache,
        GroupKind::HostApp => Metric::HostAppMemoryUsageWithPageCache,
    }
}

/// Host applications have none.
fn throttled_of(kind: GroupKind) -> Metric {
    match kind {
        GroupKind::Pod => Metric::PodCpuThrottled,
        GroupKind::Container | GroupKind::HostApp => Metric::ContainerCpuThrottled,
    }
}

fn key(group: &Group, metric: Metric) -> SeriesKey {
    match group.kind {
        GroupKind::Pod => SeriesKey::pod(metric, &group.name),
        GroupKind::Container => SeriesKey::container(metric, &group.name),
        GroupKind::HostApp => SeriesKey::host_app(metric, &group.name),
    }
}

fn float(bytes: Bytes) -> f64 {
    bytes.0 as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::path::CgroupDir;
    use crate::state::group_stats::{GroupStat, MemoryUse};
    use crate::state::series::settings::SeriesSettings;
    use crate::state::usage::NumaUsage;
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
        let (mut history, _) = history(true);
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
        let (mut history, facts) = history(false);
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
        let (mut history, _) = history(false);
        history.usage(&Usage { at: Nanos(1), ..Usage::default() });
        assert!(kept(&history).is_empty());
        let mut stats = stats(2);
        stats.groups.set(group(GroupKind::Pod), GroupStat { memory: None, throttled: Some(f64::NAN) });
        history.groups(&stats);
        assert_eq!(history.series.stats().refused, 1);
        assert_eq!(kept(&history).len(), 4, "{:?}", kept(&history));
    }

    #[test]
    fn places_are_found_again_after_other_series_have_gone_and_groups_have_come() {
        let (mut history, _) = history(false);
        let round = |history: &mut History, names: &[&str], at: u64| {
            let mut usage = Usage { at: Nanos(at), ..Usage::default() };
            for (name, milli) in names.iter().zip(1..) {
                let group = Group::new(GroupKind::Pod, name, CgroupDir::new(name).unwrap());
                usage.groups.set(group, GroupUsage::of(NanoCpu(milli * 1_000_000)));
            }
            history.usage(&usage);
            names.iter().zip(1..).all(|(name, milli)| {
                let key = SeriesKey::pod(Metric::PodCpuUsage, &(*name).into());
                let newest = history.series.newest(&key, Nanos(at), Nanos(at));
                newest == Some((Nanos(at), f64::from(milli) / 1000.0))
            })
        };
        assert!(round(&mut history, &["a", "b", "c"], 1));
        history.series.retire(|key| key.pod_uid() != Some("a"));
        assert!(round(&mut history, &["a", "b", "c"], 2));
        assert!(round(&mut history, &["b", "c", "d"], 3));
        assert_eq!(history.series.stats().refused, 0);
    }
}
