//! Cold memory on a folder that stands for a kernel with kidled.

use super::*;
use crate::api::node_slo::HostApplication;
use crate::cgroup::naming::CgroupDriver;
use crate::host::offers::State;
use crate::node::testing::{FolderHost, pods};
use crate::state::series::key::SeriesKey;
use crate::state::series::metric::Metric;
use crate::state::series::settings::SeriesSettings;

const POD: &str = "kubepods/podu1";
const PERIOD: &str = "sys/kernel/mm/kidled/scan_period_in_seconds";
const MEMORY: &str = "total_cache 5\ntotal_rss 6\ntotal_inactive_anon 300\ntotal_active_anon 500\n\
    total_unevictable 40\ntotal_inactive_file 250\ntotal_active_file 150\n";

/// A file with these cold bytes.
fn idle_pages(cold: u64) -> String {
    let head = "# version: 1.0\n# page_scans: 24\n# slab_scans: 0\n# scan_period_in_seconds: 5\n\
        # use_hierarchy: 1\n# buckets: 1,2,5,15,30,60,120,240\n#\n#\n#\n#\n#\n#\n#\n#\n";
    let rows = ["cfei", "dfei", "cfui", "dfui"].map(|row| match row {
        "cfei" => format!("cfei 9 9 9 9 9 {cold} 0 0\n"),
        row => format!("{row} 9 9 9 9 9 0 0 0\n"),
    });
    let rest = "slab 1 1 1 1 1 1 1 1\n".repeat(13);
    format!("{head}{}{rest}", rows.concat())
}

struct Agent {
    collector: ColdMemoryCollector,
    cold: Published<ColdMemory>,
    series: SharedSeries,
    _senders: (watch::Sender<Arc<PodTable>>, watch::Sender<Arc<Slo>>),
}

impl Agent {
    fn new(host: &FolderHost) -> Self {
        let (pods, pods_reader) = watch::channel(pods(&[("u1", POD)]));
        let app = |name: &str| HostApplication { name: name.into(), ..HostApplication::default() };
        let slo = Slo { host_applications: vec![app("nginx"), app("..")], ..Slo::default() };
        let (slo, slo_reader) = watch::channel(Arc::new(slo));
        let sources = ColdSources {
            roots: host.roots(),
            layout: host.layout(),
            naming: Naming::new(CgroupDriver::Cgroupfs, "").unwrap(),
            pods: pods_reader,
            slo: slo_reader,
        };
        let (cold, series) = (Published::default(), SharedSeries::new(SeriesSettings::default()));
        let collector = ColdMemoryCollector::new(sources, cold.clone(), series.clone());
        Self { collector, cold, series, _senders: (pods, slo) }
    }

    fn round(&mut self) -> Option<Arc<ColdMemory>> {
        self.collector.round(Nanos(7)).unwrap();
        self.cold.get()
    }
}

fn kidled() -> FolderHost {
    let host = FolderHost::new(&["memory"]);
    host.put(PERIOD, "5\n");
    host.put("sys/kernel/mm/kidled/use_hierarchy", "1\n");
    host.put("proc/meminfo", "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 50 kB\n");
    host.put("cgroup/memory/memory.idle_page_stats", &idle_pages(1024));
    for (group, cold) in [(POD, 116), ("kubepods/podu1/c", 100), ("nginx", 9999)] {
        host.put(&format!("cgroup/memory/{group}/memory.idle_page_stats"), &idle_pages(cold));
        host.put(&format!("cgroup/memory/{group}/memory.stat"), MEMORY);
    }
    host
}

#[test]
fn cold_and_hot_memory_of_the_node_pods_containers_and_host_applications() {
    let host = kidled();
    let mut agent = Agent::new(&host);
    let memory = agent.round().unwrap();
    let figures = |cold, hot| ColdFigures { cold: Bytes(cold), hot: Bytes(hot) };
    // MemTotal - MemFree = 90 KiB.
    assert_eq!(memory.node, Some(figures(1024, 90 * 1024 - 1024)));
    // With page cache: 840 + 400, worked example 25.
    assert_eq!(memory.pods["u1"], figures(116, 1124));
    assert_eq!(memory.containers["containerd://u1-c"], figures(100, 1140));
    assert_eq!(memory.host_apps["nginx"], figures(9999, 0), "never below none");
    assert_eq!(memory.host_apps.len(), 1);
    let newest = |key: SeriesKey| {
        let sample = agent.series.newest(&key, Nanos(0), Nanos(9));
        sample.map(|(_, value)| value.to_string()).unwrap_or_default()
    };
    assert_eq!(newest(SeriesKey::node(Metric::NodeMemoryColdPageSize)), "1024");
    assert_eq!(newest(SeriesKey::pod(Metric::PodMemoryWithHotPageUsage, &"u1".into())), "1124");
    assert_eq!(
        newest(SeriesKey::container(Metric::ContainerMemoryColdPageSize, &"containerd://u1-c".into())),
        "100"
    );
    assert_eq!(newest(SeriesKey::host_app(Metric::HostAppMemoryWithHotPageUsage, &"nginx".into())), "0");
    assert_eq!(agent.series.last_refusal(), None);
    let offer = offer(&host.roots(), &host.layout());
    assert!(offer.state == State::Ok && offer.detail.contains("idle for 300 s"), "{}", offer.detail);
}

#[test]
fn one_that_is_gone_or_cannot_be_understood_keeps_the_others() {
    let host = kidled();
    let mut agent = Agent::new(&host);
    host.put("cgroup/memory/memory.idle_page_stats", "junk");
    host.remove("cgroup/memory/kubepods/podu1/c");
    let memory = agent.round().unwrap();
    assert!(memory.node.is_none() && memory.containers.is_empty() && memory.pods.len() == 1);
    host.put("cgroup/memory/kubepods/podu1/memory.stat", "");
    assert!(agent.round().unwrap().pods.is_empty());
}

#[test]
fn a_kernel_without_kidled_ends_the_collector() {
    for host in [FolderHost::new(&["memory"]), FolderHost::new(&["cgroup.controllers"])] {
        let mut agent = Agent::new(&host);
        assert!(agent.round().is_none() && agent.collector.is_over());
        let offer = offer(&host.roots(), &host.layout());
        assert!(offer.state == State::Missing && offer.detail.contains("no kidled"), "{}", offer.detail);
    }
    // Groups of cgroup v2 have no such file.
    let host = FolderHost::new(&["cgroup.controllers"]);
    host.put(PERIOD, "5\n");
    let mut agent = Agent::new(&host);
    assert!(agent.round().is_none() && agent.collector.is_over());
}

#[test]
fn kidled_is_taken_up_and_let_go_as_the_admin_switches_it() {
    let host = kidled();
    host.put(PERIOD, "0\n");
    let mut agent = Agent::new(&host);
    assert!(agent.round().is_none() && !agent.collector.is_over());
    assert!(agent.collector.told.as_ref().unwrap().contains("writing 5 to"));
    let offer = offer(&host.roots(), &host.layout());
    assert!(offer.state == State::Missing && offer.detail.contains("only reads"), "{}", offer.detail);
    host.put(PERIOD, "120\n");
    assert!(agent.round().is_some() && agent.collector.told.is_none());
    host.put(PERIOD, "0\n");
    assert!(agent.round().is_none(), "old figures are no figures");
}
