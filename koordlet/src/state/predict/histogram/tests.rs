use proptest::prelude::*;

use super::*;
use crate::state::cpu_memory::CpuMemory;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn later(from: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_second(from.as_second() + seconds).unwrap()
}

fn start() -> Timestamp {
    time("2024-01-01T00:00:00Z")
}

const HOUR: i64 = 3600;

fn cpu() -> Histogram {
    Histogram::new(Buckets::cpu(), Duration::from_hours(12))
}

fn milli(histogram: &Histogram, q: f64) -> i64 {
    CpuMemory::of_floats(histogram.percentile(q), 0.0).cpu.0
}

fn shares(histogram: &Histogram) -> [i64; 5] {
    [0.6, 0.9, 0.95, 0.98, 1.0].map(|q| milli(histogram, q))
}

/// Row 69 of collection.md 17, and example 18.
#[test]
fn one_sample_is_the_end_of_its_bucket() {
    let (buckets, memory) = (Buckets::cpu(), Buckets::memory());
    assert_eq!((buckets.count(), memory.count()), (158, 205));
    for (cores, bucket, end) in [
        (0.0, 0, 25),
        (0.025, 1, 51),
        (0.3, 9, 314),
        (0.5, 14, 539),
        (1.0, 22, 1035),
        (2.0, 32, 2001),
        (16.0, 71, 16272),
        (5000.0, 157, 1_060_437),
    ] {
        let mut histogram = cpu();
        histogram.add(cores, start());
        assert_eq!((buckets.of(cores), shares(&histogram)), (bucket, [end; 5]), "{cores}");
    }
    let mib = 1_048_576.0;
    for (bytes, bucket, end) in [
        (0.0, 0, 5_242_880),
        (5.0 * mib, 1, 10_747_903),
        (100.0 * mib, 14, 113_133_819),
        (256.0 * mib, 26, 286_623_669),
        (512.0 * mib, 37, 564_708_223),
        (1024.0 * mib, 49, 1_097_586_419),
        (4096.0 * mib, 76, 4_384_414_627),
    ] {
        let mut histogram = Histogram::new(memory, Duration::from_hours(24));
        histogram.add(bytes, start());
        assert_eq!(
            (memory.of(bytes), CpuMemory::of_floats(0.0, histogram.percentile(0.98)).memory.0),
            (bucket, end),
            "{bytes}"
        );
    }
}

/// Rows 70 and 71.
#[test]
fn older_samples_weigh_less() {
    let mut histogram = cpu();
    histogram.add(4.0, start());
    histogram.add(0.3, later(start(), 12 * HOUR));
    assert_eq!(shares(&histogram), [314, 4217, 4217, 4217, 4217]);
    assert_eq!((histogram.reference(), histogram.total()), (start(), 3.0));
    let mut histogram = cpu();
    for i in 1..=100 {
        histogram.add(i as f64 / 10.0, later(start(), 60 * i));
    }
    assert_eq!(shares(&histogram), [6469, 9306, 9796, 10311, 10311]);
}

/// Row 72.
#[test]
fn the_reference_is_a_multiple_of_the_half_life_and_moves_after_a_hundred() {
    for (first, reference) in [
        ("05:59", "2024-01-01T00:00:00Z"),
        ("06:00", "2024-01-01T12:00:00Z"),
        ("07:00", "2024-01-01T12:00:00Z"),
    ] {
        let mut histogram = cpu();
        histogram.add(1.0, time(&format!("2024-01-01T{first}:00Z")));
        assert_eq!(histogram.reference(), time(reference));
    }
    let mut histogram = cpu();
    histogram.add(1.0, start());
    histogram.add(1.0, later(start(), 50 * 24 * HOUR));
    assert_eq!(histogram.reference(), start());
    histogram.add(2.0, later(start(), 50 * 24 * HOUR + 60));
    assert_eq!(histogram.reference(), time("2024-02-20T00:00:00Z"));
    // The first sample has faded, the other two weigh one each.
    assert!((histogram.total() - 2.0).abs() < 0.01, "{}", histogram.total());
    assert_eq!(milli(&histogram, 0.4), 1035);
}

