//! A node on which every family of the agent's metrics that needs no running sensors has a series, and what its pages
//! show: name, type, labels.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kit::wait::until;
use koordlet::api::node::Node;
use koordlet::api::node_metric::{NodeMetricInfo, NodeMetricStatus, NumaUsageInfo, ResourceMap};
use koordlet::api::node_slo::HostApplication;
use koordlet::api::pod::Pod;
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::read::{Pressure, PressureLine};
use koordlet::executor::ExecutorStats;
use koordlet::host::clock::monotonic;
use koordlet::kube::kind::Kind;
use koordlet::kube::kubelet_stats::KubeletStats;
use koordlet::kube::reason::Reason;
use koordlet::kube::stats::{ApiStats, Verb};
use koordlet::node::disks;
use koordlet::node::rounds::{Collect, Rounds};
use koordlet::report::metrics::reports::{ReportResult, ReportStats, Reported};
use koordlet::report::metrics::{Format, Gated, Metrics, NodeFacts, Part, Scope};
use koordlet::state::be_resources::BeResources;
use koordlet::state::cache_use::{CacheFigures, CacheUse};
use koordlet::state::cpi::{Cpi, CpiCounts};
use koordlet::state::cpu_memory::CpuMemory;
use koordlet::state::facts::Facts;
use koordlet::state::group_stats::{GroupStat, GroupStats, MemoryUse};
use koordlet::state::groups::{Group, GroupKind, PerGroup};
use koordlet::state::hub::{Writers, hub};
use koordlet::state::node_metric::build::Report;
use koordlet::state::pods::PodTable;
use koordlet::state::predict::prod::{Predicted, ProdPrediction};
use koordlet::state::pressure::{GroupPressure, NodePressure};
use koordlet::state::scaled::ScaledContainer;
use koordlet::state::series::settings::SeriesSettings;
use koordlet::state::series::shared::SharedSeries;
use koordlet::state::slo::Slo;
use koordlet::state::topology::Topology;
use koordlet::state::usage::{GroupUsage, NanoCpu, Usage};
use koordlet::units::{Bytes, MilliCpu, Nanos};
use serde_json::json;

const CONTAINER: &str = "containerd://abc";

/// A family as a page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Type.
    pub(crate) kind: String,
    /// Label names but those that the type itself has.
    pub(crate) labels: BTreeSet<String>,
    /// `internal` or `external`.
    pub(crate) page: &'static str,
}

/// Everything that the node's pages show, by name. Each family has one set of labels.
pub(crate) fn families(format: Format) -> BTreeMap<String, Shown> {
    let (writers, readers) = hub();
    let facts = Facts::default();
    let metrics = Metrics::new("n1", &readers, &facts, Gated { per_cpu: true, node_metric: true });
    let stats = Arc::new(ExecutorStats::default());
    stats.write_times.note(true, Duration::from_millis(1));
    give_tasks(&stats);
    metrics.add_executor(&stats);
    metrics.suppressed("cpuset", Some(MilliCpu(1000)), MilliCpu(500));
    metrics.scaled(&Arc::new(vec![scaled()]));
    metrics.node_facts_read::<(), ()>(NodeFacts::Cpu, &Ok(()));
    metrics.node_facts_read::<(), ()>(NodeFacts::Numa, &Ok(()));
    metrics.ran(Part::Sample, Duration::from_millis(1));
    metrics.add_series(&SharedSeries::new(SeriesSettings::default()));
    metrics.add_audit(Arc::default());
    let rounds = one_round();
    metrics.add_rounds(&rounds);
    metrics.add_follower(Arc::default());
    add_kubernetes(&metrics);
    write_snapshots(&writers);
    write_facts(&facts);
    let internal = parse(&metrics.page(format, Scope::Internal), "internal");
    let external = parse(&metrics.page(format, Scope::External), "external");
    let both = internal.into_iter().chain(external).collect();
    let all = parse(&metrics.page(format, Scope::All), "");
    let names = |families: &BTreeMap<String, Shown>| families.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&both), names(&all), "/metrics shows both pages");
    both
}

/// The pod's container has a cookie and an OOM score.
fn give_tasks(stats: &ExecutorStats) {
    let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
    let pod = naming.pod_dir(KubeQos::BestEffort, "u").unwrap();
    let container = naming.container_dir(&pod, CONTAINER).unwrap();
    let group = Arc::from("g");
    stats.tasks.cookie(&container, Some((&group, 101)));
    stats.tasks.score(&container, Some(500));
    stats.tasks.cookies_set(&group, true, monotonic());
}

/// One answer of the kubelet, one event of the API server, one report.
fn add_kubernetes(metrics: &Metrics) {
    let kubelet = KubeletStats::default();
    kubelet.answered("/pods/", 200, Duration::from_millis(1));
    metrics.add_kubelet(Arc::new(kubelet));
    let api = ApiStats::default();
    api.request(Kind::Node, Verb::List);
    api.error(Kind::Node, Reason::Other);
    api.event(Kind::Node);
    api.set_trouble(Kind::Node, Some("it is away".into()));
    metrics.add_api_server(Arc::new(api));
    let reports = ReportStats::default();
    reports.round(Reported::NodeMetric, ReportResult::Written);
    reports.learnt(1);
    metrics.add_reports(Arc::new(reports));
}

/// A collector that has had a round.
struct Disks;

impl Collect for Disks {
    fn name(&self) -> &'static str {
        disks::NAME
    }

    fn round(&mut self, _: Nanos) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

