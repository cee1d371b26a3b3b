//! How long samples count, and when models are kept and dropped (collection.md 11, 14).

use std::time::Duration;

use crate::units::Percent;

/// What models go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSettings {
    /// Half-life of CPU samples.
    pub cpu_half_life: Duration,
    /// Half-life of memory samples.
    pub memory_half_life: Duration,
    /// Time without a sample after which a model is dropped.
    pub expiration: Duration,
    /// Least time between two checkpoints of a model.
    pub checkpoint_interval: Duration,
    /// Checkpoints a step at most.
    pub checkpoints_per_step: usize,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            cpu_half_life: Duration::from_hours(12),
            memory_half_life: Duration::from_hours(24),
            expiration: Duration::from_mins(30),
            checkpoint_interval: Duration::from_mins(10),
            checkpoints_per_step: 12,
        }
    }
}

/// What predictions for prod pods go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProdSettings {
    /// Age up to which a pod counts with its requests.
    pub cold_start: Duration,
    /// Percent added to each peak.
    pub margin: Percent,
}

impl Default for ProdSettings {
    fn default() -> Self {
        Self { cold_start: Duration::from_hours(24), margin: Percent(10) }
    }
}
