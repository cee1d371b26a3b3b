//! What was seen during the demo: samples for table and picture, and the agent's writes.

use std::time::Duration;

use kit::latency::Latencies;

use crate::phase::Phase;

/// What one step of the clock saw.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Since the start.
    pub(crate) at: Duration,
    /// How far its phase had come.
    pub(crate) into_phase: Duration,
    /// The phase.
    pub(crate) phase: Phase,
    /// Requests that ended since the last sample.
    pub(crate) latencies: Latencies,
    /// CPUs used by the service's pod.
    pub(crate) ls_cpu: f64,
    /// CPUs used by all best-effort pods.
    pub(crate) be_cpu: f64,
    /// CPUs used by everything else on this machine.
    pub(crate) other_cpu: f64,
    /// What limits best-effort pods, in CPUs.
    pub(crate) be_limit: Option<f64>,
}

/// A value that the agent set, with its reason.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// Since the start.
    pub(crate) at: Duration,
    /// File beneath the test's tree.
    pub(crate) file: String,
    /// The value.
    pub(crate) value: String,
    /// Who asked for it.
    pub(crate) owner: String,
    /// Why.
    pub(crate) reason: String,
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// CPUs of this machine.
    pub(crate) cpus: usize,
    /// In order.
    pub(crate) samples: Vec<Sample>,
    /// In order.
    pub(crate) writes: Vec<Write>,
}
