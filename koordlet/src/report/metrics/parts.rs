//! How the agent's own parts do: runs of the loop and of the collectors, and the time that they took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::exposition::Exposition;
use super::families::Family;
use crate::node::disks;
use crate::node::round_log::RoundStats;
use crate::report::audit::stats::AuditStats;
use crate::state::series::shared::SeriesStats;

/// A collector's name and how its rounds went.
pub(super) type NamedRounds = (&'static str, Arc<RoundStats>);

/// A part of the agent that runs again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A full sample of use.
    Sample,
    /// A full step of CPU suppression.
    Step,
    /// A look between two steps.
    Look,
    /// A tick of the other strategies.
    Strategies,
    /// A plan for the executor.
    Plan,
    /// Writing a page of series.
    Scrape,
}

impl Part {
    const ALL: [Self; 6] = [Self::Sample, Self::Step, Self::Look, Self::Strategies, Self::Plan, Self::Scrape];

    fn name(self) -> &'static str {
        match self {
            Self::Sample => "sample",
            Self::Step => "step",
            Self::Look => "look",
            Self::Strategies => "strategies",
            Self::Plan => "plan",
            Self::Scrape => "scrape",
        }
    }
}

/// Runs of each part.
#[derive(Debug, Default)]
pub(super) struct PartTimes([RunCount; Part::ALL.len()]);

#[derive(Debug, Default)]
struct RunCount {
    runs: AtomicU64,
    nanos: AtomicU64,
}

impl PartTimes {
    /// Notes one run.
    pub(super) fn note(&self, part: Part, took: Duration) {
        if let Some(count) = self.0.get(part as usize) {
            count.runs.fetch_add(1, Ordering::Relaxed);
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            count.nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    pub(super) fn show(&self, page: &mut Exposition<'_>) {
        let ran = || {
            let counts = Part::ALL.into_iter().zip(&self.0);
            let counts = counts.map(|(part, count)| (part.name(), count.runs.load(Ordering::Relaxed), count));
            counts.filter(|(_, runs, _)| *runs > 0)
        };
        page.family(Family::PartRuns, |series| {
            ran().for_each(|(part, runs, _)| series.count(&[part], runs));
        });
        page.family(Family::PartSeconds, |series| {
            ran().for_each(|(part, _, count)| series.value(&[part], seconds(&count.nanos)));
        });
    }
}

/// Readings of facts of the machine; nothing before the first.
pub(super) fn show_reads(page: &mut Exposition<'_>, family: Family, stats: &RoundStats) {
    let counts = [("succeeded", &stats.succeeded), ("failed", &stats.failed)];
    let counts = counts.map(|(status, count)| (status, count.load(Ordering::Relaxed)));
    if counts.iter().any(|(_, count)| *count > 0) {
        page.family(family, |series| {
            for (status, count) in counts {
                series.count(&[status], count);
            }
        });
    }
}

/// Rounds by name of the collectors that have a pace of their own, and of the steps that follow each sample of use.
/// Those of the disks have a name of the reference, too.
pub(super) fn show_rounds(page: &mut Exposition<'_>, collectors: &[NamedRounds], steps: &[NamedRounds]) {
    if let Some((_, stats)) = collectors.iter().find(|(collector, _)| *collector == disks::NAME) {
        show_reads(page, Family::CollectNodeLocalStorageInfo, stats);
    }
    let all = || collectors.iter().chain(steps);
    page.family(Family::CollectorRounds, |series| {
        for (collector, stats) in all() {
            for (status, count) in [("succeeded", &stats.succeeded), ("failed", &stats.failed)] {
                series.count(&[collector, status], count.load(Ordering::Relaxed));
            }
        }
    });
    page.family(Family::CollectorSeconds, |series| {
        for (collector, stats) in all() {
            series.value(&[collector], seconds(&stats.took));
        }
    });
}

/// The metric cache.
pub(super) fn show_series(page: &mut Exposition<'_>, stats: &SeriesStats) {
    let SeriesStats { series, samples, bytes, refused, cut_short } = *stats;
    let figures = [
        (Family::Series, series as u64),
        (Family::SeriesSamples, samples as u64),
        (Family::SeriesBytes, bytes as u64),
        (Family::SeriesRefusedSamples, refused),
        (Family::SeriesCutShort, cut_short),
    ];
    for (family, figure) in figures {
        page.family(family, |series| series.count(&[], figure));
    }
}

/// The audit log.
pub(super) fn show_audit(page: &mut Exposition<'_>, stats: &AuditStats) {
    let AuditStats { events, dropped, written, bytes, failed_writes, rotations, damage } = stats;
    let counts = [
        (Family::AuditEvents, events),
        (Family::AuditDroppedEvents, dropped),
        (Family::AuditWrittenEvents, written),
        (Family::AuditWrittenBytes, bytes),
        (Family::AuditFailedWrites, failed_writes),
        (Family::AuditRotations, rotations),
        (Family::AuditDamage, damage),
    ];
    for (family, count) in counts {
        page.family(family, |series| series.count(&[], count.load(Ordering::Relaxed)));
    }
}

fn seconds(nanos: &AtomicU64) -> f64 {
    nanos.load(Ordering::Relaxed) as f64 / 1e9
}
