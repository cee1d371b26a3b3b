use serde_json::{Value, json};

use super::*;
use crate::api::pod::Pod;
use crate::cgroup::naming::{CgroupDriver, Naming};
use crate::state::node_metric::policy::MemoryPolicy;
use crate::state::predict::prod::{PredictError, Predicted};
use crate::state::series::settings::SeriesSettings;

const SECOND: u64 = 1_000_000_000;
const MEMORY: f64 = 8_912_896_000.0;

fn series() -> SharedSeries {
    SharedSeries::new(SeriesSettings::default())
}

fn pods(pods: &[Value]) -> PodTable {
    let pods = pods.iter().map(|pod| serde_json::from_value::<Pod>(pod.clone()).unwrap());
    PodTable::build(pods, &Naming::new(CgroupDriver::Systemd, "").unwrap(), &PodTable::default()).0
}

fn nothing_predicted(_: &[Arc<PodEntry>]) -> ProdPrediction {
    let none =
        Predicted { reclaimable: Err(PredictError::NoAllocatable), peak: Err(PredictError::NoAllocatable) };
    ProdPrediction { by_pod: none.clone(), by_priority: none.clone(), reported: none, notice: None }
}

fn status(series: &SharedSeries, table: &PodTable, policy: &ReportPolicy) -> Value {
    let inputs = ReportInputs {
        series,
        pods: table,
        host_apps: &[],
        numa_nodes: &[],
        policy,
        cold_memory: false,
        now: Nanos(1000 * SECOND),
    };
    let at = "2024-01-01T00:00:00Z".parse().unwrap();
    serde_json::to_value(Report::build(&inputs, at, nothing_predicted).status).unwrap()
}

fn node_samples(series: &SharedSeries) {
    for (i, cores) in [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 10.005].into_iter().enumerate() {
        series.append(
            Nanos((820 + 30 * i as u64) * SECOND),
            [
                (SeriesKey::node(Metric::NodeCpuUsage), cores),
                (SeriesKey::node(Metric::NodeMemoryUsage), MEMORY),
                (SeriesKey::node(Metric::SysCpuUsage), 0.5),
                (SeriesKey::node(Metric::SysMemoryUsage), 1_073_741_824.0),
            ],
        );
    }
}

/// Rows 52 and 53 of collection.md 17.
#[test]
fn the_node_and_its_windows() {
    let series = series();
    node_samples(&series);
    let policy = ReportPolicy { windows: [5, 10].map(Duration::from_mins).into(), ..ReportPolicy::default() };
    let status = status(&series, &PodTable::default(), &policy);
    let node = &status["nodeMetric"];
    assert_eq!(node["nodeUsage"], json!({"resources": {"cpu": "3357m", "memory": "8500Mi"}}));
    assert_eq!(node["systemUsage"], json!({"resources": {"cpu": "500m", "memory": "1Gi"}}));
    let figure = |cpu: &str| json!({"resources": {"cpu": cpu, "memory": "8500Mi"}});
    let empty = json!({"avg": {}, "p50": {}, "p90": {}, "p95": {}, "p99": {}});
    assert_eq!(
        node["aggregatedNodeUsages"],
        json!([
            {"duration": "5m0s", "usage": {
                "avg": figure("3357m"), "p50": figure("2"), "p90": figure("3500m"), "p95": figure("3500m"), "p99": figure("3500m"),
            }},
            {"duration": "10m0s", "usage": empty},
        ])
    );
    let absent = ["podsMetric", "hostApplicationMetric", "prodPeakMetric"];
    assert!(absent.iter().all(|field| status.get(field).is_none()), "{status}");
    assert_eq!(status["prodReclaimableMetric"], json!({"resource": {}}));
    assert_eq!(status["updateTime"], "2024-01-01T00:00:00Z");
}

/// Example 10.
#[test]
fn a_window_counts_from_half_its_length_on() {
    for (span, windows) in [(140, [false, false]), (150, [true, false]), (300, [true, true])] {
        let series = series();
        for age in [span, 0] {
            let node = [
                (SeriesKey::node(Metric::NodeCpuUsage), 1.0),
                (SeriesKey::node(Metric::NodeMemoryUsage), 1.0),
            ];
            series.append(Nanos((1000 - age) * SECOND), node);
        }
        let policy =
            ReportPolicy { windows: [5, 10].map(Duration::from_mins).into(), ..ReportPolicy::default() };
        let status = status(&series, &PodTable::default(), &policy);
        let filled =
            [0, 1].map(|i| status["nodeMetric"]["aggregatedNodeUsages"][i]["usage"]["p50"] != json!({}));
        assert_eq!(filled, windows, "{span}");
    }
}

