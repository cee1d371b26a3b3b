//! The QoS strategies whose gates are on, CPU suppression aside: what they hold, and when it changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::once::Once;
use crate::cgroup::path::CgroupDir;
use crate::claims::claim::{Claims, Owner};
use crate::config::Config;
use crate::config::gates::Gate;
use crate::state::scaled::ScaledContainer;
use crate::state::snapshot::Snapshot;
use crate::strategies::cpu_burst::{BurstSettings, CpuBurst};
use crate::strategies::strategy::{Strategy, TickInput};
use crate::units::Nanos;

/// Owners whose claims strategies make, CPU suppression aside.
const OWNERS: [Owner; 1] = [Owner::CpuBurst];

/// The strategies, and how often their claims changed.
pub(super) struct Strategies {
    all: Vec<Box<dyn Strategy>>,
    revision: u64,
    said: Once,
}

impl Strategies {
    /// Those whose gates are on. `quotas` reads those that the kernel holds for containers, for whoever goes on from
    /// there.
    pub(super) fn new(config: &Config, quotas: impl FnOnce() -> BTreeMap<CgroupDir, i64>) -> Self {
        let mut all: Vec<Box<dyn Strategy>> = Vec::new();
        let Some(interval) = config.reconcile_interval else {
            return Self { all, revision: 0, said: Once::default() };
        };
        if config.gates.is_on(Gate::CpuBurst) {
            all.push(Box::new(CpuBurst::new(burst_settings(config, interval), quotas())));
        }
        Self { all, revision: 0, said: Once::default() }
    }

    /// These, whatever the gates.
    #[cfg(test)]
    pub(super) fn of(all: Vec<Box<dyn Strategy>>) -> Self {
        Self { all, revision: 0, said: Once::default() }
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether one of them has yet to decide for the first time.
    pub(super) fn await_inputs(&self) -> bool {
        self.all.iter().any(|strategy| !strategy.has_decided())
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

    /// Containers whose CPU limits may be scaled.
    pub(super) fn scaled(&self) -> Option<&Arc<Vec<ScaledContainer>>> {
        self.all.iter().find_map(|strategy| strategy.scaled())
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

fn burst_settings(config: &Config, interval: Duration) -> BurstSettings {
    // Without random numbers containers that start together are held back together, which is no harm.
    let seed = getrandom::u64().unwrap_or_default();
    let nanos = |time: Duration| Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    BurstSettings { interval: nanos(interval), collect_interval: nanos(config.collect.usage), seed }
}
