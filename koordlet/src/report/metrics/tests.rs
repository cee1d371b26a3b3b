use super::*;
use crate::api::node::Node;
use crate::api::node_slo::HostApplication;
use crate::cgroup::path::CgroupDir;
use crate::state::groups::{Group, GroupKind, PerGroup};
use crate::state::hub::{Writers, hub};
use crate::state::slo::Slo;
use crate::state::usage::{GroupUsage, NanoCpu, Usage};
use crate::units::Bytes;

fn metrics() -> (Writers, Metrics) {
    let (writers, readers) = hub();
    (writers, Metrics::new("n\"1", &readers))
}

fn lines(metrics: &Metrics, scope: Scope, name: &str) -> Vec<String> {
    let text = metrics.encode(scope).unwrap();
    text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
}

#[test]
fn the_series_have_the_references_names_and_labels() {
    let (writers, metrics) = metrics();
    let mut groups = PerGroup::default();
    let app = Group::new(GroupKind::HostApp, "redis", CgroupDir::new("redis").unwrap());
    groups.set(app, GroupUsage::of(NanoCpu(500_000_000)));
    writers.usage.set(Arc::new(Usage {
        node_cpu: Some(NanoCpu(1_500_000_000)),
        node_memory: Some(Bytes(1024)),
        groups,
        ..Usage::default()
    }));
    let redis = HostApplication { name: "redis".into(), qos: "LS".into(), ..HostApplication::default() };
    writers.slo.set(Arc::new(Slo { host_applications: vec![redis], ..Slo::default() }));
    metrics.suppressed("cfsQuota", Some(MilliCpu(2500)), MilliCpu(1250));
    let internal = |name| lines(&metrics, Scope::Internal, name);
    assert_eq!(
        internal("koordlet_node_used_cpu_cores"),
        ["koordlet_node_used_cpu_cores{node=\"n\\\"1\"} 1.5"]
    );
    assert_eq!(
        internal("koordlet_node_used_memory_bytes"),
        ["koordlet_node_used_memory_bytes{node=\"n\\\"1\"} 1024.0"]
    );
    assert_eq!(
        internal("koordlet_be_suppress_cpu_cores"),
        ["koordlet_be_suppress_cpu_cores{node=\"n\\\"1\",type=\"cfsQuota\"} 2.5"]
    );
    assert_eq!(
        internal("koordlet_be_suppress_ls_used_cpu_cores"),
        ["koordlet_be_suppress_ls_used_cpu_cores{node=\"n\\\"1\"} 1.25"]
    );
    assert_eq!(internal("koordlet_start_time").len(), 1);
    let app = internal("koordlet_host_application_resource_usage");
    assert_eq!(app.len(), 1);
    assert!(
        app[0]
            .contains("host_application_name=\"redis\",priority_class=\"\",qos=\"LS\",resource=\"cpu\"} 0.5"),
        "{app:?}"
    );
}

#[test]
fn external_series_stand_apart_and_metrics_shows_both() {
    let (writers, metrics) = metrics();
    let node: Node =
        serde_json::from_str(r#"{"status":{"allocatable":{"kubernetes.io/batch-cpu":"4000"}}}"#).unwrap();
    writers.node.set(Some(Arc::new(node)));
    let name = "koordlet_node_resource_allocatable";
    assert!(lines(&metrics, Scope::Internal, name).is_empty());
    let external = lines(&metrics, Scope::External, name);
    assert_eq!(external.len(), 4);
    assert!(
        external[0].ends_with("resource=\"kubernetes.io/batch-cpu\",unit=\"integer\"} 4000.0"),
        "{external:?}"
    );
    assert!(
        external[3].ends_with("resource=\"kubernetes.io/mid-memory\",unit=\"byte\"} 0.0"),
        "{external:?}"
    );
    assert_eq!(lines(&metrics, Scope::All, name), external);
    assert!(lines(&metrics, Scope::External, "koordlet_start_time").is_empty());
}

#[test]
fn counters_of_other_rooms_are_read_when_scraped() {
    let (_writers, metrics) = metrics();
    let count = Arc::new(AtomicU64::new(3));
    let read = Arc::clone(&count);
    let load = move || vec![("written", read.load(std::sync::atomic::Ordering::Relaxed))];
    metrics.add(Live::counters("executor_actions", "Actions", "action", load));
    metrics.add(Live::gauge("nothing", "No series yet", || None));
    assert_eq!(
        lines(&metrics, Scope::Internal, "koordlet_executor_actions_total"),
        ["koordlet_executor_actions_total{action=\"written\"} 3.0"]
    );
    count.store(4, std::sync::atomic::Ordering::Relaxed);
    assert!(lines(&metrics, Scope::All, "koordlet_executor_actions_total")[0].ends_with(" 4.0"));
    assert!(!metrics.encode(Scope::All).unwrap().contains("koordlet_nothing"));
}

#[test]
fn rounds_are_counted_under_the_references_plain_name() {
    let (_writers, metrics) = metrics();
    let name = "koordlet_collect_node_cpu_info_status";
    assert!(lines(&metrics, Scope::Internal, name).is_empty());
    metrics.node_facts_read::<(), ()>(NodeFacts::Cpu, &Ok(()));
    assert_eq!(
        lines(&metrics, Scope::Internal, name),
        [
            "koordlet_collect_node_cpu_info_status{node=\"n\\\"1\",status=\"succeeded\"} 1",
            "koordlet_collect_node_cpu_info_status{node=\"n\\\"1\",status=\"failed\"} 0"
        ]
    );
}

#[test]
fn the_executors_writes_are_a_histogram_in_milliseconds() {
    let (_writers, metrics) = metrics();
    let stats = Arc::new(ExecutorStats::default());
    metrics.add_executor(&stats);
    let name = "koordlet_resource_update_duration_milliseconds";
    assert!(lines(&metrics, Scope::Internal, name).is_empty());
    stats.write_times.note(true, std::time::Duration::from_micros(500));
    stats.write_times.note(true, std::time::Duration::from_secs(1));
    let shown = lines(&metrics, Scope::Internal, name);
    assert_eq!(shown.len(), 11, "{shown:?}");
    assert!(
        shown.contains(&format!("{name}_bucket{{status=\"success\",type=\"cgroup\",le=\"0.16\"}} 0")),
        "{shown:?}"
    );
    assert!(
        shown.contains(&format!("{name}_bucket{{status=\"success\",type=\"cgroup\",le=\"0.64\"}} 1")),
        "{shown:?}"
    );
    assert!(
        shown.contains(&format!("{name}_bucket{{status=\"success\",type=\"cgroup\",le=\"+Inf\"}} 2")),
        "{shown:?}"
    );
    assert!(shown.contains(&format!("{name}_count{{status=\"success\",type=\"cgroup\"}} 2")), "{shown:?}");
    assert_eq!(
        lines(&metrics, Scope::Internal, "koordlet_executor_actions_total").len(),
        stats.figures().len()
    );
}
