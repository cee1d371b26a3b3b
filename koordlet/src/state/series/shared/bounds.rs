//! Windows, pace, precision and bytes: what is kept, how exactly, and what happens at the bound.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::state::series::class::Pace;
use crate::state::series::key::{BeAllocation, CpiResource, MbType, PsiDegree, PsiResource};

fn seconds(seconds: u64) -> Nanos {
    Nanos(seconds * 1_000_000_000)
}

fn all(series: &SharedSeries, metric: Metric) -> Aggregates {
    series.query(metric, &[], Nanos(0), Nanos(u64::MAX)).unwrap()
}

fn memory(uid: usize) -> SeriesKey {
    SeriesKey::pod(Metric::PodMemoryUsage, &Arc::from(uid.to_string()))
}

/// A key of every kind.
fn keys() -> impl Iterator<Item = SeriesKey> {
    let (pod, id): (Arc<str>, Arc<str>) = ("u".into(), "containerd://c".into());
    Metric::ALL.iter().map(move |metric| match metric {
        Metric::NodeBe => SeriesKey::be(BeAllocation::Usage),
        Metric::ContainerCpi => SeriesKey::cpi(&pod, &id, CpiResource::Cycle),
        Metric::ContainerPsi => SeriesKey::container_psi(&pod, &id, PsiResource::Cpu, PsiDegree::Some),
        Metric::PodPsi => SeriesKey::pod_psi(&pod, PsiResource::Cpu, PsiDegree::Some),
        Metric::ContainerPsiCpuFullSupported => SeriesKey::container_psi_full_supported(&pod, &id),
        Metric::ResctrlLlc => SeriesKey::llc("LS", 0),
        Metric::ResctrlMb => SeriesKey::mb("LS", 0, MbType::Local),
        _ => match metric.properties() {
            [] => SeriesKey::node(*metric),
            [Property::NumaNodeId] => SeriesKey::numa(*metric, 0),
            [Property::PodUid] => SeriesKey::pod(*metric, &pod),
            [Property::ContainerId] => SeriesKey::container(*metric, &id),
            [Property::HostAppName] => SeriesKey::host_app(*metric, &pod),
            other => panic!("{metric} needs {other:?}"),
        },
    })
}

#[test]
fn every_kind_keeps_its_window_whatever_its_collectors_pace() {
    let settings = SeriesSettings::default();
    for key in keys() {
        let metric = key.metric();
        let (interval, least) = match (metric.scope(), metric.pace()) {
            (Scope::Node, Pace::Usage) => (1, 1801),
            (Scope::Node, Pace::ColdMemory) => (5, 361),
            (Scope::Node, _) => (10, 181),
            (Scope::Workload, Pace::Usage) => (1, 301),
            (Scope::Workload, Pace::ColdMemory) => (5, 61),
            (Scope::Workload, Pace::Pressure) => (10, 31),
            (Scope::Workload, _) => (60, 6),
        };
        let series = SharedSeries::new(settings.clone());
        for round in 1..=2 * least {
            assert_eq!(series.append(seconds(round * interval), [(key.clone(), 1.0)]), 0, "{key}");
        }
        assert_eq!(all(&series, metric).count as u64, least, "{key}");
        for property in metric.properties() {
            let text = if *property == Property::PsiPrecision { "300" } else { "other" };
            let other = series.query(metric, &[(*property, text)], Nanos(0), Nanos(u64::MAX)).unwrap();
            assert_eq!(other.count, 0, "{key} {property:?}");
        }
    }
}

#[test]
fn a_longer_window_is_kept_for_who_asks_and_as_long_as_one_asks() {
    let series = SharedSeries::new(SeriesSettings {
        retention: Duration::from_secs(700),
        ..SeriesSettings::default()
    });
    let mut at = 0;
    let mut count_after = |rounds: u64| {
        for _ in 0..rounds {
            at += 1;
            series.append(seconds(at), [(memory(0), 1.0)]);
        }
        all(&series, Metric::PodMemoryUsage).count
    };
    assert_eq!(count_after(1000), 301);
    series.keep("report", Scope::Workload, Duration::from_mins(10));
    series.keep("evict", Scope::Workload, Duration::from_secs(400));
    assert_eq!(count_after(0), 301, "what is gone does not come back");
    assert_eq!(count_after(1000), 601);
    series.keep("report", Scope::Workload, Duration::from_mins(150));
    assert_eq!(count_after(1000), 701, "the retention");
    series.keep("report", Scope::Workload, Duration::ZERO);
    assert_eq!(count_after(0), 401, "the other one asks still");
    series.keep("evict", Scope::Workload, Duration::ZERO);
    assert_eq!(count_after(1000), 301);
    assert_eq!(series.stats().cut_short, 0);
}

