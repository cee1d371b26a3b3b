//! Snapshot -> plan: feeds the rules, keeps suppression's memory, combines all claims. Reads nothing itself
//! but what the kernel holds at start.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::once::Once;
use super::strategies::Strategies;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::semantics::Semantics;
use crate::claims::claim::{Owner, PodClaims};
use crate::claims::combine::PlanInput;
use crate::claims::mainline::{MainlineHost, substitute};
use crate::claims::plan::Plan;
use crate::claims::planner::Planner;
use crate::error_chain::chain;
use crate::rules::{RuleNotice, RuleSettings, Rules};
use crate::state::scaled::ScaledContainer;
use crate::state::series::shared::SharedSeries;
use crate::state::snapshot::Snapshot;
use crate::state::usage::Usage;
use crate::strategies::cpu_suppress::state::{Condition, Held, SuppressState};
use crate::strategies::cpu_suppress::{
    Figures, SuppressInput, SuppressOutcome, SuppressSettings, claims_in_force, fast_look, step,
};
use crate::strategies::strategy::{RuleClaims, TickInput};
use crate::units::Nanos;

/// All deciders and what they remember.
pub(super) struct Decider {
    rules: Rules,
    mainline_equivalents: bool,
    strategies: Strategies,
    suppress: SuppressState,
    figures: Option<Figures>,
    settings: SuppressSettings,
    be_dir: CgroupDir,
    semantics: Semantics,
    planner: Planner,
    planned: Option<Planned>,
    refused: Once,
}

/// What the last plan was made from. Snapshots are shared and only replaced by different ones, so that comparing
/// their addresses tells whether anything is new. Usage is not part of it: only suppression looks at that.
struct Planned {
    snapshot: Snapshot,
    held: Option<Held>,
    decided: bool,
    strategies: u64,
}

impl Planned {
    fn is_from(&self, snapshot: &Snapshot, held: Option<&Held>, decided: bool, strategies: u64) -> bool {
        let Snapshot { node, pods, slo, topology, tree, dirs, kernel, usage: _ } = &self.snapshot;
        same(node.as_ref(), snapshot.node.as_ref())
            && same(topology.as_ref(), snapshot.topology.as_ref())
            && Arc::ptr_eq(pods, &snapshot.pods)
            && Arc::ptr_eq(slo, &snapshot.slo)
            && Arc::ptr_eq(tree, &snapshot.tree)
            && Arc::ptr_eq(dirs, &snapshot.dirs)
            && Arc::ptr_eq(kernel, &snapshot.kernel)
            && self.held.as_ref() == held
            && self.decided == decided
            && self.strategies == strategies
    }
}

fn mainline_host(snapshot: &Snapshot) -> MainlineHost<'_> {
    MainlineHost {
        files: &snapshot.kernel.files,
        pods: &snapshot.pods,
        tree: &snapshot.tree,
        topology: snapshot.topology.as_deref(),
    }
}

fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

impl Decider {
    /// Deciders of a starting agent; `suppress` holds what the kernel's files said.
    pub(super) fn new(
        rules: &RuleSettings,
        strategies: Strategies,
        settings: SuppressSettings,
        suppress: SuppressState,
        be_dir: CgroupDir,
        semantics: Semantics,
    ) -> Self {
        Self {
            rules: Rules::new(rules),
            mainline_equivalents: rules.mainline_equivalents,
            strategies,
            suppress,
            figures: None,
            settings,
            be_dir,
            semantics,
            planner: Planner::default(),
            planned: None,
            refused: Once::default(),
        }
    }

    /// One tick of the other strategies.
    pub(super) fn tick(&mut self, snapshot: &Snapshot, series: &SharedSeries, now: Nanos) {
        self.observe(snapshot);
        let Self { rules, strategies, .. } = self;
        let claims = || rules.claims(snapshot);
        strategies.tick(&TickInput { snapshot, series, rules: &RuleClaims::new(&claims), now });
    }

    /// Containers whose CPU limits may be scaled.
    pub(super) fn scaled(&self) -> Option<&Arc<Vec<ScaledContainer>>> {
        self.strategies.scaled()
    }

    /// Whether a strategy has yet to decide for the first time.
    pub(super) fn awaits_strategies(&self) -> bool {
        self.strategies.await_inputs()
    }

    /// Whether a tick has anybody to ask.
    pub(super) fn has_strategies(&self) -> bool {
        !self.strategies.is_empty()
    }

