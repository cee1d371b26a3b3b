//! Set `nodemetric`: the status of a NodeMetric (collection.md 9).
//!
//! Figures of node, NUMA nodes and system are compared exactly; those of pods and host applications are kept in four
//! bytes, so they may be off by a milli-core or by a 2^-24th.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use koordlet::api::node_slo::HostApplication;
use koordlet::api::quantity::Quantity;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::state::node_metric::build::{Report, ReportInputs};
use koordlet::state::node_metric::policy::{MemoryPolicy, ReportPolicy};
use koordlet::state::pods::PodTable;
use koordlet::state::predict::prod::predict;
use koordlet::state::predict::settings::ProdSettings;
use koordlet::state::series::key::SeriesKey;
use koordlet::state::series::metric::{Metric, Property};
use koordlet::state::series::settings::SeriesSettings;
use koordlet::state::series::shared::SharedSeries;
use koordlet::units::Nanos;
use serde_json::{Value, json};

use crate::set::{Row, Verdict, check};

/// The end of all windows, in seconds.
const NOW: u64 = 100_000;

#[test]
fn vector_nodemetric() {
    check("nodemetric", &[("node_metric", 19, node_metric)]);
}

fn node_metric(row: &Row) -> Verdict {
    let policy = policy(row);
    let got = report(row, &policy, &[]);
    if let Some(what) = row.out.as_ref().and_then(|out| difference(out, &got, "")) {
        return Verdict::Wrong(what);
    }
    if row.defect.is_some() && !collects_when_asked(row, &policy) {
        return Verdict::Wrong("memory with page cache is not reported though it is collected".into());
    }
    Verdict::Right
}

/// C9: the policy asks for the samples; once they are there, the node's use is reported as under any other policy.
fn collects_when_asked(row: &Row, policy: &ReportPolicy) -> bool {
    let usual = ReportPolicy { memory: MemoryPolicy::WithoutPageCache, ..policy.clone() };
    let collected = report(row, policy, &[("node_memory_usage", "node_memory_usage_with_page_cache")]);
    policy.wants_page_cache() && collected["nodeMetric"] == report(row, &usual, &[])["nodeMetric"]
}

fn policy(row: &Row) -> ReportPolicy {
    let (policy, problems) =
        ReportPolicy::of_spec(&serde_json::from_value(row.input["nodeMetricSpec"].clone()).unwrap());
    assert!(problems.is_empty(), "{problems:?}");
    policy
}

/// The report in the vectors' form. Series of the first name of each pair in `also` are there by the second, too.
fn report(row: &Row, policy: &ReportPolicy, also: &[(&str, &str)]) -> Value {
    let series = SharedSeries::new(SeriesSettings::default());
    policy.keep_in(&series);
    fill(&series, row, also);
    let pods = row.input["pods"].as_array().unwrap();
    let pods = pods.iter().map(|pod| serde_json::from_value::<koordlet::api::pod::Pod>(pod.clone()).unwrap());
    let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
    let (pods, problems) = PodTable::build(pods, &naming, &PodTable::default());
    assert!(problems.is_empty(), "{problems:?}");
    let host_apps: Vec<HostApplication> =
        serde_json::from_value(row.input["hostApplications"].clone()).unwrap();
    let numa_nodes: Vec<u32> = (0..u32::try_from(row.int("numaNodes").unwrap()).unwrap()).collect();
    let inputs = ReportInputs {
        series: &series,
        pods: &pods,
        host_apps: &host_apps,
        numa_nodes: &numa_nodes,
        policy,
        cold_memory: false,
        now: Nanos(NOW * 1_000_000_000),
    };
    let at = Timestamp::UNIX_EPOCH;
    let status =
        Report::build(&inputs, at, |pods| predict(pods, None, &ProdSettings::default(), at, |_| None)).status;
    json!({
        "nodeMetric": status.node_metric,
        "podsMetric": status.pods_metric,
        "hostApplicationMetric": status.host_application_metric,
        "reportIntervalSeconds": policy.interval.as_secs(),
        "windowSeconds": policy.aggregate.as_secs(),
    })
}

/// Appends in the order of time, as an agent does.
fn fill(series: &SharedSeries, row: &Row, also: &[(&str, &str)]) {
    let mut rounds: BTreeMap<u64, Vec<(SeriesKey, f64)>> = BTreeMap::new();
    for (name, samples) in row.input["series"].as_object().unwrap() {
        let twins = also.iter().filter(|(of, _)| of == name).map(|(_, twin)| *twin);
        for key in [name.as_str()].into_iter().chain(twins).map(key) {
            for sample in samples.as_array().unwrap() {
                let at = NOW - sample[0].as_u64().unwrap();
                rounds.entry(at).or_default().push((key.clone(), sample[1].as_f64().unwrap()));
            }
        }
    }
    for (at, samples) in rounds {
        assert_eq!(series.append(Nanos(at * 1_000_000_000), samples), 0, "{:?}", series.last_refusal());
    }
}

/// `kind` or `kind/id`.
fn key(name: &str) -> SeriesKey {
    let (kind, id) = name.split_once('/').unwrap_or((name, ""));
    let metric = *Metric::ALL.iter().find(|metric| metric.name() == kind).unwrap();
    let text: Arc<str> = id.into();
    match metric.properties() {
        [] => SeriesKey::node(metric),
        [Property::NumaNodeId] => SeriesKey::numa(metric, id.parse().unwrap()),
        [Property::PodUid] => SeriesKey::pod(metric, &text),
        [Property::HostAppName] => SeriesKey::host_app(metric, &text),
        other => panic!("{name} has {other:?}"),
    }
}

/// Where `got` is another thing than `want`.
fn difference(want: &Value, got: &Value, path: &str) -> Option<String> {
    let wrong = || Some(format!("{path}: gives {got}, should give {want}"));
    match (want, got) {
        (Value::Object(a), Value::Object(b)) if a.keys().eq(b.keys()) => {
            a.iter().find_map(|(name, want)| difference(want, &b[name], &format!("{path}/{name}")))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let pairs = a.iter().zip(b).enumerate();
            pairs.into_iter().find_map(|(i, (want, got))| difference(want, got, &format!("{path}/{i}")))
        }
        (Value::String(a), Value::String(b)) if a != b && !path.starts_with("/nodeMetric") => {
            if path.ends_with("/resources/cpu") && close(a, b, 1e-3)
                || path.ends_with("/resources/memory") && close(a, b, 1.0)
            {
                None
            } else {
                wrong()
            }
        }
        _ if want == got => None,
        _ => wrong(),
    }
}

/// Within `unit`, or within what four bytes keep.
fn close(a: &str, b: &str, unit: f64) -> bool {
    let number = |text: &str| text.parse::<Quantity>().unwrap().milli() as f64 / 1000.0;
    (number(a) - number(b)).abs() <= unit.max(number(a) * 2.0_f64.powi(-24)) + 1e-9
}