fn pod(namespace: &str, name: &str, class: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name, "uid": name}, "status": {"qosClass": class}})
}

/// Row 54.
#[test]
fn pods_with_both_figures_stand_by_namespace_and_name() {
    let series = series();
    for (name, cores, bytes) in
        [("x", 0.0019, Some(1536.7)), ("z", 1.005, Some(536_870_912.0)), ("y", 1.0, None)]
    {
        let uid: Arc<str> = name.into();
        let memory = bytes.map(|bytes| (SeriesKey::pod(Metric::PodMemoryUsage, &uid), bytes));
        let cpu = (SeriesKey::pod(Metric::PodCpuUsage, &uid), cores);
        series.append(Nanos(990 * SECOND), [cpu].into_iter().chain(memory));
    }
    let table =
        pods(&[pod("b", "x", "BestEffort"), pod("a", "z", "Guaranteed"), pod("a", "y", "Guaranteed")]);
    let status = status(&series, &table, &ReportPolicy::default());
    assert_eq!(
        status["podsMetric"],
        json!([
            {"namespace": "a", "name": "z", "podUsage": {"resources": {"cpu": "1004m", "memory": "512Mi"}},
             "priority": "koord-prod", "qos": "LSR"},
            {"namespace": "b", "name": "x", "podUsage": {"resources": {"cpu": "1m", "memory": "1536"}},
             "priority": "koord-batch", "qos": "BE"},
        ])
    );
}

/// Row 55, without devices, which the agent does not read.
#[test]
fn without_samples_of_the_node_the_report_is_sent_all_the_same() {
    let status = status(&series(), &PodTable::default(), &ReportPolicy::default());
    assert_eq!(status["nodeMetric"]["nodeUsage"], json!({}));
    assert_eq!(status["nodeMetric"]["aggregatedNodeUsages"].as_array().unwrap().len(), 3);
}

#[test]
fn c9_memory_with_page_cache_is_reported_once_it_is_collected() {
    let series = series();
    node_samples(&series);
    let policy = ReportPolicy { memory: MemoryPolicy::WithPageCache, ..ReportPolicy::default() };
    let usage = |series| status(series, &PodTable::default(), &policy)["nodeMetric"]["nodeUsage"].clone();
    assert_eq!(usage(&series), json!({}));
    let cached = (SeriesKey::node(Metric::NodeMemoryUsageWithPageCache), MEMORY * 2.0);
    series.append(Nanos(1000 * SECOND), [cached]);
    assert_eq!(usage(&series), json!({"resources": {"cpu": "3357m", "memory": "17000Mi"}}));
}

#[test]
fn the_prediction_is_for_the_pods_that_are_reported() {
    let series = series();
    let uid: Arc<str> = "z".into();
    let samples =
        [Metric::PodCpuUsage, Metric::PodMemoryUsage].map(|metric| (SeriesKey::pod(metric, &uid), 1.0));
    series.append(Nanos(999 * SECOND), samples);
    let table = pods(&[pod("a", "z", "Guaranteed"), pod("a", "gone", "Guaranteed")]);
    let policy = ReportPolicy::default();
    let inputs = ReportInputs {
        series: &series,
        pods: &table,
        host_apps: &[],
        numa_nodes: &[0],
        policy: &policy,
        cold_memory: false,
        now: Nanos(1000 * SECOND),
    };
    let peak = CpuMemory::of_floats(2.0, 1024.0);
    let report = Report::build(&inputs, Timestamp::UNIX_EPOCH, |pods| {
        let uids: Vec<_> = pods.iter().map(|pod| &*pod.uid).collect();
        assert_eq!(uids, ["z"]);
        let mut prediction = nothing_predicted(pods);
        prediction.reported = Predicted { reclaimable: Ok(CpuMemory::default()), peak: Ok(peak) };
        prediction
    });
    let status = serde_json::to_value(&report.status).unwrap();
    assert_eq!(status["prodPeakMetric"], json!({"resource": {"resources": {"cpu": "2", "memory": "1Ki"}}}));
    assert_eq!(
        status["prodReclaimableMetric"],
        json!({"resource": {"resources": {"cpu": "0", "memory": "0"}}})
    );
}

/// C081: a window without end looks back to the start, and no further.
#[test]
fn c081_a_window_of_all_time_does_not_overflow() {
    let series = series();
    node_samples(&series);
    let policy =
        ReportPolicy { aggregate: Duration::MAX, windows: vec![Duration::MAX], ..ReportPolicy::default() };
    let status = status(&series, &PodTable::default(), &policy);
    assert_eq!(status["nodeMetric"]["nodeUsage"]["resources"]["cpu"], "3357m");
}