    /// Suppression's full step, both directions.
    pub(super) fn suppress(&mut self, snapshot: &Snapshot, now: Nanos) {
        let outcome = step(&self.input(snapshot, &snapshot.usage), &self.suppress, now);
        self.take(outcome);
    }

    /// Suppression's look between full steps, with usage over the last 200 ms. Whether the limit was lowered.
    pub(super) fn look(&mut self, snapshot: &Snapshot, recent: &Usage, now: Nanos) -> bool {
        let outcome = fast_look(&self.input(snapshot, recent), &self.suppress, now);
        outcome.map(|outcome| self.take(outcome)).is_some()
    }

    /// Whether a look could change anything: suppression holds a limit.
    pub(super) fn is_suppressing(&self) -> bool {
        self.suppress.held.is_some()
    }

    /// Suppression's figures, if there are new ones.
    pub(super) fn take_figures(&mut self) -> Option<Figures> {
        self.figures.take()
    }

    /// The plan for the world as it is, or `None` if it is the same as the last one.
    pub(super) fn plan(&mut self, snapshot: &Snapshot) -> Option<Arc<Plan>> {
        let (held, decided) = (self.suppress.held.clone(), self.suppress.decided);
        let strategies = self.strategies.revision();
        let planned = self.planned.as_ref();
        if planned.is_some_and(|planned| planned.is_from(snapshot, held.as_ref(), decided, strategies)) {
            return None;
        }
        self.planned = Some(Planned { snapshot: snapshot.clone(), held, decided, strategies });
        self.observe(snapshot);
        let (mut claims, by_pod) = if self.mainline_equivalents {
            // Substitution looks at all claims on a directory at once.
            (self.rules.claims(snapshot), PodClaims::new())
        } else {
            (self.rules.claims_beside_pods(snapshot), self.rules.claims_of_pods(snapshot))
        };
        claims.cgroup.extend(claims_in_force(&self.input(snapshot, &snapshot.usage), &self.suppress));
        self.strategies.push_claims(&mut claims);
        if self.mainline_equivalents {
            substitute(&mut claims.cgroup, mainline_host(snapshot));
        }
        let input = PlanInput {
            pods: &snapshot.pods,
            topology: snapshot.topology.as_deref(),
            tree: &snapshot.tree,
            semantics: self.semantics,
            claims,
            synced: self.synced(snapshot),
        };
        self.planner.plan(input, &by_pod)
    }

    fn observe(&mut self, snapshot: &Snapshot) {
        let mut refused = Vec::new();
        for notice in self.rules.observe(snapshot) {
            match notice {
                RuleNotice::Changed { rule, now } => tracing::info!(rule, now, "rule changed"),
                RuleNotice::Refused { rule, object, error } => {
                    refused.push(format!("{rule}: {object}: {}", chain(&error)));
                }
            }
        }
        for line in refused {
            for news in self.refused.news([line]) {
                tracing::warn!(what = news, "refused; the last good rule stays");
            }
        }
    }

    /// Owners whose inputs were seen, so that their ledger entries may be judged.
    fn synced(&self, snapshot: &Snapshot) -> BTreeSet<Owner> {
        let mut synced: BTreeSet<Owner> = self.rules.synced(snapshot).collect();
        synced.extend(self.strategies.synced(snapshot));
        if self.suppress.decided {
            synced.insert(Owner::CpuSuppress);
        }
        if snapshot.pods.synced {
            synced.extend([Owner::PodSpec, Owner::KubeletExclusive]);
        }
        if snapshot.topology.is_some() {
            synced.extend([Owner::BePool, Owner::BeUnlimited]);
        }
        synced
    }

    fn take(&mut self, outcome: SuppressOutcome) {
        for condition in outcome.notices {
            if matches!(condition, Condition::Missing(_)) {
                // Every start has these, until all sources have delivered.
                tracing::info!(%condition, "CPU suppression");
            } else {
                tracing::warn!(%condition, "CPU suppression");
            }
        }
        self.figures = outcome.figures.or(self.figures.take());
        match (&self.suppress.held, &outcome.state.held) {
            (None, Some(held)) => {
                tracing::info!(policy = held.limit.policy(), "CPU suppression limits best-effort pods");
            }
            (Some(_), None) => tracing::info!("CPU suppression lets best-effort pods go"),
            _ => {}
        }
        self.suppress = outcome.state;
    }

    fn input<'a>(&'a self, snapshot: &'a Snapshot, usage: &'a Usage) -> SuppressInput<'a> {
        SuppressInput { snapshot, usage, be_dir: &self.be_dir, settings: self.settings }
    }
}

#[cfg(test)]
mod tests;