#[test]
fn c102_large_memory_does_not_saturate() {
    let gib = 1_073_741_824.0;
    let mut histogram = Histogram::new(Buckets::memory(), Duration::from_hours(24));
    for minute in 0..60 {
        histogram.add(600.0 * gib, later(start(), minute * 60));
    }
    let p95 = histogram.percentile(0.95);
    assert!((600.0 * gib..600.0 * gib * 1.05).contains(&p95), "{p95}");
}

#[test]
fn odd_samples_do_no_harm() {
    let mut histogram = cpu();
    histogram.add(f64::NAN, start());
    assert_eq!(shares(&histogram), [0; 5]);
    histogram.add(-1.0, start());
    assert_eq!(shares(&histogram), [25; 5]);
    histogram.add(f64::INFINITY, start());
    assert_eq!(milli(&histogram, 1.0), 1_060_437);
}

#[test]
fn a_clock_that_was_ahead_for_a_while_is_got_over() {
    let mut histogram = cpu();
    histogram.add(1.0, start());
    histogram.add(2.0, time("2099-01-01T00:00:00Z"));
    histogram.add(4.0, later(start(), 60));
    assert_eq!(shares(&histogram), [4217; 5]);
    for at in [Timestamp::MAX, Timestamp::MIN, start()] {
        histogram.add(0.5, at);
        assert_eq!(shares(&histogram), [539; 5]);
    }
}

proptest! {
    #[test]
    fn percentiles_are_monotone_and_no_sample_is_above_its_bucket(
        samples in prop::collection::vec((0.0..2000.0_f64, 0..10_000_000_i64), 1..60), qs in prop::collection::vec(0.0..=1.0_f64, 2..8),
    ) {
        let mut histogram = cpu();
        for (value, seconds) in &samples {
            histogram.add(*value, later(start(), *seconds));
        }
        let mut qs = qs;
        qs.sort_by(f64::total_cmp);
        let at: Vec<f64> = qs.iter().map(|q| histogram.percentile(*q)).collect();
        prop_assert!(at.is_sorted(), "{:?}", at);
        let sum: f64 = histogram.weights().iter().sum();
        prop_assert!((sum - histogram.total()).abs() <= 1e-9 * sum.max(1.0));
    }

    #[test]
    fn after_many_half_lives_only_the_new_counts(old in 0.0..100.0_f64, new in 0.0..100.0_f64, half_lives in 20..400_i64) {
        let mut histogram = cpu();
        histogram.add(old, start());
        histogram.add(new, later(start(), half_lives * 12 * HOUR));
        let mut alone = cpu();
        alone.add(new, start());
        prop_assert_eq!(milli(&histogram, 0.95), milli(&alone, 0.95));
    }

    /// Two samples a whole number of half-lives apart weigh one to two to that power, wherever the reference is.
    #[test]
    fn a_half_life_halves(offset in 0..90_000_i64, half_lives in 0..50_i32) {
        let first = later(start(), offset);
        let mut histogram = cpu();
        histogram.add(0.0, first);
        histogram.add(1.0, later(first, i64::from(half_lives) * 12 * HOUR));
        let (old, new) = (histogram.weights()[0], histogram.weights()[22]);
        prop_assert!((new / old / f64::from(half_lives).exp2() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_value_is_in_its_bucket(value in 0.0..1024.0_f64) {
        let buckets = Buckets::cpu();
        let bucket = buckets.of(value);
        prop_assert!(buckets.start(bucket) <= value * (1.0 + 1e-12) + 1e-12);
        prop_assert!(value < buckets.start(bucket + 1) * (1.0 + 1e-12));
    }
}
