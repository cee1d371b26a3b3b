//! How long samples are kept and how much room they may take (collection.md 5.5).

use std::time::Duration;

use super::class::{Pace, Scope};
use super::metric::Metric;
use crate::units::Nanos;

/// What is kept of the node without being asked for more: the longest default window of a policy.
const NODE_WINDOW: Duration = Duration::from_mins(30);
/// What is kept of a pod, container or host application: the default aggregate duration.
const WORKLOAD_WINDOW: Duration = Duration::from_mins(5);
/// Samples that a slow collector's series hold at least.
const LEAST_SAMPLES: u32 = 5;

/// Times between rounds and bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesSettings {
    /// Between two samples of use.
    pub usage: Duration,
    /// Between two rounds of cold memory.
    pub cold_memory: Duration,
    /// Between two rounds of pressure.
    pub pressure: Duration,
    /// Between two rounds of CPI.
    pub cpi: Duration,
    /// Between two rounds of resctrl.
    pub resctrl: Duration,
    /// How long samples are kept at most (`--tsdb-retention-duration`), whoever asks for more.
    pub retention: Duration,
    /// Bytes that all series may take (`--tsdb-max-bytes`); 0 stands for the flag's default.
    pub max_bytes: usize,
}

impl Default for SeriesSettings {
    /// The defaults of the flags, collection.md 14.
    fn default() -> Self {
        Self {
            usage: Duration::from_secs(1),
            cold_memory: Duration::from_secs(5),
            pressure: Duration::from_secs(10),
            cpi: Duration::from_mins(1),
            resctrl: Duration::from_secs(10),
            retention: Duration::from_hours(12),
            max_bytes: 100 << 20,
        }
    }
}

impl SeriesSettings {
    /// The bound on bytes.
    pub(super) fn byte_bound(&self) -> usize {
        if self.max_bytes == 0 { Self::default().max_bytes } else { self.max_bytes }
    }

    /// Time between two samples of a kind.
    pub(super) fn interval(&self, metric: Metric) -> Duration {
        match metric.pace() {
            Pace::Usage => self.usage,
            Pace::ColdMemory => self.cold_memory,
            Pace::Pressure => self.pressure,
            Pace::Cpi => self.cpi,
            Pace::Resctrl => self.resctrl,
        }
    }

    /// How long samples of a kind are kept: the scope's default, at least five samples, at least what was asked
    /// for, and at most the retention.
    pub(super) fn window(&self, metric: Metric, asked: Duration) -> Duration {
        let usual = match metric.scope() {
            Scope::Node => NODE_WINDOW,
            Scope::Workload => WORKLOAD_WINDOW,
        };
        let slow = self.interval(metric).saturating_mul(LEAST_SAMPLES);
        usual.max(slow).max(asked).min(self.retention)
    }
}

/// Saturating: a window of centuries is as good as for ever.
pub(super) fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
