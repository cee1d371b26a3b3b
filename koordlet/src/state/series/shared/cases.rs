//! Listed faults of metric caches, and what this one costs.

use std::hint::black_box;
use std::sync::Arc;

use allocation_counter::measure;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn seconds(seconds: u64) -> Nanos {
    Nanos(seconds * SECOND)
}

fn names(prefix: &str, count: usize) -> Vec<Arc<str>> {
    // As long as the ids of real pods and containers are.
    (0..count).map(|n| Arc::from(format!("{prefix}{n:064x}"))).collect()
}

/// Use of pods and containers: CPU, memory and throttling of each.
fn round<'a>(
    pods: &'a [Arc<str>],
    containers: &'a [Arc<str>],
    at: u64,
) -> impl Iterator<Item = (SeriesKey, f64)> + 'a {
    let value = (at % 97) as f64;
    let of_pods = pods.iter().flat_map(move |uid| {
        [Metric::PodCpuUsage, Metric::PodMemoryUsage, Metric::PodCpuThrottled]
            .map(|metric| (SeriesKey::pod(metric, uid), value))
    });
    let of_containers = containers.iter().flat_map(move |id| {
        [Metric::ContainerCpuUsage, Metric::ContainerMemoryUsage, Metric::ContainerCpuThrottled]
            .map(|metric| (SeriesKey::container(metric, id), value))
    });
    of_pods.chain(of_containers)
}

fn filled(pods: &[Arc<str>], containers: &[Arc<str>], rounds: u64) -> SharedSeries {
    let series = SharedSeries::new(SeriesSettings::default());
    for at in 1..=rounds {
        assert_eq!(series.append(seconds(at), round(pods, containers, at)), 0);
    }
    series
}

#[test]
fn bytes_per_series_fit_the_budget_of_a_thousand_containers_and_are_what_is_allocated() {
    let (pods, containers) = (names("", 100), names("containerd://", 1000));
    let mut series = None;
    let allocated = measure(|| series = Some(filled(&pods, &containers, 320)));
    let stats = series.as_ref().unwrap().stats();
    let real = usize::try_from(allocated.bytes_current).unwrap();
    println!(
        "{} series, {} samples: {} bytes counted, {real} allocated, {} a series",
        stats.series,
        stats.samples,
        stats.bytes,
        real / stats.series
    );
    assert_eq!((stats.series, stats.refused, stats.cut_short), (3300, 0, 0));
    assert_eq!(stats.samples, 3300 * 301, "300 s with both ends");
    assert!(real < 6 << 20, "{real} bytes");
    // What is counted against the bound is what is taken, within a tenth.
    assert!(stats.bytes >= real * 9 / 10 && stats.bytes <= real * 11 / 10, "{stats:?} {real}");
}

#[test]
fn a_round_of_known_series_allocates_nothing() {
    let (pods, containers) = (names("", 20), names("containerd://", 100));
    let series = filled(&pods, &containers, 2);
    // Beyond a full ring, too.
    let rounds = measure(|| {
        for at in 3..1000 {
            assert_eq!(series.append(seconds(at), round(&pods, &containers, at)), 0);
        }
    });
    assert_eq!(rounds.count_total, 0);
    let key = SeriesKey::pod(Metric::PodCpuUsage, &pods[0]);
    let newest = measure(|| assert!(black_box(series.newest(&key, seconds(998), seconds(1000))).is_some()));
    assert_eq!(newest.count_total, 0);
}

#[test]
fn c081_a_window_in_seconds_is_one_and_no_length_overflows() {
    let series = SharedSeries::new(SeriesSettings {
        retention: Duration::from_nanos(u64::MAX),
        ..SeriesSettings::default()
    });
    let (node, pod) =
        (SeriesKey::node(Metric::NodeCpuUsage), SeriesKey::pod(Metric::PodCpuUsage, &"u".into()));
    series.keep("test", Scope::Node, Duration::MAX);
    for at in 1..=4000 {
        series.append(seconds(at), [(node.clone(), 1.0), (pod.clone(), 1.0)]);
    }
    let since = |key: &SeriesKey, window: Duration| {
        let to = seconds(4000);
        series.query_one(key, to - Nanos(u64::try_from(window.as_nanos()).unwrap_or(u64::MAX)), to).count
    };
    assert_eq!(since(&pod, Duration::from_mins(5)), 301);
    assert_eq!(since(&pod, Duration::MAX), 301, "no more of a pod is kept");
    assert_eq!(since(&node, Duration::from_mins(5)), 301);
    assert_eq!(since(&node, Duration::MAX), 4000, "all that there is was asked for");
    assert_eq!(series.query_one(&node, Nanos(0), Nanos(u64::MAX)).count, 4000);
}

