use serde_json::json;

use super::*;
use crate::api::node::Node;
use crate::api::node_slo::HostApplication;
use crate::api::pod::Pod;
use crate::cgroup::naming::{CgroupDriver, Naming};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::read::{Pressure, PressureLine};
use crate::state::be_resources::BeResources;
use crate::state::cache_use::{CacheFigures, CacheUse};
use crate::state::cpi::{Cpi, CpiCounts};
use crate::state::group_stats::{GroupStat, GroupStats, MemoryUse};
use crate::state::groups::{Group, GroupKind, PerGroup};
use crate::state::hub::{Writers, hub};
use crate::state::pods::PodTable;
use crate::state::pressure::{GroupPressure, NodePressure};
use crate::state::slo::Slo;
use crate::state::topology::Topology;
use crate::state::usage::{GroupUsage, NanoCpu, Usage};
use crate::units::Bytes;

struct Scene {
    writers: Writers,
    facts: Facts,
    metrics: Metrics,
}

fn scene() -> Scene {
    let (writers, readers) = hub();
    let facts = Facts::default();
    let metrics = Metrics::new("n\"1", &readers, &facts, Gated { per_cpu: true, node_metric: true });
    Scene { writers, facts, metrics }
}

impl Scene {
    fn lines(&self, scope: Scope, family: Family) -> Vec<String> {
        let start = format!("{}{{node=\"n\\\"1\"", family.descriptor().name);
        let page = self.metrics.page(Format::Classic, scope);
        page.lines().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
    }

    fn all(&self, family: Family) -> Vec<String> {
        self.lines(Scope::All, family)
    }

    fn pods(&self, pods: &[Pod]) {
        let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
        let table = PodTable::build(pods.iter().cloned(), &naming, &PodTable::default()).0;
        self.writers.pods.set(Arc::new(table));
    }
}

fn pod(uid: &str, name: &str, containers: &[(&str, &str)]) -> Pod {
    let batch = json!({"requests": {"kubernetes.io/batch-cpu": "1k"}, "limits": {"kubernetes.io/batch-memory": "2Ki"}});
    let spec = |(name, _): &(&str, &str)| json!({"name": name, "resources": batch});
    let status = |(name, id): &(&str, &str)| json!({"name": name, "containerID": id});
    serde_json::from_value(json!({
        "metadata": {"namespace": "d", "name": name, "uid": uid},
        "spec": {"containers": containers.iter().map(spec).collect::<Vec<_>>()},
        "status": {"containerStatuses": containers.iter().map(status).collect::<Vec<_>>()},
    }))
    .unwrap()
}

fn line(avg10: f64) -> PressureLine {
    PressureLine { avg10, avg60: 2.0, avg300: 3.0, total: 4 }
}

#[test]
fn use_of_the_node_and_of_best_effort_pods() {
    let scene = scene();
    assert!(scene.all(Family::NodeUsedCpuCores).is_empty());
    scene.writers.usage.set(Arc::new(Usage {
        node_cpu: Some(NanoCpu(1_500_000_000)),
        node_memory: Some(Bytes(1024)),
        ..Usage::default()
    }));
    scene.facts.be.set(BeResources { usage: Some(MilliCpu(250)), ..BeResources::default() });
    scene.metrics.suppressed("cfsQuota", Some(MilliCpu(2500)), MilliCpu(1250));
    assert_eq!(scene.lines(Scope::Internal, Family::NodeUsedCpuCores), ["} 1.5"]);
    assert_eq!(scene.all(Family::NodeUsedMemoryBytes), ["} 1024"]);
    assert_eq!(scene.all(Family::BeSuppressBeUsedCpuCores), ["} 0.25"]);
    assert_eq!(scene.all(Family::BeSuppressCpuCores), [",type=\"cfsQuota\"} 2.5"]);
    assert_eq!(scene.all(Family::BeSuppressLsUsedCpuCores), ["} 1.25"]);
    assert_eq!(scene.all(Family::StartTime).len(), 1);
    assert!(scene.lines(Scope::External, Family::StartTime).is_empty());
    scene.metrics.suppressed("none", None, MilliCpu(1000));
    assert!(scene.all(Family::BeSuppressCpuCores).is_empty(), "a policy that is off leaves no figure");
}

