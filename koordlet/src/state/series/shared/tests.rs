//! The specification's examples and the listed cases, through the door.

use std::sync::Arc;

use super::*;
use crate::state::series::key::{BeAllocation, CpiResource, MbType, PsiDegree, PsiResource};

fn series() -> SharedSeries {
    SharedSeries::new(SeriesSettings::default())
}

fn seconds(seconds: u64) -> Nanos {
    Nanos(seconds * 1_000_000_000)
}

fn cpu(uid: &str) -> SeriesKey {
    SeriesKey::pod(Metric::PodCpuUsage, &Arc::from(uid))
}

fn node() -> SeriesKey {
    SeriesKey::node(Metric::NodeCpuUsage)
}

/// The figures of these values, a second apart, from 1 s on.
fn of(key: &SeriesKey, values: impl IntoIterator<Item = f64>) -> Aggregates {
    let series = series();
    for (at, value) in (1..).zip(values) {
        assert_eq!(series.append(seconds(at), [(key.clone(), value)]), 0);
    }
    series.query_one(key, Nanos(0), seconds(1_000))
}

type Row = (f64, [f64; 4], f64, usize);

fn row(figures: &Aggregates) -> Row {
    let percentiles = [figures.p50, figures.p90, figures.p95, figures.p99].map(Option::unwrap);
    ((figures.avg.unwrap() * 1e9).round() / 1e9, percentiles, figures.last.unwrap(), figures.count)
}

#[test]
fn examples_of_the_specification() {
    // Sections 16.9 and 17, rows 37 and 38: the node's series and those kept in four bytes agree to the digit.
    let rows: [(Vec<f64>, Row); 5] = [
        ((1..=10).map(f64::from).collect(), (5.5, [5.0, 9.0, 9.0, 9.0], 10.0, 10)),
        (vec![2.5], (2.5, [2.5; 4], 2.5, 1)),
        (vec![9.0, 1.0, 2.0, 8.0, 7.0, 3.0, 6.0, 5.0, 4.0], (5.0, [4.0, 8.0, 8.0, 8.0], 4.0, 9)),
        ((1..=60).map(f64::from).collect(), (30.5, [30.0, 54.0, 57.0, 59.0], 60.0, 60)),
        ((1..=300).map(|n| f64::from(n) / 100.0).collect(), (1.505, [1.5, 2.7, 2.85, 2.97], 3.0, 300)),
    ];
    for (values, want) in rows {
        for key in [node(), cpu("u"), SeriesKey::pod(Metric::PodMemoryUsage, &Arc::from("u"))] {
            if key.metric() == Metric::PodMemoryUsage && values.iter().any(|value| value.fract() != 0.0) {
                continue; // bytes are whole
            }
            assert_eq!(row(&of(&key, values.iter().copied())), want, "{key}");
        }
    }
}

#[test]
fn properties_that_are_left_out_match_all_series_whose_samples_are_one_set() {
    // Section 17, row 39.
    let series = series();
    assert_eq!(series.append(seconds(1), [(cpu("u1"), 1.0)]), 0);
    assert_eq!(series.append(seconds(3), [(cpu("u1"), 3.0)]), 0);
    assert_eq!(series.append(seconds(2), [(cpu("u2"), 10.0)]), 0);
    let all = series.query(Metric::PodCpuUsage, &[], Nanos(0), seconds(9)).unwrap();
    assert_eq!(row(&all), (4.666_666_667, [1.0, 3.0, 3.0, 3.0], 3.0, 3));
    let one = series.query(Metric::PodCpuUsage, &[(Property::PodUid, "u2")], Nanos(0), seconds(9)).unwrap();
    assert_eq!((one.count, one.last, one.last_time), (1, Some(10.0), Some(seconds(2))));
    let error = series.query(Metric::PodCpuUsage, &[(Property::Qos, "BE")], Nanos(0), seconds(9));
    assert_eq!(error.unwrap_err().to_string(), "pod_cpu_usage has no property qos: it has pod_uid");
}

#[test]
fn nothing_has_no_figures_and_the_older_series_wins_a_tie() {
    // Section 17, row 40.
    let series = series();
    let all = || series.query(Metric::PodCpuUsage, &[], Nanos(0), seconds(9)).unwrap();
    assert_eq!(all(), Aggregates::default());
    series.append(seconds(5), [(cpu("u1"), 7.0), (cpu("u2"), 9.0)]);
    assert_eq!(all().last, Some(7.0));
}

