//! What was reported to the API server, and what prediction learnt for it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::exposition::Exposition;
use super::families::Family;

/// An object that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// NodeMetric.
    NodeMetric,
    /// NodeResourceTopology.
    Topology,
}

impl Reported {
    const ALL: [Self; 2] = [Self::NodeMetric, Self::Topology];

    fn name(self) -> &'static str {
        match self {
            Self::NodeMetric => "nodemetric",
            Self::Topology => "noderesourcetopology",
        }
    }
}

/// What a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportResult {
    /// Something was written.
    Written,
    /// There was nothing to write.
    Unchanged,
    /// There is no such object, or there is one by now.
    Missed,
    /// What it is made of is not known yet.
    NotReady,
    /// It could not be written, or not be made.
    Failed,
    /// It was made, and not written, since nothing is (`--dry-run`).
    DryRun,
}

impl ReportResult {
    const ALL: [Self; 6] =
        [Self::Written, Self::Unchanged, Self::Missed, Self::NotReady, Self::Failed, Self::DryRun];

    fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Unchanged => "unchanged",
            Self::Missed => "missed",
            Self::NotReady => "not_ready",
            Self::Failed => "failed",
            Self::DryRun => "dry_run",
        }
    }
}

/// What happened to a file with a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointResult {
    /// Read at start.
    Loaded,
    /// Written.
    Saved,
    /// Removed, since what it is of is gone.
    Removed,
    /// Set aside.
    Damaged,
    /// Not read, written or removed.
    Failed,
}

impl CheckpointResult {
    const ALL: [Self; 5] = [Self::Loaded, Self::Saved, Self::Removed, Self::Damaged, Self::Failed];

    fn name(self) -> &'static str {
        match self {
            Self::Loaded => "loaded",
            Self::Saved => "saved",
            Self::Removed => "removed",
            Self::Damaged => "damaged",
            Self::Failed => "failed",
        }
    }
}

/// Counters of reports and prediction.
#[derive(Debug, Default)]
pub struct ReportStats {
    rounds: [[AtomicU64; ReportResult::ALL.len()]; Reported::ALL.len()],
    checkpoints: [AtomicU64; CheckpointResult::ALL.len()],
    training: AtomicU64,
    models: AtomicUsize,
}

impl ReportStats {
    /// A round of reporting ended.
    pub fn round(&self, object: Reported, result: ReportResult) {
        let counts = self.rounds.get(object as usize);
        if let Some(count) = counts.and_then(|counts| counts.get(result as usize)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Something happened to `files` checkpoints.
    pub fn checkpoints(&self, result: CheckpointResult, files: usize) {
        if let Some(count) = self.checkpoints.get(result as usize) {
            count.fetch_add(files as u64, Ordering::Relaxed);
        }
    }

    /// A round of learning ended with so many models.
    pub fn learnt(&self, models: usize) {
        self.training.fetch_add(1, Ordering::Relaxed);
        self.models.store(models, Ordering::Relaxed);
    }
}

/// Series of `stats`; results that have never been are left out.
pub(super) fn show(page: &mut Exposition<'_>, stats: &ReportStats) {
    page.family(Family::Reports, |series| {
        for (object, counts) in Reported::ALL.into_iter().zip(&stats.rounds) {
            for (result, count) in ReportResult::ALL.into_iter().zip(counts) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    series.count(&[object.name(), result.name()], count);
                }
            }
        }
    });
    let rounds = stats.training.load(Ordering::Relaxed);
    if rounds == 0 {
        return;
    }
    page.family(Family::PredictionRounds, |series| series.count(&[], rounds));
    page.family(Family::PredictionModels, |series| {
        series.count(&[], stats.models.load(Ordering::Relaxed) as u64);
    });
    page.family(Family::PredictionCheckpoints, |series| {
        for (result, count) in CheckpointResult::ALL.into_iter().zip(&stats.checkpoints) {
            series.count(&[result.name()], count.load(Ordering::Relaxed));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::exposition::{Format, Scope};
    use super::*;

    #[test]
    fn rounds_are_counted_by_object_and_result() {
        let stats = ReportStats::default();
        let page = |stats: &ReportStats| {
            let mut page = Exposition::new(Format::Classic, Scope::Internal, "n1", 0);
            show(&mut page, stats);
            page.finish()
        };
        stats.round(Reported::Topology, ReportResult::Written);
        let text = page(&stats);
        let line =
            "koordlet_reports_total{node=\"n1\",object=\"noderesourcetopology\",result=\"written\"} 1\n";
        assert!(
            text.contains(line) && !text.contains("nodemetric\"") && !text.contains("prediction"),
            "{text}"
        );
        stats.learnt(7);
        stats.checkpoints(CheckpointResult::Saved, 3);
        let text = page(&stats);
        assert!(text.contains("koordlet_prediction_models{node=\"n1\"} 7\n"), "{text}");
        assert!(text.contains("result=\"saved\"} 3\n"), "{text}");
    }
}