#[test]
fn figures_go_when_their_source_has_stopped() {
    let mut scene = scene();
    let used = Some(MilliCpu(250));
    scene.facts.be.set(BeResources { usage: used, ..BeResources::default() });
    scene.metrics.suppressed("cfsQuota", Some(MilliCpu(2500)), MilliCpu(1250));
    let ages = Ages { groups: Nanos(1), suppression: Nanos(3_600_000_000_000), ..Ages::default() };
    scene.metrics = scene.metrics.with_ages(ages);
    assert!(scene.all(Family::BeSuppressBeUsedCpuCores).is_empty());
    assert_eq!(scene.all(Family::BeSuppressLsUsedCpuCores).len(), 1);
    scene.facts.be.set(BeResources { at: monotonic(), usage: used, ..BeResources::default() });
    scene.metrics = scene.metrics.with_ages(Ages { groups: ages.suppression, suppression: Nanos(0), ..ages });
    assert_eq!(scene.all(Family::BeSuppressBeUsedCpuCores).len(), 1);
    assert!(scene.all(Family::BeSuppressLsUsedCpuCores).is_empty());
}

#[test]
fn host_applications_have_series_while_the_policy_names_them() {
    let scene = scene();
    let redis = HostApplication { name: "re\ndis".into(), qos: "LS".into(), ..HostApplication::default() };
    let apps = vec![redis.clone(), redis];
    scene.writers.slo.set(Arc::new(Slo { host_applications: apps, ..Slo::default() }));
    let app = || Group::new(GroupKind::HostApp, "re\ndis", CgroupDir::new("redis").unwrap());
    let mut groups = PerGroup::default();
    groups.set(app(), GroupUsage::of(NanoCpu(500_000_000)));
    scene.writers.usage.set(Arc::new(Usage { groups, ..Usage::default() }));
    let memory = MemoryUse { without_page_cache: Bytes(7), with_page_cache: Bytes(9) };
    let stat = GroupStat { memory: Some(memory), ..GroupStat::default() };
    let mut groups = PerGroup::default();
    groups.set(app(), stat);
    scene.facts.groups.set(GroupStats { groups, ..GroupStats::default() });
    let labels = ",host_application_name=\"re\\ndis\",priority_class=\"\",qos=\"LS\",resource=";
    assert_eq!(
        scene.all(Family::HostApplicationResourceUsage),
        [format!("{labels}\"cpu\"}} 0.5"), format!("{labels}\"memory\"}} 7")],
        "named twice in the policy, shown once"
    );
    scene.writers.slo.set(Arc::new(Slo { synced: true, ..Slo::default() }));
    assert!(scene.all(Family::HostApplicationResourceUsage).is_empty());
}