#[test]
fn rounds_that_come_faster_than_planned_lengthen_the_ring_up_to_four_times() {
    let series = SharedSeries::new(SeriesSettings::default());
    let append = |period: u64, from: u64, rounds: u64| {
        for round in 0..rounds {
            assert_eq!(series.append(Nanos(from + round * period), [(memory(0), 1.0)]), 0);
        }
        all(&series, Metric::PodMemoryUsage)
    };
    let figures = append(300_000_000, 1, 3000);
    assert_eq!((figures.count, series.stats().cut_short), (1001, 0));
    let figures = append(1_000_000, 1_000_000_000_000, 3000);
    assert_eq!(figures.count, 4 * 303, "bounded");
    assert!(series.stats().cut_short > 0);
}

#[test]
fn without_room_idle_series_go_first_and_then_new_ones_are_refused() {
    let series = SharedSeries::new(SeriesSettings { max_bytes: 40_000, ..SeriesSettings::default() });
    let mut room = 0;
    while series.append(seconds(1), [(memory(room), 1.0)]) == 0 {
        room += 1;
    }
    assert!(room > 10, "{room}");
    let refusal = series.last_refusal().unwrap().to_string();
    assert!(
        refusal.starts_with("no room for pod_memory_usage{pod_uid=") && refusal.contains("40000"),
        "{refusal}"
    );
    // Half of them have samples in the next rounds.
    for at in 2..=10 {
        let busy = (0..room / 2).map(|uid| (memory(uid), 1.0));
        assert_eq!(series.append(seconds(at), busy), 0);
        assert_eq!(series.append(seconds(at), [(memory(1000), 1.0)]), 1, "ten rounds make idle");
    }
    let busy = (0..room / 2).map(|uid| (memory(uid), 1.0));
    series.append(seconds(11), busy);
    let new = (1000..1000 + room).map(|uid| (memory(uid), 1.0));
    assert_eq!(series.append(seconds(11), new), room / 2, "the idle half is replaced, the rest refused");
    for uid in 0..room / 2 {
        assert_eq!(series.query_one(&memory(uid), seconds(1), seconds(11)).count, 11);
    }
    let stats = series.stats();
    assert_eq!((stats.series, stats.cut_short), (room, 0));
    assert!(stats.bytes <= 40_000);
}

#[test]
fn a_wish_for_more_than_there_is_room_for_leaves_room_for_new_series() {
    let max_bytes = 1 << 20;
    let series = SharedSeries::new(SeriesSettings { max_bytes, ..SeriesSettings::default() });
    series.append(seconds(1), (0..50).map(|uid| (memory(uid), 1.0)));
    series.keep("test", Scope::Workload, Duration::from_hours(12));
    for at in 2..5000 {
        assert_eq!(series.append(seconds(at), (0..50).map(|uid| (memory(uid), 1.0))), 0);
    }
    let stats = series.stats();
    assert!(stats.bytes <= max_bytes / 2 && stats.cut_short > 0, "{stats:?}");
    assert!(series.query_one(&memory(0), Nanos(0), seconds(5000)).count > 2000);
    assert_eq!(series.append(seconds(5000), (50..90).map(|uid| (memory(uid), 1.0))), 0);
    // A kind that comes later is kept as well.
    let pods = (0..10).map(|uid| SeriesKey::pod(Metric::PodCpuUsage, &Arc::from(uid.to_string())));
    assert_eq!(series.append(seconds(5000), pods.map(|key| (key, 1.0))), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn four_bytes_keep_a_value_within_a_part_in_2_to_the_24th(value in -1e15..1e15_f64) {
        let series = SharedSeries::new(SeriesSettings::default());
        for key in keys() {
            prop_assert_eq!(series.append(seconds(1), [(key.clone(), value)]), 0);
            let (_, kept) = series.newest(&key, seconds(1), seconds(1)).unwrap();
            let bound = match key.metric().scope() {
                Scope::Node => 0.0,
                // And what two roundings of eight bytes add.
                Scope::Workload => value.abs() * (2_f64.powi(-24) + 2_f64.powi(-51)),
            };
            prop_assert!((kept - value).abs() <= bound, "{key}: {value} is kept as {kept}");
        }
    }

    #[test]
    fn pages_and_thousandths_of_cores_come_back_as_they_were(pages in 0_u32..1 << 24, milli in 0_u32..1 << 24) {
        let series = SharedSeries::new(SeriesSettings::default());
        let cpu = SeriesKey::pod(Metric::PodCpuUsage, &"u".into());
        let (bytes, cores) = (f64::from(pages) * 4096.0, f64::from(milli) / 1000.0);
        series.append(seconds(1), [(memory(0), bytes), (cpu.clone(), cores)]);
        prop_assert_eq!(series.newest(&memory(0), seconds(1), seconds(1)), Some((seconds(1), bytes)));
        prop_assert_eq!(series.newest(&cpu, seconds(1), seconds(1)), Some((seconds(1), cores)));
    }
}
