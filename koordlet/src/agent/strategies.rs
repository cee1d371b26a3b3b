//! The QoS strategies whose gates are on, CPU suppression aside: what they hold, and when it changed.

use std::collections::BTreeSet;

use super::once::Once;
use crate::claims::claim::{Claims, Owner};
use crate::config::Config;
use crate::state::snapshot::Snapshot;
use crate::strategies::strategy::{Strategy, TickInput};

/// Owners whose claims strategies make, CPU suppression aside.
const OWNERS: [Owner; 0] = [];

/// The strategies, and how often their claims changed.
pub(super) struct Strategies {
    all: Vec<Box<dyn Strategy>>,
    revision: u64,
    said: Once,
}

impl Strategies {
    /// Those whose gates are on.
    pub(super) fn new(config: &Config) -> Self {
        let all: Vec<Box<dyn Strategy>> = Vec::new();
        let is_on = config.reconcile_interval.is_some();
        Self { all: if is_on { all } else { Vec::new() }, revision: 0, said: Once::default() }
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Has each of them look at the node.
    pub(super) fn tick(&mut self, input: &TickInput<'_>) {
        let mut notices = Vec::new();
        for strategy in &mut self.all {
            if strategy.tick(input, &mut notices) {
                self.revision += 1;
            }
        }
        let lines = notices.iter().map(|notice| format!("{}: {}", notice.owner.name(), notice.text));
        for news in self.said.news(lines) {
            tracing::warn!(what = news, "QoS strategy");
        }
    }

    /// A number that is another one when a claim changed.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Adds the claims in force.
    pub(super) fn push_claims(&self, claims: &mut Claims) {
        for strategy in &self.all {
            claims.append(strategy.claims().clone());
        }
    }

    /// Owners that have had their say. One whose gate is off needs the pods and the policy only.
    pub(super) fn synced(&self, snapshot: &Snapshot) -> BTreeSet<Owner> {
        let has_decided = |owner: &Owner| {
            let strategy = self.all.iter().find(|strategy| strategy.owner() == *owner);
            strategy.map_or(snapshot.pods.synced && snapshot.slo.synced, |strategy| strategy.has_decided())
        };
        OWNERS.into_iter().filter(has_decided).collect()
    }
}
