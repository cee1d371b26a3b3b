//! What of a model outlives a restart: the reference's JSON, both ways (collection.md 11.2). The files are not read
//! or written here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::histogram::{Histogram, YEAR_ONE};
use super::model::{Model, ModelKey};
use super::settings::ModelSettings;
use crate::api::{null_default, rfc3339};

/// The largest weight of a checkpoint; the others are in proportion.
const MAX_WEIGHT: f64 = 10_000.0;

/// A model as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// The key's text.
    #[serde(rename = "UID", deserialize_with = "null_default")]
    pub uid: String,
    /// CPU.
    #[serde(rename = "CPU", deserialize_with = "null_default")]
    pub cpu: HistogramCheckpoint,
    /// Memory.
    #[serde(rename = "Memory", deserialize_with = "null_default")]
    pub memory: HistogramCheckpoint,
    /// When it was made, whole seconds.
    #[serde(rename = "LastUpdated", with = "rfc3339")]
    pub last_updated: Option<Timestamp>,
}

/// A histogram as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistogramCheckpoint {
    /// The time at which a sample weighs 1; `null` is year one.
    #[serde(with = "rfc3339")]
    pub reference_timestamp: Option<Timestamp>,
    /// Weight by bucket, the largest of them 10,000.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub bucket_weights: BTreeMap<i64, u32>,
    /// What all weights come to.
    #[serde(deserialize_with = "null_default", skip_serializing_if = "is_zero")]
    pub total_weight: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(weight: &f64) -> bool {
    *weight == 0.0
}

impl Checkpoint {
    /// Of a model, made at `at`.
    pub fn of(key: &ModelKey, model: &Model, at: Timestamp) -> Self {
        Self {
            uid: key.to_string(),
            cpu: HistogramCheckpoint::of(&model.cpu),
            memory: HistogramCheckpoint::of(&model.memory),
            last_updated: Some(at),
        }
    }

    /// The model of it; a histogram that is not right is empty. Without a time it is as old as can be, and goes if
    /// there is no sample soon.
    pub fn to_model(&self, settings: &ModelSettings) -> Model {
        let mut model = Model::new(settings, self.last_updated.unwrap_or(YEAR_ONE));
        self.cpu.fill(&mut model.cpu);
        self.memory.fill(&mut model.memory);
        model
    }
}

impl HistogramCheckpoint {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 10,000")]
    fn of(histogram: &Histogram) -> Self {
        let largest = histogram.weights().iter().copied().fold(0.0, f64::max);
        let share = |weight: &f64| (weight / largest * MAX_WEIGHT).round() as u32;
        let shares = histogram.weights().iter().map(|weight| if largest > 0.0 { share(weight) } else { 0 });
        Self {
            reference_timestamp: Some(histogram.reference()).filter(|reference| *reference != YEAR_ONE),
            bucket_weights: (0..).zip(shares).filter(|(_, share)| *share > 0).collect(),
            total_weight: histogram.total(),
        }
    }

    /// Fills an empty histogram, or leaves it so: bucket out of range, negative total.
    fn fill(&self, histogram: &mut Histogram) {
        let buckets = histogram.buckets().count();
        let in_range = |bucket: &i64| usize::try_from(*bucket).ok().filter(|bucket| *bucket < buckets);
        let shares: Option<Vec<(usize, u32)>> =
            self.bucket_weights.iter().map(|(bucket, share)| Some((in_range(bucket)?, *share))).collect();
        let sum: f64 = self.bucket_weights.values().copied().map(f64::from).sum();
        let total = self.total_weight;
        let Some(shares) = shares.filter(|_| sum > 0.0 && total.is_finite() && total >= 0.0) else { return };
        let weights: Vec<(usize, f64)> =
            shares.into_iter().map(|(bucket, share)| (bucket, f64::from(share) * (total / sum))).collect();
        histogram.fill(self.reference_timestamp.unwrap_or(YEAR_ONE), &weights, total);
    }
}

#[cfg(test)]
mod tests;
