//! The updates that the agent's decisions are made anew after (collection.md 7.2). Each kind is one value that is
//! replaced: what comes faster than it is looked at is joined into one, and the newest is never lost.

use std::sync::atomic::{AtomicU64, Ordering};

use super::exposition::Exposition;
use super::families::Family;

/// A kind of update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The Node's labels or annotations.
    NodeMetadata,
    /// The policy.
    NodeSlo,
    /// A list of pods came; each counts, also one without news.
    AllPods,
    /// Who may use which CPUs.
    NodeTopology,
}

impl Update {
    const ALL: [Self; 4] = [Self::NodeMetadata, Self::NodeSlo, Self::AllPods, Self::NodeTopology];

    fn name(self) -> &'static str {
        match self {
            Self::NodeMetadata => "node_metadata",
            Self::NodeSlo => "node_slo",
            Self::AllPods => "all_pods",
            Self::NodeTopology => "node_topology",
        }
    }
}

/// Updates of each kind.
#[derive(Debug, Default)]
pub(super) struct UpdateCounts([AtomicU64; Update::ALL.len()]);

impl UpdateCounts {
    /// One happened.
    pub(super) fn note(&self, update: Update) {
        if let Some(count) = self.0.get(update as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn show(&self, page: &mut Exposition<'_>) {
        page.family(Family::Updates, |series| {
            for (update, count) in Update::ALL.into_iter().zip(&self.0) {
                series.count(&[update.name()], count.load(Ordering::Relaxed));
            }
        });
    }
}