#[test]
fn external_series_stand_apart() {
    let scene = scene();
    let node: Node =
        serde_json::from_str(r#"{"status":{"allocatable":{"kubernetes.io/batch-cpu":"4000"}}}"#).unwrap();
    scene.writers.node.set(Some(Arc::new(node)));
    let family = Family::NodeResourceAllocatable;
    assert!(scene.lines(Scope::Internal, family).is_empty());
    let external = scene.lines(Scope::External, family);
    assert_eq!(external.len(), 4);
    assert_eq!(external[0], ",resource=\"kubernetes.io/batch-cpu\",unit=\"integer\"} 4000");
    assert_eq!(external[3], ",resource=\"kubernetes.io/mid-memory\",unit=\"byte\"} 0");
    assert_eq!(scene.all(family), external);
}

/// Both pools with LSR pod `3` and LSE pod `4-5`, collection.md 16 example 17.
#[test]
fn pools_of_cpus_by_size_and_one_by_one() {
    let scene = scene();
    let set = |text: &str| text.parse().unwrap();
    let topology = Topology { be_pool: set("0-3,6-7"), ls_pool: set("0-2,6-7"), ..Topology::default() };
    scene.writers.topology.set(Some(Arc::new(topology)));
    assert_eq!(scene.all(Family::CpusetSharePoolCpuCores), ["} 5"]);
    assert_eq!(scene.all(Family::CpusetBeSharePoolCpuCores), ["} 6"]);
    let each = scene.all(Family::CpusetSharePoolInfo);
    assert_eq!((each.len(), &*each[4]), (5, ",cpu=\"7\"} 1"));
    assert_eq!(scene.all(Family::CpusetBeSharePoolInfo).len(), 6);
}

#[test]
fn cpi_and_pressure_are_shown_while_pod_and_container_are_known() {
    let scene = scene();
    let key = |uid: &str, id: &str| (Arc::from(uid), Arc::from(id));
    let cpi = Cpi { cycles: 10.0, instructions: 20.0 };
    let containers =
        [key("u", "containerd://1"), key("u", "containerd://gone"), key("gone", "containerd://1")];
    let counts = containers.clone().map(|of| (of, cpi)).into();
    scene.facts.cpi.set(CpiCounts { containers: counts, ..CpiCounts::default() });
    let all = Pressure { some: Some(line(1.0)), full: Some(line(0.5)) };
    let pressure = GroupPressure { cpu: Pressure { full: None, ..all }, memory: all, io: all };
    scene.facts.pressure.set(NodePressure {
        pods: [("u".into(), pressure), ("gone".into(), pressure)].into(),
        containers: containers.map(|of| (of, pressure)).into(),
        ..NodePressure::default()
    });
    assert!(scene.all(Family::ContainerCpi).is_empty());

    scene.pods(&[pod("u", "p", &[("c", "containerd://1")])]);
    let of_container = ",container_id=\"containerd://1\",container_name=\"c\"";
    let of_pod = "pod_name=\"p\",pod_namespace=\"d\",pod_uid=\"u\"";
    assert_eq!(
        scene.all(Family::ContainerCpi),
        [
            format!("{of_container},cpi_field=\"cycles\",{of_pod}}} 10"),
            format!("{of_container},cpi_field=\"instructions\",{of_pod}}} 20"),
        ]
    );
    let containers = scene.all(Family::ContainerPsi);
    assert_eq!(containers.len(), 15, "no full of CPU, which this kernel lacks");
    let tail = "psi_degree=\"some\",psi_precision=\"avg60\",psi_resource_type=\"cpu\"} 2";
    assert!(containers.contains(&format!("{of_container},cpu_full_supported=\"false\",{of_pod},{tail}")));
    let pods = scene.all(Family::PodPsi);
    assert_eq!(pods.len(), 15);
    let tail = "psi_degree=\"full\",psi_precision=\"avg10\",psi_resource_type=\"io\"} 0.5";
    assert!(pods.contains(&format!(",cpu_full_supported=\"false\",{of_pod},{tail}")), "{pods:#?}");

    scene.pods(&[]);
    let families = [Family::ContainerCpi, Family::ContainerPsi, Family::PodPsi];
    assert!(families.into_iter().all(|family| scene.all(family).is_empty()));
}

#[test]
fn requests_and_limits_of_hostile_names_are_escaped_and_never_shown_twice() {
    let scene = scene();
    let name = "q\"b\\n\n".repeat(50);
    scene.pods(&[pod("u", &name, &[("c", "containerd://1"), ("c", "containerd://1"), ("d", "")])]);
    let requests = scene.all(Family::ContainerResourceRequests);
    let escaped = "q\\\"b\\\\n\\n".repeat(50);
    assert_eq!(
        requests,
        [format!(
            ",container_id=\"containerd://1\",container_name=\"c\",pod_name=\"{escaped}\",pod_namespace=\"d\",\
             pod_uid=\"u\",resource=\"kubernetes.io/batch-cpu\",unit=\"integer\"}} 1000"
        )]
    );
    let limits = scene.all(Family::ContainerResourceLimits);
    assert_eq!(limits.len(), 1);
    assert!(limits[0].ends_with("resource=\"kubernetes.io/batch-memory\",unit=\"byte\"} 2048"), "{limits:?}");
}

#[test]
fn cache_and_bandwidth_by_class_without_what_was_not_read() {
    let scene = scene();
    let figures = CacheFigures { occupancy: Some(Bytes(5)), local: None, total: Some(Bytes(6)) };
    let groups = [(("BE", 1), figures), (("LS", 0), CacheFigures::default())].into();
    scene.facts.cache_use.set(CacheUse { groups, ..CacheUse::default() });
    assert_eq!(scene.lines(Scope::External, Family::ResctrlLlcOccupancy), [",cache_id=\"1\",qos=\"BE\"} 5"]);
    assert_eq!(
        scene.all(Family::ResctrlMemoryBandwidth),
        [",cache_id=\"1\",mb_type=\"mbm_total_bytes\",qos=\"BE\"} 6"]
    );
}

#[test]
fn readings_runs_and_other_rooms_are_counted() {
    let scene = scene();
    assert!(scene.all(Family::CollectNodeCpuInfo).is_empty());
    scene.metrics.node_facts_read::<(), ()>(NodeFacts::Cpu, &Ok(()));
    assert_eq!(scene.all(Family::CollectNodeCpuInfo), [",status=\"succeeded\"} 1", ",status=\"failed\"} 0"]);
    scene.metrics.node_facts_read::<(), ()>(NodeFacts::Numa, &Err(()));
    assert_eq!(scene.all(Family::CollectNodeNumaInfo), [",status=\"succeeded\"} 0", ",status=\"failed\"} 1"]);
    scene.metrics.ran(Part::Step, Duration::from_millis(250));
    assert_eq!(scene.all(Family::PartRuns)[0], ",part=\"step\"} 1");
    assert_eq!(scene.all(Family::PartSeconds)[0], ",part=\"step\"} 0.25");
    scene.metrics.add(|page| page.family(Family::ManifestErrors, |series| series.count(&[], 3)));
    assert_eq!(scene.lines(Scope::Internal, Family::ManifestErrors), ["} 3"]);
    assert!(scene.lines(Scope::External, Family::ManifestErrors).is_empty());
    scene.metrics.cgroup_event(&CgroupEvent::Lost { count: 3 });
    let events = ["born", "died", "lost"]
        .map(|event| format!(",event=\"{event}\"}} {}", if event == "lost" { 3 } else { 0 }));
    assert_eq!(scene.all(Family::CgroupEvents), events);
    let counts = Arc::new(RoundStats::default());
    counts.failed.store(2, Ordering::Relaxed);
    counts.took.store(1_500_000_000, Ordering::Relaxed);
    let follower = FollowerStats { steps: vec![("groups", counts)], missed: AtomicU64::new(4) };
    scene.metrics.add_follower(Arc::new(follower));
    assert_eq!(scene.all(Family::CollectorRounds)[1], ",collector=\"groups\",status=\"failed\"} 2");
    assert_eq!(scene.all(Family::CollectorSeconds), [",collector=\"groups\"} 1.5"]);
    assert_eq!(scene.all(Family::CollectorMissedSamples), ["} 4"]);
    scene.metrics.slo_refused(2);
    assert_eq!(scene.all(Family::NodeSloRefusedFields), ["} 2"]);
}

#[test]
fn the_executors_writes_are_a_histogram_in_milliseconds() {
    let scene = scene();
    let stats = Arc::new(ExecutorStats::default());
    scene.metrics.add_executor(&stats);
    let name = Family::ResourceUpdateDuration.descriptor().name;
    let shown = || {
        let page = scene.metrics.page(Format::Classic, Scope::Internal);
        page.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(shown().is_empty());
    stats.write_times.note(true, Duration::from_micros(500));
    stats.write_times.note(true, Duration::from_secs(1));
    let shown = shown();
    assert_eq!(shown.len(), 11, "{shown:?}");
    let bucket =
        |bound, count| format!("{name}_bucket{{status=\"success\",type=\"cgroup\",le=\"{bound}\"}} {count}");
    for line in [bucket("0.16", 0), bucket("0.64", 1), bucket("+Inf", 2)] {
        assert!(shown.contains(&line), "{line} in {shown:?}");
    }
    assert!(shown.contains(&format!("{name}_count{{status=\"success\",type=\"cgroup\"}} 2")), "{shown:?}");
    assert_eq!(scene.all(Family::ExecutorActions).len(), stats.figures().len());
}
