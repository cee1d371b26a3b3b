//! Learns use, round by round, and keeps what was learnt in files (collection.md 11.2). Series are searched and files
//! written by another thread.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use crate::agent::collectors::Surroundings;
use crate::config::Config;
use crate::config::predict::PredictSettings;
use crate::error_chain::chain;
use crate::host::clock::monotonic;
use crate::report::checkpoints::{CheckpointDir, CheckpointError};
use crate::report::metrics::reports::{CheckpointResult, ReportStats};
use crate::state::pods::PodTable;
use crate::state::predict::model::ModelKey;
use crate::state::predict::models::Models;
use crate::state::predict::settings::ModelSettings;
use crate::state::predict::training::{TrainingRound, keep_in};
use crate::state::series::shared::SharedSeries;

/// How often old models are dropped and files are written.
const TIDY: Duration = Duration::from_mins(1);

/// What was learnt, shared with the reporter.
#[derive(Clone, Debug)]
pub(super) struct SharedModels(Arc<Mutex<Models>>);

impl SharedModels {
    /// Nothing.
    pub(super) fn new(settings: &PredictSettings) -> Self {
        Self(Arc::new(Mutex::new(Models::new(ModelSettings {
            cpu_half_life: settings.cpu_half_life,
            memory_half_life: settings.memory_half_life,
            expiration: settings.expiration,
            checkpoint_interval: settings.checkpoint_interval,
            checkpoints_per_step: settings.checkpoints_per_step,
        }))))
    }

    /// The models; held for no longer than a round of arithmetic.
    pub(super) fn lock(&self) -> MutexGuard<'_, Models> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever learns.
pub(super) struct Learner {
    pods: watch::Receiver<Arc<PodTable>>,
    interval: Duration,
    round: Round,
}

/// What a round works on; it moves to another thread and back.
struct Round {
    series: SharedSeries,
    models: SharedModels,
    interval: Duration,
    /// `None` in a dry run: nothing is read that would be cleared away, and nothing is written.
    dir: Option<CheckpointDir>,
    stats: Arc<ReportStats>,
    /// What was wrong with the files, and was told.
    told: Option<String>,
}

impl Learner {
    /// Learns at the pace of the flags.
    pub(super) fn new(
        config: &Config,
        around: &Surroundings,
        models: SharedModels,
        stats: Arc<ReportStats>,
    ) -> Self {
        let interval = config.predict.training;
        keep_in(&around.series, interval);
        let round = Round {
            series: around.series.clone(),
            models,
            interval,
            dir: (!config.dry_run).then(|| CheckpointDir::new(config.predict.dir.clone())),
            stats,
            told: None,
        };
        Self { pods: around.readers.pods.clone(), interval, round }
    }

    /// Learns until dropped.
    pub(super) async fn run(mut self) {
        // Before all pods are known, whose files are to stay is not known.
        if self.pods.wait_for(|pods| pods.synced).await.is_err() {
            return;
        }
        let mut learn = interval(self.interval);
        let mut tidy = interval(TIDY);
        learn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tidy.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let pods = self.pods.borrow().clone();
        let mut round = self.round;
        let Some(loaded) = elsewhere(round, move |round| round.load(&pods)).await else { return };
        round = loaded;
        loop {
            let pods = self.pods.borrow().clone();
            let done = tokio::select! {
                biased;
                _ = learn.tick() => elsewhere(round, move |round| round.learn(&pods)).await,
                _ = tidy.tick() => elsewhere(round, Round::tidy).await,
            };
            let Some(done) = done else { return };
            round = done;
        }
    }
}

/// Has another thread do it; `None` when the agent stops.
async fn elsewhere(mut round: Round, what: impl FnOnce(&mut Round) + Send + 'static) -> Option<Round> {
    let work = move || {
        what(&mut round);
        round
    };
    spawn_blocking(work).await.ok()
}

impl Round {
    /// Takes over what an earlier run has learnt of what is still there.
    fn load(&mut self, pods: &PodTable) {
        let Some(dir) = &self.dir else { return };
        let is_there = |key: &ModelKey| match key {
            ModelKey::Pod(uid) => pods.pods.contains_key(uid),
            _ => true,
        };
        let loaded = match dir.load(is_there) {
            Ok(loaded) => loaded,
            Err(error) => return self.failed(&error),
        };
        let (count, removed) = (loaded.checkpoints.len(), loaded.removed);
        for (path, why) in &loaded.damaged {
            tracing::warn!(file = %path.display(), why, "a checkpoint of prediction is damaged and set aside");
        }
        self.stats.checkpoints(CheckpointResult::Loaded, count);
        self.stats.checkpoints(CheckpointResult::Removed, removed);
        self.stats.checkpoints(CheckpointResult::Damaged, loaded.damaged.len());
        {
            let mut models = self.models.lock();
            for (key, checkpoint) in loaded.checkpoints {
                models.load(key, &checkpoint);
            }
        }
        loaded.errors.iter().for_each(|error| self.failed(error));
        if count > 0 {
            tracing::info!(count, removed, "checkpoints of prediction loaded");
        }
    }

    fn learn(&mut self, pods: &PodTable) {
        let round = TrainingRound::of_series(&self.series, pods, self.interval, monotonic());
        let mut models = self.models.lock();
        models.learn(&round, Timestamp::now());
        self.stats.learnt(models.len());
    }

    /// Drops models of what is gone, with their files, and writes the files that are due.
    fn tidy(&mut self) {
        let at = Timestamp::now();
        let (gone, due) = {
            let mut models = self.models.lock();
            (models.expire(at), models.due(at))
        };
        let Some(dir) = self.dir.clone() else { return };
        for key in &gone {
            match dir.remove(key) {
                Ok(()) => self.stats.checkpoints(CheckpointResult::Removed, 1),
                Err(error) => self.failed(&error),
            }
        }
        let mut saved = 0;
        for (key, checkpoint) in &due {
            match dir.save(key, checkpoint) {
                Ok(()) => {
                    self.models.lock().saved(key, at);
                    saved += 1;
                }
                Err(error) => self.failed(&error),
            }
        }
        self.stats.checkpoints(CheckpointResult::Saved, saved);
        if saved > 0 && saved == due.len() && self.told.take().is_some() {
            tracing::info!("checkpoints of prediction can be written again");
        }
    }

    /// Told once while it lasts; of many files the first stands for all.
    fn failed(&mut self, error: &CheckpointError) {
        self.stats.checkpoints(CheckpointResult::Failed, 1);
        if self.told.is_none() {
            let error = self.told.insert(chain(error));
            tracing::warn!(error, "what prediction has learnt does not outlive a restart");
        }
    }
}

#[cfg(test)]
mod tests;
