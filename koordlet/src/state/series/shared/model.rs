//! The series against a naive model: plain lists of points, for any order of appends, questions and clearing.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::state::series::settings::nanos;

const METRICS: [Metric; 3] = [Metric::PodCpuUsage, Metric::NodeNumaMemoryUsage, Metric::PodMemoryUsage];
const MEMBERS: u32 = 4;

type Point = (Nanos, f64);
/// Times lie on a grid of half an interval: more rounds than planned, fewer than a ring is meant to grow to.
const GRID: u64 = 50_000_000_000;

/// So few rounds to a window that a run sees many windows pass.
fn settings() -> SeriesSettings {
    SeriesSettings {
        usage: Duration::from_secs(100),
        retention: Duration::from_mins(15),
        ..SeriesSettings::default()
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Time forth or back from the newest so far on the grid, metric, members with values in thousandths.
    Append(i64, usize, Vec<(u32, i32)>),
    /// Metric, one member or all, window on the grid.
    Query(usize, Option<u32>, u64, u64),
    Retire(u32),
    Expire,
    Keep(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let members = vec((0..MEMBERS, -5_000_000..5_000_000), 1..5);
    let step = prop_oneof![
        6 => (-14_i64..6, 0..METRICS.len(), members.clone()).prop_map(|(t, m, s)| Step::Append(t, m, s)),
        6 => (1_i64..3, 0..METRICS.len(), members).prop_map(|(t, m, s)| Step::Append(t, m, s)),
        5 => (0..METRICS.len(), proptest::option::of(0..MEMBERS), 0_u64..40, 0_u64..40)
            .prop_map(|(m, who, from, to)| Step::Query(m, who, from, to)),
        1 => (0..MEMBERS).prop_map(Step::Retire),
        1 => Just(Step::Expire),
        1 => (0_u64..1200).prop_map(Step::Keep),
    ];
    vec(step, 1..120)
}

fn key(metric: Metric, member: u32) -> SeriesKey {
    match metric {
        Metric::NodeNumaMemoryUsage => SeriesKey::numa(metric, member),
        _ => SeriesKey::pod(metric, &Arc::from(member.to_string())),
    }
}

fn property(metric: Metric) -> Property {
    *metric.properties().first().unwrap()
}

impl OneMetric {
    fn forget(&mut self, window: Nanos) {
        let since = self.newest.unwrap_or_default() - window;
        for (_, _, points) in &mut self.members {
            points.retain(|(time, _)| *time >= since);
        }
    }
}

#[derive(Debug, Default)]
struct Model {
    metrics: BTreeMap<Metric, OneMetric>,
    asked: Duration,
}

#[derive(Debug, Default)]
struct OneMetric {
    /// In order of birth; the times of each ascend.
    members: Vec<(u32, Nanos, Vec<Point>)>,
    newest: Option<Nanos>,
}

impl Model {
    /// A workload's window is five intervals here, or what is asked for; a node's the retention.
    fn window(&self, metric: Metric) -> Nanos {
        let seconds = match metric.scope() {
            Scope::Node => 900,
            Scope::Workload => self.asked.as_secs().clamp(500, 900),
        };
        nanos(Duration::from_secs(seconds))
    }

    fn keep(&mut self, asked: Duration) {
        self.asked = asked;
        for metric in METRICS {
            let window = self.window(metric);
            if let Some(table) = self.metrics.get_mut(&metric) {
                table.forget(window);
            }
        }
    }

    fn append(&mut self, at: Nanos, metric: Metric, member: u32, value: f64) -> bool {
        let window = self.window(metric);
        let table = self.metrics.entry(metric).or_default();
        let known = table.members.iter().position(|(who, ..)| *who == member);
        if let Some((_, newest, points)) = known.and_then(|known| table.members.get(known)) {
            if at < *newest {
                return false;
            }
            if at == *newest {
                return points.last() == Some(&(at, value));
            }
        }
        let newest = table.newest.map_or(at, |newest| newest.max(at));
        if at < newest - window {
            return false;
        }
        table.newest = Some(newest);
        table.forget(window);
        let known = known.unwrap_or_else(|| {
            table.members.push((member, at, Vec::new()));
            table.members.len() - 1
        });
        let (_, last, points) = table.members.get_mut(known).unwrap();
        *last = at;
        points.push((at, value));
        true
    }

    fn retain(&mut self, keep: impl Fn(Metric, u32, Nanos) -> bool) {
        for (metric, table) in &mut self.metrics {
            table.members.retain(|(member, newest, _)| keep(*metric, *member, *newest));
            if table.members.is_empty() {
                table.newest = None;
            }
        }
    }

    fn figures(&self, metric: Metric, member: Option<u32>, from: Nanos, to: Nanos) -> Aggregates {
        let members = self.metrics.get(&metric).map(|table| &table.members).into_iter().flatten();
        let wanted = members.filter(|(who, ..)| member.is_none_or(|member| member == *who));
        let points: Vec<(Nanos, f64)> = wanted
            .flat_map(|(_, _, points)| points)
            .filter(|(at, _)| (from..=to).contains(at))
            .copied()
            .collect();
        let count = points.len();
        let mut sorted: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
        sorted.sort_by(f64::total_cmp);
        let percentile = |percent: usize| sorted.get((count * percent / 100).max(1) - 1).copied();
        let last_time = points.iter().map(|(at, _)| *at).max();
        Aggregates {
            count,
            avg: (count > 0).then(|| points.iter().map(|(_, value)| value).sum::<f64>() / count as f64),
            p50: percentile(50),
            p90: percentile(90),
            p95: percentile(95),
            p99: percentile(99),
            last: points.iter().find(|(at, _)| Some(*at) == last_time).map(|(_, value)| *value),
            first_time: points.iter().map(|(at, _)| *at).min(),
            last_time,
        }
    }

    fn counts(&self) -> (usize, usize) {
        let members = || self.metrics.values().flat_map(|table| &table.members);
        (members().count(), members().map(|(_, _, points)| points.len()).sum())
    }
}

/// Values that every precision keeps as they are.
fn value(metric: Metric, thousandths: i32) -> f64 {
    if metric == Metric::PodMemoryUsage { f64::from(thousandths) } else { f64::from(thousandths) / 1000.0 }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn series_answer_as_plain_lists_do(steps in steps()) {
        let series = SharedSeries::new(settings());
        let mut model = Model::default();
        let mut newest = 40_i64;
        let mut placed: BTreeMap<String, PlacedSeries> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Append(forth, metric, samples) => {
                    let metric = METRICS[metric];
                    let on_grid = (newest + forth).max(0);
                    newest = newest.max(on_grid);
                    let at = Nanos(on_grid.unsigned_abs() * GRID);
                    let refused = samples
                        .iter()
                        .filter(|(member, v)| !model.append(at, metric, *member, value(metric, *v)))
                        .count();
                    let samples = samples.iter().map(|(member, v)| (key(metric, *member), value(metric, *v)));
                    let found = if forth % 2 == 0 {
                        series.append(at, samples)
                    } else {
                        let one = |(key, value): (SeriesKey, f64)| {
                            let series_of = || PlacedSeries::new(key.clone());
                            let placed = placed.entry(key.to_string()).or_insert_with(series_of);
                            series.append_placed(at, [(placed, value)])
                        };
                        samples.map(one).sum()
                    };
                    prop_assert_eq!(found, refused);
                }
                Step::Query(metric, member, from, length) => {
                    let metric = METRICS[metric];
                    let from = Nanos((newest.unsigned_abs() + 5).saturating_sub(from) * GRID);
                    let to = Nanos(from.0 + length * GRID);
                    let want = model.figures(metric, member, from, to);
                    let text = member.map(|member| member.to_string());
                    let matching: Vec<_> = text.as_deref().map(|text| (property(metric), text)).into_iter().collect();
                    prop_assert_eq!(series.query(metric, &matching, from, to).unwrap(), want);
                    if let Some(member) = member {
                        let key = key(metric, member);
                        prop_assert_eq!(series.query_one(&key, from, to), want);
                        prop_assert_eq!(series.newest(&key, from, to), want.last_time.zip(want.last));
                    }
                }
                Step::Retire(gone) => {
                    series.retire(|key| key.pod_uid() != Some(&*gone.to_string()));
                    model.retain(|metric, member, _| metric == Metric::NodeNumaMemoryUsage || member != gone);
                }
                Step::Expire => {
                    let now = Nanos(newest.unsigned_abs() * GRID);
                    series.expire(now);
                    let windows = METRICS.map(|metric| (metric, model.window(metric)));
                    let since = BTreeMap::from(windows.map(|(metric, window)| (metric, now - window)));
                    model.retain(|metric, _, newest| newest >= since[&metric]);
                }
                Step::Keep(seconds) => {
                    let window = Duration::from_secs(seconds);
                    model.keep(window);
                    series.keep("test", Scope::Workload, window);
                }
            }
            let stats = series.stats();
            prop_assert_eq!((stats.series, stats.samples), model.counts());
            prop_assert_eq!(stats.cut_short, 0);
        }
        series.retire(|_| false);
        let SeriesStats { series, samples, bytes, .. } = series.stats();
        prop_assert_eq!((series, samples, bytes), (0, 0, 0));
    }

    #[test]
    fn bytes_stay_within_their_bound_and_answers_are_never_invented(
        most in 500_usize..60_000,
        rounds in vec((1_u64..3_000_000_000, vec((0_u32..40, 0..1000_i32), 1..30)), 1..80),
        keep in 0_u64..100_000,
    ) {
        let series = SharedSeries::new(SeriesSettings { max_bytes: most, ..SeriesSettings::default() });
        series.keep("test", Scope::Workload, Duration::from_secs(keep));
        let mut at = Nanos(1);
        let (mut taken, mut refused) = (0, 0);
        for (step, samples) in rounds {
            at = at + Nanos(step);
            let samples: BTreeMap<u32, i32> = samples.into_iter().collect();
            let batch = samples.iter().map(|(member, v)| (key(Metric::PodMemoryUsage, *member), f64::from(*v)));
            let bad = series.append(at, batch);
            refused += bad as u64;
            taken += samples.len() - bad;
            let stats = series.stats();
            prop_assert!(stats.bytes <= most, "{stats:?}");
            prop_assert_eq!(stats.refused, refused);
            let all = series.query(Metric::PodMemoryUsage, &[], Nanos(0), at).unwrap();
            prop_assert_eq!(all.count, stats.samples);
            prop_assert!(all.count <= taken);
            let now = series.query(Metric::PodMemoryUsage, &[], at, at).unwrap();
            prop_assert_eq!(now.count, samples.len() - bad);
        }
    }
}
