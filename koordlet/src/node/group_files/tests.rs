use super::super::testing::FolderHost;
use super::*;
use crate::host::meminfo::Meminfo;
use crate::host::numa::{NodeNumaInfo, NumaInfo};
use crate::state::series::settings::SeriesSettings;
use crate::state::series::shared::SharedSeries;

/// A v1 host of files.
struct Host {
    folder: FolderHost,
    files: GroupFiles,
    facts: Facts,
    usage: Usage,
}

const MEMORY: &str = "cache 1\ninactive_anon 1\nactive_anon 1\nunevictable 1\ntotal_cache 7\ntotal_rss 8\n\
    total_inactive_anon 4096\ntotal_active_anon 8192\ntotal_inactive_file 1024\n\
    total_active_file 2048\ntotal_unevictable 0\n";
const EXAMPLE: MemoryUse = MemoryUse { without_page_cache: Bytes(12_288), with_page_cache: Bytes(15_360) };

impl Host {
    fn new() -> Self {
        let folder = FolderHost::new(&["memory", "cpu"]);
        let facts = Facts::default();
        let series = SharedSeries::new(SeriesSettings::default());
        let files = GroupFiles::new(folder.layout(), facts.clone(), History::new(series, &facts, false));
        Self { folder, files, facts, usage: Usage::default() }
    }

    fn put(&self, file: &str, text: &str) {
        self.folder.put(&format!("cgroup/{file}"), text);
    }

    fn memory(&self, dir: &str, text: &str) {
        self.put(&format!("memory/{dir}/memory.stat"), text);
    }

    fn throttling(&self, dir: &str, periods: u64, throttled: u64) {
        let text = format!("nr_periods {periods}\nnr_throttled {throttled}\nthrottled_time 5\n");
        self.put(&format!("cpu/{dir}/cpu.stat"), &text);
    }

    /// The next sample finds the group with this CPU time; `None`: not there.
    fn group(&mut self, kind: GroupKind, name: &str, total: Option<u64>) {
        let group = Group::new(kind, name, CgroupDir::new(name).unwrap());
        let usage = GroupUsage { total: total.map(Nanos), identity: Some(1), ..GroupUsage::default() };
        self.usage.groups.set(group, usage);
    }

    fn round(&mut self, at_s: u64) -> Arc<GroupStats> {
        self.usage.at = Nanos(at_s * 1_000_000_000);
        self.files.follow(&self.usage).unwrap();
        self.facts.groups.get().unwrap()
    }

    /// One round with one pod.
    fn pod(&mut self, at_s: u64, total: u64) -> GroupStat {
        self.group(GroupKind::Pod, "pod", Some(total));
        *self.round(at_s).group(GroupKind::Pod, "pod").unwrap()
    }
}

#[test]
fn memory_follows_the_worked_example_and_is_there_at_once() {
    let mut host = Host::new();
    host.memory("pod", MEMORY);
    host.throttling("pod", 10, 3);
    assert_eq!(host.pod(1, 5), GroupStat { memory: Some(EXAMPLE), throttled: None });
    assert_eq!(host.facts.groups.get().unwrap().pods_numa_memory, None, "one NUMA node");
}

#[test]
fn the_file_by_numa_node_tells_the_same_where_it_has_hierarchical_lines() {
    let mut host = Host::new();
    let page = host.files.reader.layout().page_size();
    host.memory("pod", MEMORY);
    host.put("memory/pod/memory.numa_stat", "total=5 N0=5\nanon=5 N0=5\n");
    assert_eq!(host.pod(1, 1).memory, Some(EXAMPLE), "of the group alone");
    let text = "hierarchical_file=7 N0=7\nhierarchical_anon=3 N0=3\nhierarchical_unevictable=1 N0=1\n";
    host.memory("other", MEMORY);
    host.put("memory/other/memory.numa_stat", text);
    host.group(GroupKind::Container, "other", Some(1));
    let stats = host.round(2);
    let found = stats.group(GroupKind::Container, "other").unwrap().memory;
    let lists = MemoryUse { without_page_cache: Bytes(4 * page), with_page_cache: Bytes(11 * page) };
    assert_eq!(found, Some(lists));
    assert_eq!(stats.pods_numa_memory, None, "one NUMA node");
}

#[test]
fn throttling_follows_the_worked_examples() {
    let mut host = Host::new();
    let mut total = 0;
    let mut next = |host: &mut Host, periods, throttled| {
        host.throttling("pod", periods, throttled);
        total += 1;
        host.pod(total, total).throttled
    };
    assert_eq!(next(&mut host, 10, 3), None);
    assert_eq!(next(&mut host, 20, 5), Some(0.2));
    assert_eq!(next(&mut host, 20, 5), Some(0.0));
    for _ in 0..4 {
        assert_eq!(next(&mut host, 30, 7), Some(0.0), "without a period it has no limit");
    }
    assert_eq!(next(&mut host, 30, 7), Some(0.2), "all that it has missed");
    assert_eq!(next(&mut host, 3, 1), None, "the counters started anew");
    assert_eq!(next(&mut host, 5, 2), Some(0.5));
    host.put("cpu/pod/cpu.stat", "usage_usec 5\n");
    assert_eq!(host.pod(9, 99).throttled, None, "h10: the controller is off");
    assert!(!host.files.members[0].failing);
}