#[test]
fn c082_two_intervals_always_hold_a_newest_sample() {
    let series = SharedSeries::new(SeriesSettings::default());
    let key = SeriesKey::node(Metric::NodeCpuUsage);
    let interval = SECOND;
    let mut random = 12345_u64;
    let mut misses = 0;
    for tick in 3..1003_u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let late = (random >> 33) % (interval / 5);
        let due = tick * interval;
        // Asked just before the next sample comes, when the last one is oldest.
        let to = Nanos(due + late - 1);
        let seen = series.newest(&key, to - Nanos(2 * interval), to);
        misses += usize::from(tick > 3 && seen.is_none());
        series.append(Nanos(due + late), [(key.clone(), 1.0)]);
    }
    assert_eq!(misses, 0);
}

#[test]
fn c101_questions_hold_nothing_open() {
    let pods = names("", 10);
    let series = filled(&pods, &[], 100);
    let key = SeriesKey::pod(Metric::PodCpuUsage, &pods[3]);
    let asked = measure(|| {
        for at in 0..100_000 {
            let figures = if at % 10 == 0 {
                series.query(Metric::PodCpuUsage, &[], seconds(80), seconds(100)).unwrap()
            } else {
                series.query_one(&key, seconds(at % 100), seconds(100))
            };
            black_box(figures);
        }
    });
    assert_eq!(asked.bytes_current, 0, "bytes that the questions left behind");
}

#[test]
fn c106_a_pod_without_a_sample_has_its_place_in_an_order() {
    let series = SharedSeries::new(SeriesSettings::default());
    let pods = names("", 3);
    series.append(
        seconds(1),
        [
            (SeriesKey::pod(Metric::PodCpuUsage, &pods[0]), 1.0),
            (SeriesKey::pod(Metric::PodCpuUsage, &pods[2]), 2.0),
        ],
    );
    let used = |uid: &Arc<str>| {
        let figures = series.query_one(&SeriesKey::pod(Metric::PodCpuUsage, uid), Nanos(0), seconds(2));
        figures.last
    };
    let mut order = [0, 1, 2];
    order.sort_by(|a, b| used(&pods[*b]).partial_cmp(&used(&pods[*a])).unwrap());
    assert_eq!(order, [2, 0, 1], "most use first, none last");
}

#[test]
fn c199_room_comes_back_when_pods_go() {
    let all = names("", 100);
    let (few, ids) = (&all[..10], names("containerd://", 100));
    let mut series = None;
    let before = measure(|| series = Some(filled(few, &ids[..10], 10))).bytes_current;
    let series = series.unwrap();
    let bytes = series.stats().bytes;
    let grown = measure(|| {
        for at in 11..400 {
            series.append(seconds(at), round(&all, &ids, at));
        }
        // A source that knows no longer of the pods; those that stay have their samples still.
        series.retire(|key| {
            key.pod_uid().is_none_or(|uid| few.iter().any(|pod| &**pod == uid))
                && key.container_id().is_none_or(|id| ids[..10].iter().any(|pod| &**pod == id))
        });
    });
    assert_eq!(series.stats().series, 60);
    assert_eq!(series.stats().bytes, bytes);
    assert!(grown.bytes_current <= before / 5, "{} of {before} bytes more", grown.bytes_current);
    let kept = series.query_one(&SeriesKey::pod(Metric::PodCpuUsage, &few[0]), seconds(380), seconds(399));
    assert_eq!(kept.count, 20);
    series.expire(seconds(398 + 301));
    assert_eq!(series.stats().series, 60, "the last sample is in the window yet");
    series.expire(seconds(399 + 301));
    assert_eq!((series.stats().series, series.stats().bytes), (0, 0));
}
