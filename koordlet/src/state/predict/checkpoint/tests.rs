use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::state::predict::histogram::Buckets;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn settings() -> ModelSettings {
    ModelSettings::default()
}

fn key(text: &str) -> ModelKey {
    ModelKey::from_text(text).unwrap()
}

/// Row 70 of collection.md 17.
#[test]
fn a_checkpoint_is_the_references_json() {
    let mut model = Model::new(&settings(), YEAR_ONE);
    model.cpu.add(4.0, time("2024-01-01T00:00:00Z"));
    model.cpu.add(0.3, time("2024-01-01T12:00:00Z"));
    let made = time("2024-01-01T12:00:01.25Z");
    let checkpoint = Checkpoint::of(&key("u1"), &model, made);
    let written = json!({
        "UID": "u1",
        "CPU": {"referenceTimestamp": "2024-01-01T00:00:00Z", "bucketWeights": {"9": 10000, "45": 5000}, "totalWeight": 3.0},
        "Memory": {"referenceTimestamp": null},
        "LastUpdated": "2024-01-01T12:00:01Z",
    });
    assert_eq!(serde_json::to_value(&checkpoint).unwrap(), written);
    let read: Checkpoint = serde_json::from_value(written).unwrap();
    let loaded = read.to_model(&settings());
    assert_eq!((&loaded.cpu, &loaded.memory), (&model.cpu, &model.memory));
    assert_eq!((loaded.updated, loaded.saved), (time("2024-01-01T12:00:01Z"), None));
}

#[test]
fn a_histogram_that_is_not_right_is_empty_and_the_other_is_loaded() {
    let good =
        json!({"referenceTimestamp": "2024-01-01T00:00:00Z", "bucketWeights": {"9": 10}, "totalWeight": 2});
    for bad in [
        json!({"referenceTimestamp": null, "bucketWeights": {"158": 1}, "totalWeight": 1}),
        json!({"referenceTimestamp": null, "bucketWeights": {"-1": 1}, "totalWeight": 1}),
        json!({"bucketWeights": {"1": 1}, "totalWeight": -1.0}),
        json!({"bucketWeights": {"1": 0}, "totalWeight": 5}),
        json!({"totalWeight": 5}),
        json!({}),
        json!(null),
    ] {
        let checkpoint =
            json!({"UID": "u", "CPU": bad, "Memory": good, "LastUpdated": "2024-01-01T00:00:00Z"});
        let model = serde_json::from_value::<Checkpoint>(checkpoint).unwrap().to_model(&settings());
        assert!(model.cpu.percentile(1.0) < f64::MIN_POSITIVE);
        assert!((model.memory.total() - 2.0).abs() < 1e-9);
    }
    for text in
        [r#"{"LastUpdated":"soon"}"#, r#"{"CPU":[1]}"#, r#"{"CPU":{"bucketWeights":{"a":1}}}"#, "[]1", "{"]
    {
        assert!(serde_json::from_str::<Checkpoint>(text).is_err(), "{text}");
    }
}

proptest! {
    /// Weights come back within a ten-thousandth of the largest: so do percentiles, a bucket at most apart where a
    /// sum just reaches its share.
    #[test]
    fn what_is_kept_comes_back(samples in prop::collection::vec((0.0..64.0_f64, 0..4_000_000_i64), 1..80)) {
        let mut model = Model::new(&settings(), YEAR_ONE);
        let start = time("2024-01-01T00:00:00Z").as_second();
        for (value, seconds) in samples {
            model.add(value, value * 1e9, Timestamp::from_second(start + seconds).unwrap());
        }
        let text = serde_json::to_string(&Checkpoint::of(&key("u"), &model, time("2024-03-01T00:00:00Z"))).unwrap();
        let loaded = serde_json::from_str::<Checkpoint>(&text).unwrap().to_model(&settings());
        for (old, new) in [(&model.cpu, &loaded.cpu), (&model.memory, &loaded.memory)] {
            prop_assert_eq!(old.reference(), new.reference());
            // Reading a number may be a last bit off.
            prop_assert!((old.total() / new.total() - 1.0).abs() < 1e-12);
            let largest = old.weights().iter().copied().fold(0.0, f64::max);
            // Rounding each, and spreading what the rounding lost over all.
            let bound = largest * (1.0 + old.buckets().count() as f64) / MAX_WEIGHT;
            for (old, new) in old.weights().iter().zip(new.weights()) {
                prop_assert!((old - new).abs() <= bound, "{} {}", old, new);
            }
        }
        // Kept once more, it is the same.
        let again = HistogramCheckpoint::of(&loaded.cpu);
        let once = HistogramCheckpoint::of(&model.cpu);
        prop_assert_eq!(again.bucket_weights, once.bucket_weights);
    }

    #[test]
    fn no_weights_panic(weights in prop::collection::btree_map(any::<i64>(), any::<u32>(), 0..5), total: f64, seconds in -62_135_596_800..253_402_207_200_i64) {
        let reference_timestamp = Timestamp::from_second(seconds).ok();
        let checkpoint = HistogramCheckpoint { reference_timestamp, bucket_weights: weights, total_weight: total };
        let mut histogram = Histogram::new(Buckets::cpu(), Duration::from_hours(12));
        checkpoint.fill(&mut histogram);
        histogram.add(1.0, time("2024-01-01T00:00:00Z"));
        prop_assert!(histogram.percentile(0.95).is_finite());
    }
}
