//! What the tests of all keepers share: books without a disk, and decisions without a planner.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::keeper::Books;
use super::ledger::Ledger;
use super::report::Notice;
use super::stats::ExecutorStats;
use crate::claims::claim::{Claim, Owner, Reason};
use crate::claims::plan::{Desired, Subtree};
use crate::claims::target::Target;
use crate::units::Nanos;

/// Books of boot `b`.
pub(super) struct TestBooks {
    pub(super) ledger: Ledger,
    pub(super) stats: ExecutorStats,
    pub(super) notices: Vec<Notice>,
    pub(super) dry_run: bool,
}

impl TestBooks {
    pub(super) fn new() -> Self {
        let (ledger, stats) = (Ledger::in_memory(), ExecutorStats::default());
        Self { ledger, stats, notices: Vec::new(), dry_run: false }
    }

    /// The books at a time.
    pub(super) fn at(&mut self, now: Nanos) -> Books<'_> {
        Books {
            ledger: &mut self.ledger,
            stats: &self.stats,
            notices: &mut self.notices,
            observer: None,
            boot: "b",
            dry_run: self.dry_run,
            now,
        }
    }
}

/// The decision that a lone claim makes.
pub(super) fn held<T: Target>(target: T, value: T::Value, owner: Owner) -> Desired<T> {
    let reason = Arc::new(Reason { text: "a test wants it".into(), inputs: BTreeMap::new() });
    Desired::decided_by(Claim::hold(target, value, owner, reason), Vec::new(), Subtree::Class)
}