#[test]
fn an_idle_group_is_read_every_15_s_and_a_busy_one_each_time() {
    let mut host = Host::new();
    host.memory("pod", MEMORY);
    host.throttling("pod", 10, 3);
    host.pod(0, 7);
    host.memory("pod", &MEMORY.replace("8192", "20480"));
    host.throttling("pod", 20, 3);
    let idle = host.pod(1, 7);
    assert_eq!(idle, GroupStat { memory: Some(EXAMPLE), throttled: Some(0.0) }, "figures stand");
    let figure = |stat: GroupStat| stat.memory.unwrap().without_page_cache.0;
    assert_eq!(figure(host.pod(1, 8)), 24_576);
    host.memory("pod", MEMORY);
    assert_eq!(figure(host.pod(15, 8)), 24_576);
    assert_eq!(figure(host.pod(16, 8)), 12_288);
}

#[test]
fn the_first_waits_of_many_groups_are_spread_over_the_period() {
    let mut host = Host::new();
    for index in 0..150 {
        host.group(GroupKind::Container, &format!("c{index}"), Some(1));
    }
    host.round(0);
    for at in 1..=15 {
        let at = Nanos(at * 1_000_000_000);
        let due = host.files.members.iter().filter(|member| member.due == Some(at)).count();
        assert_eq!(due, 10, "after {at} ns");
    }
}

#[test]
fn c053_c076_a_group_that_has_gone_has_no_figures_and_one_that_comes_back_starts_anew() {
    let mut host = Host::new();
    host.memory("pod", MEMORY);
    host.throttling("pod", 10, 3);
    host.pod(0, 1);
    host.group(GroupKind::Pod, "pod", None);
    assert_eq!(host.round(1).group(GroupKind::Pod, "pod"), Some(&GroupStat::default()));
    host.throttling("pod", 20, 20);
    let back = host.pod(2, 1);
    assert_eq!(back, GroupStat { memory: Some(EXAMPLE), throttled: None }, "no ratio of two groups");
    // Gone between the sample and the reading.
    for controller in ["memory", "cpu"] {
        host.folder.remove(&format!("cgroup/{controller}/pod"));
    }
    host.files.members[0].files = Files::default();
    assert_eq!(host.pod(3, 2), GroupStat::default());
    assert!(!host.files.members[0].failing);
}

#[test]
fn a_host_application_counts_all_that_is_charged_to_it() {
    let mut host = Host::new();
    host.memory("app", MEMORY);
    host.group(GroupKind::HostApp, "app", Some(1));
    assert_eq!(host.round(0).group(GroupKind::HostApp, "app"), Some(&GroupStat::default()));
    host.put("memory/app/memory.usage_in_bytes", "20480\n");
    host.group(GroupKind::HostApp, "app", Some(2));
    let memory = MemoryUse { without_page_cache: Bytes(12_288), with_page_cache: Bytes(20_480) };
    let expected = GroupStat { memory: Some(memory), throttled: None };
    assert_eq!(host.round(1).group(GroupKind::HostApp, "app"), Some(&expected));
}

#[test]
fn c4_pods_numa_memory_is_the_sum_of_their_hierarchical_lines_where_there_are_more_nodes() {
    let mut host = Host::new();
    let numa = |node| NumaInfo { node, mem_info: Meminfo::default(), huge_pages: BTreeMap::default() };
    host.facts.numa.set(NodeNumaInfo { numa_infos: vec![numa(0), numa(1)], ..NodeNumaInfo::default() });
    assert_eq!(host.round(0).pods_numa_memory, None, "no pod");
    for (name, pages) in [("a", 3), ("b", 4)] {
        host.memory(name, MEMORY);
        let text = format!(
            "total=1 N0=1 N1=0\nanon=1 N0=1 N1=0\nhierarchical_total=9 N0={pages} N1=1\n\
             hierarchical_anon=9 N0={pages} N1=0\nhierarchical_unevictable=0 N0=0 N1=1\n"
        );
        host.put(&format!("memory/{name}/memory.numa_stat"), &text);
        host.group(GroupKind::Pod, name, Some(1));
    }
    let page = host.folder.layout().page_size();
    let sums = host.round(1).pods_numa_memory.clone().unwrap();
    assert_eq!(sums, [(0, Bytes(7 * page)), (1, Bytes(2 * page))].into());
}

#[test]
fn a_file_without_the_figures_gives_none_not_zero() {
    let mut host = Host::new();
    for (total, text) in
        (1..).zip(["", "total_inactive_anon 1\ntotal_active_anon x\ntotal_unevictable 1\n", "\u{0}"])
    {
        host.memory("pod", text);
        assert_eq!(host.pod(total, total).memory, None, "{text:?}");
        assert!(host.files.members[0].failing);
    }
    host.memory("pod", MEMORY);
    assert_eq!(host.pod(9, 9).memory, Some(EXAMPLE));
}
