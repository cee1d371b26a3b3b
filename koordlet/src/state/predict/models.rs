//! All models, by key: what they learn in a round, when they go, which are to be kept next (collection.md 11.2).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::checkpoint::Checkpoint;
use super::model::{Model, ModelKey};
use super::settings::ModelSettings;
use super::training::TrainingRound;
use crate::state::cpu_memory::CpuMemory;

/// The models. Times are of the wall clock, as checkpoints of another run hold them.
#[derive(Clone, Debug)]
pub struct Models {
    settings: ModelSettings,
    by_key: BTreeMap<ModelKey, Model>,
}

impl Models {
    /// None yet.
    pub fn new(settings: ModelSettings) -> Self {
        Self { settings, by_key: BTreeMap::new() }
    }

    /// Learns a round, as of `at`: each pod, each class, and, if the node's use is known, the node and what of it is
    /// no pod's.
    pub fn learn(&mut self, round: &TrainingRound, at: Timestamp) {
        for pod in &round.pods {
            self.add(ModelKey::Pod(pod.uid.clone()), pod.cores, pod.bytes, at);
        }
        for class in ModelKey::CLASSES {
            let (cores, bytes) = round.of_class(class);
            self.add(ModelKey::Class(class), cores, bytes, at);
        }
        if let Some((cores, bytes)) = round.node {
            self.add(ModelKey::Node, cores, bytes, at);
        }
        if let Some((cores, bytes)) = round.of_system() {
            self.add(ModelKey::System, cores, bytes, at);
        }
    }

    fn add(&mut self, key: ModelKey, cores: f64, bytes: f64, at: Timestamp) {
        let settings = &self.settings;
        self.by_key.entry(key).or_insert_with(|| Model::new(settings, at)).add(cores, bytes, at);
    }

    /// A model.
    pub fn get(&self, key: &ModelKey) -> Option<&Model> {
        self.by_key.get(key)
    }

    /// The peak of a model that there is.
    pub fn peak(&self, key: &ModelKey) -> Option<CpuMemory> {
        self.get(key).map(Model::peak)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Drops models without a sample for the time of expiration, and gives their keys: their checkpoints are to go,
    /// too. To be called after [`learn`](Self::learn): a clock that was set meanwhile has renewed all that live then.
    pub fn expire(&mut self, at: Timestamp) -> Vec<ModelKey> {
        let limit = self.settings.expiration;
        // A time yet to come is that of a clock that was wrong.
        let old = |model: &mut Model| at.duration_since(model.updated).unsigned_abs() > limit;
        self.by_key.extract_if(.., |_, model| old(model)).map(|(key, _)| key).collect()
    }

    /// The checkpoints to be written now: of the models that were not kept for the interval those that were not for
    /// the longest time, at most as many as a step may. What was written is to be told by [`saved`](Self::saved).
    pub fn due(&self, at: Timestamp) -> Vec<(ModelKey, Checkpoint)> {
        let interval = self.settings.checkpoint_interval;
        let waited = |saved: Timestamp| at.duration_since(saved);
        let is_due = |model: &Model| {
            // Saved in time to come: the clock was wrong.
            model
                .saved
                .map(waited)
                .is_none_or(|waited| waited < SignedDuration::ZERO || at_least(waited, interval))
        };
        let mut due: Vec<_> = self.by_key.iter().filter(|(_, model)| is_due(model)).collect();
        due.sort_by_key(|(_, model)| model.saved);
        due.truncate(self.settings.checkpoints_per_step);
        due.into_iter().map(|(key, model)| (key.clone(), Checkpoint::of(key, model, at))).collect()
    }

    /// A checkpoint was written.
    pub fn saved(&mut self, key: &ModelKey, at: Timestamp) {
        if let Some(model) = self.by_key.get_mut(key) {
            model.saved = Some(at);
        }
    }

    /// Takes over a checkpoint of an earlier run, unless there is a model of that key by now.
    pub fn load(&mut self, key: ModelKey, checkpoint: &Checkpoint) {
        self.by_key.entry(key).or_insert_with(|| checkpoint.to_model(&self.settings));
    }
}

fn at_least(waited: SignedDuration, interval: Duration) -> bool {
    waited.unsigned_abs() >= interval
}

#[cfg(test)]
mod tests;