fn one_round() -> Rounds {
    let mut rounds = Rounds::default();
    rounds.start(Disks, Duration::from_hours(1)).unwrap();
    let done = || rounds.stats().iter().all(|(_, stats)| stats.succeeded.load(Ordering::Relaxed) > 0);
    assert!(until(Duration::from_secs(30), done), "no round");
    rounds
}

fn write_snapshots(writers: &Writers) {
    writers.node.set(Some(Arc::new(Node::default())));
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {"containers": [{"name": "c", "resources": {
            "requests": {"kubernetes.io/batch-cpu": "1000"}, "limits": {"kubernetes.io/batch-cpu": "1000"}}}]},
        "status": {"containerStatuses": [{"name": "c", "containerID": CONTAINER}]},
    }))
    .unwrap();
    let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
    writers.pods.set(Arc::new(PodTable::build([pod], &naming, &PodTable::default()).0));
    let app = HostApplication { name: "a".into(), ..HostApplication::default() };
    writers.slo.set(Arc::new(Slo { host_applications: vec![app], ..Slo::default() }));
    let pool: koordlet::cpuset::CpuSet = "0-1".parse().unwrap();
    let topology = Topology { be_pool: pool.clone(), ls_pool: pool, ..Topology::default() };
    writers.topology.set(Some(Arc::new(topology)));
    let mut groups = PerGroup::default();
    groups.set(host_app(), GroupUsage::of(NanoCpu(1)));
    writers.usage.set(Arc::new(Usage {
        node_cpu: Some(NanoCpu(1)),
        node_memory: Some(Bytes(1)),
        groups,
        ..Usage::default()
    }));
}

fn host_app() -> Group {
    Group::new(GroupKind::HostApp, "a", CgroupDir::new("a").unwrap())
}

fn write_facts(facts: &Facts) {
    facts.be.set(BeResources { usage: Some(MilliCpu(1)), ..BeResources::default() });
    let stat = GroupStat { memory: Some(MemoryUse::default()), ..GroupStat::default() };
    let mut groups = PerGroup::default();
    groups.set(host_app(), stat);
    facts.groups.set(GroupStats { groups, ..GroupStats::default() });
    let of = (Arc::from("u"), Arc::from(CONTAINER));
    facts.cpi.set(CpiCounts { containers: [(of.clone(), Cpi::default())].into(), ..CpiCounts::default() });
    let line = Some(PressureLine::default());
    let all = Pressure { some: line, full: line };
    let pressure = GroupPressure { cpu: all, memory: all, io: all };
    facts.pressure.set(NodePressure {
        pods: [(Arc::from("u"), pressure)].into(),
        containers: [(of, pressure)].into(),
        ..NodePressure::default()
    });
    facts.report.set(report());
    let figures = CacheFigures { occupancy: Some(Bytes(1)), local: Some(Bytes(1)), total: Some(Bytes(1)) };
    facts.cache_use.set(CacheUse { groups: [(("LS", 0), figures)].into(), ..CacheUse::default() });
}

fn report() -> Report {
    let amount = CpuMemory { cpu: MilliCpu(1), memory: Bytes(1) };
    let map = ResourceMap { resources: amount.to_list(), ..ResourceMap::default() };
    let (node_usage, system_usage) = (map.clone(), map);
    let numa =
        NumaUsageInfo { numa_node_id: 0, node_usage: node_usage.clone(), system_usage: system_usage.clone() };
    let node =
        NodeMetricInfo { node_usage, system_usage, numa_usages: vec![numa], ..NodeMetricInfo::default() };
    let predicted = Predicted { reclaimable: Ok(amount), peak: Ok(amount) };
    Report {
        status: NodeMetricStatus { node_metric: Some(node), ..NodeMetricStatus::default() },
        prediction: ProdPrediction {
            by_pod: predicted.clone(),
            by_priority: predicted.clone(),
            reported: predicted,
            notice: None,
        },
    }
}

fn parse(page: &str, name: &'static str) -> BTreeMap<String, Shown> {
    let mut families = BTreeMap::<String, Shown>::new();
    let mut current = (String::new(), String::new());
    for line in page.lines() {
        if let Some((family, kind)) = line.strip_prefix("# TYPE ").and_then(|head| head.split_once(' ')) {
            current = (family.to_owned(), kind.to_owned());
        } else if !line.starts_with('#') {
            let (family, kind) = &current;
            assert!(line.starts_with(family.as_str()), "{line} stands beneath {family}");
            let shown = Shown { kind: kind.clone(), labels: labels(line), page: name };
            let first = families.entry(family.clone()).or_insert_with(|| shown.clone());
            assert_eq!(*first, shown, "{line}: all series of a family have the same labels");
        }
    }
    families
}

/// Label names of a series; the values of this node have neither quote nor comma.
fn labels(line: &str) -> BTreeSet<String> {
    let labels = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
    let names = labels.into_iter().flat_map(|(labels, _)| labels.split(','));
    names
        .filter_map(|label| label.split_once('='))
        .map(|(name, _)| name.to_owned())
        .filter(|name| name != "le")
        .collect()
}

fn scaled() -> ScaledContainer {
    ScaledContainer {
        namespace: "ns".to_owned(),
        pod: "pod".to_owned(),
        container: "app".to_owned(),
        id: CONTAINER.into(),
        quota_us: Some(240_000),
        burst_us: Some(2_000_000),
    }
}
