//! How much of the requests of prod pods is predicted to stay unused, and their peak (collection.md 11.3). Two
//! predictors, one by pod and one by class; reported is the smaller promise and the larger peak.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::model::ModelKey;
use super::settings::ProdSettings;
use crate::api::annotations::raw_allocatable;
use crate::api::node::Node;
use crate::api::pod::Pod;
use crate::api::qos::PriorityClass;
use crate::api::rfc3339;
use crate::error_chain::chain;
use crate::state::cpu_memory::CpuMemory;
use crate::state::pods::PodEntry;

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredictError {
    /// No Node, or one without allocatable resources.
    #[error("the node's allocatable resources are not known")]
    NoAllocatable,
    /// Nothing was learnt yet.
    #[error("nothing was learnt yet of {0}")]
    NoModel(ModelKey),
}

/// What a predictor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// Requests that can be lent.
    pub reclaimable: Result<CpuMemory, PredictError>,
    /// The peak, margin included.
    pub peak: Result<CpuMemory, PredictError>,
}

/// What both say, and what is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProdPrediction {
    /// The predictor by pod.
    pub by_pod: Predicted,
    /// The predictor by class.
    pub by_priority: Predicted,
    /// Reported: less to lend, more at the peak; an error if either has one.
    pub reported: Predicted,
    /// What is wrong with the node's annotation of raw allocatable resources, which does not count then.
    pub notice: Option<String>,
}

/// Predicts for the prod pods among `pods`, as of `at`. `peak` gives what was learnt of a key.
pub fn predict(
    pods: &[Arc<PodEntry>],
    node: Option<&Node>,
    settings: &ProdSettings,
    at: Timestamp,
    peak: impl Fn(&ModelKey) -> Option<CpuMemory>,
) -> ProdPrediction {
    let (allocatable, notice) = allocatable(node);
    let margin = 100_i64.saturating_add(settings.margin.0) as f64 / 100.0;
    let mut sums = Sums::default();
    for entry in pods.iter().filter(|entry| takes_part(&entry.pod)) {
        let requests = CpuMemory::of_list(&entry.pod.effective_requests());
        let ending = entry.pod.metadata.deletion_timestamp.is_some();
        if is_cold(&entry.pod, settings, at) {
            sums.unpredicted = sums.unpredicted.plus(requests);
        } else if ending {
            continue;
        } else if let Some(peak) = peak(&ModelKey::Pod(entry.uid.clone())) {
            let peak = peak.times(margin);
            sums.unreclaimable = sums.unreclaimable.plus(peak);
            sums.reclaimable = sums.reclaimable.plus(requests.minus(peak));
        } else {
            sums.unpredicted = sums.unpredicted.plus(requests);
            continue;
        }
        if !ending {
            sums.requests = sums.requests.plus(requests);
        }
    }
    let by_pod = sums.by_pod(allocatable);
    let by_priority = sums.by_priority(allocatable, used(margin, peak));
    let reported = Predicted {
        reclaimable: both(&by_pod.reclaimable, &by_priority.reclaimable, CpuMemory::min),
        peak: both(&by_pod.peak, &by_priority.peak, CpuMemory::max),
    };
    ProdPrediction { by_pod, by_priority, reported, notice }
}

/// Sums over the pods.
#[derive(Default)]
struct Sums {
    /// Requests of pods that nothing can be said of.
    unpredicted: CpuMemory,
    /// Peaks.
    unreclaimable: CpuMemory,
    /// Requests above peaks.
    reclaimable: CpuMemory,
    /// Requests that the predictor by class sees.
    requests: CpuMemory,
}

impl Sums {
    fn by_pod(&self, allocatable: Option<CpuMemory>) -> Predicted {
        let left = allocatable.map(|allocatable| allocatable.minus(self.unreclaimable).min(self.reclaimable));
        Predicted {
            reclaimable: left.ok_or(PredictError::NoAllocatable),
            peak: Ok(self.unreclaimable.plus(self.unpredicted)),
        }
    }

    fn by_priority(
        &self,
        allocatable: Option<CpuMemory>,
        used: Result<CpuMemory, PredictError>,
    ) -> Predicted {
        let reclaimable = used.clone().and_then(|used| {
            let left = allocatable.ok_or(PredictError::NoAllocatable)?.minus(used);
            Ok(left.min(self.requests.minus(used)))
        });
        Predicted { reclaimable, peak: used }
    }
}

/// What system, prod pods and pods of no class are going to use.
fn used(margin: f64, peak: impl Fn(&ModelKey) -> Option<CpuMemory>) -> Result<CpuMemory, PredictError> {
    let keys = [ModelKey::System, ModelKey::Class(Some(PriorityClass::Prod)), ModelKey::Class(None)];
    let mut sum = CpuMemory::default();
    for key in keys {
        sum = sum.plus(peak(&key).ok_or(PredictError::NoModel(key))?);
    }
    Ok(sum.times(margin))
}

fn both(
    a: &Result<CpuMemory, PredictError>,
    b: &Result<CpuMemory, PredictError>,
    of: fn(CpuMemory, CpuMemory) -> CpuMemory,
) -> Result<CpuMemory, PredictError> {
    Ok(of(a.clone()?, b.clone()?))
}

/// Prod, and not ended, however young (collection.md 15 row 21). One that is being deleted still runs: while it is
/// young its requests count for the peak, and never as something to lend.
fn takes_part(pod: &Pod) -> bool {
    let ended = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
    pod.priority_class() == PriorityClass::Prod && !ended
}

/// Whether too little was seen of it; one of unknown age is old.
fn is_cold(pod: &Pod, settings: &ProdSettings, at: Timestamp) -> bool {
    let made = pod.metadata.creation_timestamp.as_deref().and_then(rfc3339::parse);
    let cold = SignedDuration::try_from(settings.cold_start).unwrap_or(SignedDuration::MAX);
    made.is_some_and(|made| at.duration_since(made) <= cold)
}

/// The raw allocatable resources, else the allocatable ones; and what is wrong with the former.
fn allocatable(node: Option<&Node>) -> (Option<CpuMemory>, Option<String>) {
    let Some(node) = node else { return (None, None) };
    let (raw, notice) = match raw_allocatable(&node.metadata.annotations) {
        Ok(raw) => (raw, None),
        Err(error) => (None, Some(chain(&error))),
    };
    let own = || Some(&node.status.allocatable).filter(|list| !list.is_empty()).cloned();
    (raw.or_else(own).map(|list| CpuMemory::of_list(&list)), notice)
}

#[cfg(test)]
mod tests;