#[test]
fn both_ends_of_a_window_belong_to_it_and_the_span_is_that_of_the_samples() {
    // Section 16.10: whether a window is filled is judged by the span.
    let series = series();
    for at in 10..=160 {
        series.append(seconds(at), [(node(), at as f64)]);
    }
    let figures = |from, to| series.query(Metric::NodeCpuUsage, &[], seconds(from), seconds(to)).unwrap();
    assert_eq!(figures(0, 150).duration(), seconds(140));
    assert_eq!(figures(0, 160).duration(), seconds(150));
    assert_eq!((figures(20, 20).count, figures(20, 20).duration()), (1, Nanos(0)));
    assert_eq!((figures(20, 22).count, figures(22, 20).count), (3, 0));
    assert_eq!(series.newest(&node(), seconds(20), seconds(30)), Some((seconds(30), 30.0)));
    assert_eq!(series.newest(&node(), seconds(161), seconds(170)), None);
}

#[test]
fn every_kind_has_a_key_that_fits_and_others_are_refused() {
    let (pod, id): (Arc<str>, Arc<str>) = ("u".into(), "containerd://c".into());
    let keys = [
        SeriesKey::numa(Metric::NodeNumaCpuUsage, 1),
        SeriesKey::be(BeAllocation::RealLimit),
        SeriesKey::host_app(Metric::HostAppCpuUsage, &"app".into()),
        SeriesKey::container(Metric::ContainerCpuUsage, &id),
        SeriesKey::cpi(&pod, &id, CpiResource::Cycle),
        SeriesKey::pod_psi(&pod, PsiResource::Memory, PsiDegree::Full),
        SeriesKey::container_psi(&pod, &id, PsiResource::Io, PsiDegree::Some),
        SeriesKey::pod_psi_full_supported(&pod),
        SeriesKey::container_psi_full_supported(&pod, &id),
        SeriesKey::llc("BE", 0),
        SeriesKey::mb("LS", 1, MbType::Total),
    ];
    let series = series();
    assert_eq!(series.append(seconds(1), keys.map(|key| (key, 1.0))), 0);
    let psi = [(Property::PsiResource, "mem"), (Property::PsiDegree, "full"), (Property::PsiPrecision, "10")];
    assert_eq!(series.query(Metric::PodPsi, &psi, Nanos(0), seconds(2)).unwrap().count, 1);
    let mb = [(Property::CacheId, "1"), (Property::MbType, "mbm_total_bytes"), (Property::Qos, "LS")];
    assert_eq!(series.query(Metric::ResctrlMb, &mb, Nanos(0), seconds(2)).unwrap().count, 1);
    let be = [(Property::BeResource, "cpu"), (Property::BeAllocation, "real-limit")];
    assert_eq!(series.query(Metric::NodeBe, &be, Nanos(0), seconds(2)).unwrap().count, 1);

    assert_eq!(series.append(seconds(1), [(SeriesKey::node(Metric::PodCpuUsage), 1.0)]), 1);
    assert_eq!(
        series.last_refusal().unwrap().to_string(),
        "pod_cpu_usage is no series of pod_cpu_usage: it has the properties pod_uid"
    );
}

#[test]
fn a_bad_sample_is_refused_alone() {
    // Defect 26; and 5 where a rate over no time was stored.
    let series = series();
    let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300];
    let batch = bad.map(|value| (cpu("bad"), value)).into_iter().chain([(cpu("good"), 1.0)]);
    assert_eq!(series.append(seconds(5), batch), 4);
    assert_eq!(series.append(seconds(5), [(cpu("good"), 1.0)]), 0, "the same again");
    assert_eq!(series.append(seconds(5), [(cpu("good"), 2.0)]), 1, "another value of the same time");
    assert_eq!(series.append(seconds(4), [(cpu("good"), 1.0)]), 1, "older than the newest");
    assert_eq!(series.append(seconds(4), [(cpu("other"), 1.0)]), 0, "but not in another series");
    let stats = series.stats();
    assert_eq!((stats.series, stats.samples, stats.refused), (2, 2, 6));
}
