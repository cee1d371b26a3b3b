//! CPU suppression, qos.md 5.1: how much CPU best-effort pods may use right now, as claims.
//!
//! Pure: `step` looks at everything once a tick and moves the limit both ways at the spec's pace; `fast_look`
//! sees a short sample of the latency-sensitive load between ticks and only lowers it (design.md 2). Letting
//! go needs no code here: a claim that is no longer made falls back to its baseline.
//!
//! While an input is missing the limit stays where it is, for as long as it takes (Q38): growing could hurt
//! latency-sensitive pods, shrinking would punish best-effort pods for a blind agent. After `STALE_AFTER`
//! steps a condition of its own says so.

pub mod amount;
pub mod choose;
mod claims;
pub mod quota;
pub mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use amount::{Amount, AmountInput};
use choose::CpuChoice;
use quota::{QuotaChoice, QuotaStep};
use state::{Condition, Input, Limit, STALE_AFTER, SuppressState};

use crate::cgroup::path::CgroupDir;
use crate::claims::claim::Claim;
use crate::cpuset::CpuSet;
use crate::state::slo::SuppressPolicy;
use crate::state::snapshot::Snapshot;
use crate::state::topology::{KubeletCpuPolicy, Topology};
use crate::state::usage::Usage;
use crate::units::{CfsQuota, MilliCpu, Nanos};

/// Least time between two fast looks that lower the limit.
pub const FAST_LOOK_PAUSE: Nanos = Nanos(200_000_000);

/// How suppression is switched and paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuppressSettings {
    /// Gate `BECPUSuppress`.
    pub enabled: bool,
    /// Gate `BECPUManager`.
    pub be_cpu_manager: bool,
    /// Time between full steps; 0 switches suppression off.
    pub interval: Nanos,
    /// Time between samples; a sample older than two of these is none.
    pub collect_interval: Nanos,
}

/// Everything that a step looks at.
#[derive(Clone, Copy, Debug)]
pub struct SuppressInput<'a> {
    /// Node, pods, policy, CPUs and directories.
    pub snapshot: &'a Snapshot,
    /// For `step` the last full sample, for `fast_look` one of pods and host applications over the last 200 ms.
    pub usage: &'a Usage,
    /// The best-effort directory.
    pub be_dir: &'a CgroupDir,
    /// Switches and pace.
    pub settings: SuppressSettings,
}

/// What a step decided.
#[derive(Clone, Debug, PartialEq)]
pub struct SuppressOutcome {
    /// All claims of suppression; they replace the ones before.
    pub claims: Vec<Claim>,
    /// The memory for the next step.
    pub state: SuppressState,
    /// Conditions that are new with this step.
    pub notices: Vec<Condition>,
    /// Figures for metrics, where there are any.
    pub figures: Option<Figures>,
}

/// Figures for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Use of all pods that are not BE (`be_suppress_ls_used_cpu_cores`).
    pub ls_used: MilliCpu,
    /// The amount for BE; may be negative.
    pub amount: MilliCpu,
    /// The limit in force (`be_suppress_cpu_cores`); `None` without one.
    pub limit: Option<MilliCpu>,
    /// What limits: `cpuset` or `cfsQuota`, the metric's `type`; `None` without a limit.
    pub policy: Option<&'static str>,
}

/// What a step may do.
enum Mode<'a> {
    /// Suppression is off: no claims.
    Off(Option<Condition>),
    /// An input is missing: the claims stay.
    Keep(Input),
    /// Everything is there.
    On(&'a Topology, Amount),
}

/// One full step.
pub fn step(input: &SuppressInput<'_>, state: &SuppressState, now: Nanos) -> SuppressOutcome {
    let mut next = state.clone();
    let mut conditions = BTreeSet::new();
    match mode(input, now) {
        Mode::Off(condition) => {
            conditions.extend(condition);
            next.decided = true;
            next.misses = 0;
            next.release(input.snapshot.topology.as_deref());
        }
        Mode::Keep(missing) => {
            conditions.insert(Condition::Missing(missing));
            next.misses = next.misses.saturating_add(1);
            if next.misses >= STALE_AFTER && next.held.is_some() {
                conditions.insert(Condition::Stale);
            }
        }
        Mode::On(topology, amount) => {
            next.misses = 0;
            match next_limit(input, &next, topology, &amount) {
                Ok(limit) => {
                    conditions.extend(shortage(&limit));
                    next.decided = true;
                    next.hold(limit, &amount, topology);
                }
                Err(condition) => drop(conditions.insert(condition)),
            }
            next.amount = Some(amount);
        }
    }
    outcome(input, next, conditions)
}

/// A look between full steps: the same formula with the last full step's system use. It lowers the limit by at
/// least the smallest step (quota) or one CPU (cpuset), or replaces CPUs that BE may no longer use; it never
/// raises, and lowers at most once in `FAST_LOOK_PAUSE`. `None`: nothing to change.
pub fn fast_look(input: &SuppressInput<'_>, state: &SuppressState, now: Nanos) -> Option<SuppressOutcome> {
    let slo = &input.snapshot.slo;
    let running = matches!(switch(input), Switch::On) && slo.synced && slo.suppress.enable;
    if !running || state.looked.is_some_and(|looked| now - looked < FAST_LOOK_PAUSE) {
        return None;
    }
    let topology = input.snapshot.topology.as_deref()?;
    let amount = amount::fast_amount(&amount_input(input, topology)?, state.amount.as_ref()?)?;
    let limit = match (&state.held.as_ref()?.limit, slo.suppress.policy) {
        (Limit::Quota(held), SuppressPolicy::CfsQuota) => lower_quota(held, &amount)?,
        (Limit::Cpus { choice, .. }, SuppressPolicy::Cpuset) => lower_cpus(choice, &amount, topology)?,
        _ => return None,
    };
    let mut next = state.clone();
    next.hold(limit, &amount, topology);
    next.looked = Some(now);
    let conditions = next.conditions.clone();
    let figures = Some(figures(&next, &amount));
    Some(SuppressOutcome { figures, ..outcome(input, next, conditions) })
}

/// The claims of the limit in force for the directories and pods that there are now, without a step.
pub fn claims_in_force(input: &SuppressInput<'_>, state: &SuppressState) -> Vec<Claim> {
    state.held.as_ref().map(|held| claims::claims(held, input)).unwrap_or_default()
}

fn outcome(
    input: &SuppressInput<'_>,
    mut state: SuppressState,
    conditions: BTreeSet<Condition>,
) -> SuppressOutcome {
    let notices = state.set_conditions(conditions);
    let claims = claims_in_force(input, &state);
    let figures = state.amount.as_ref().map(|amount| figures(&state, amount));
    SuppressOutcome { claims, state, notices, figures }
}

fn figures(state: &SuppressState, amount: &Amount) -> Figures {
    let limit = state.held.as_ref().map(|held| &held.limit);
    Figures {
        ls_used: amount.ls_pods,
        amount: amount.amount,
        limit: limit.and_then(Limit::cpu),
        policy: limit.map(Limit::policy),
    }
}

/// What the flags say.
enum Switch {
    On,
    Off,
    /// Another gate switches suppression off although the policy asks for it.
    Overruled,
}

fn switch(input: &SuppressInput<'_>) -> Switch {
    let settings = &input.settings;
    if !settings.enabled || settings.interval == Nanos(0) {
        return Switch::Off;
    }
    match (settings.be_cpu_manager, input.snapshot.slo.suppress.enable) {
        (false, _) => Switch::On,
        // The reference lets BECPUManager win (Q1); the difference is that it is said aloud.
        (true, true) => Switch::Overruled,
        (true, false) => Switch::Off,
    }
}

fn mode<'a>(input: &SuppressInput<'a>, now: Nanos) -> Mode<'a> {
    let slo = &input.snapshot.slo;
    if !slo.synced && input.settings.enabled {
        return Mode::Keep(Input::Slo);
    }
    match switch(input) {
        Switch::Off => return Mode::Off(None),
        Switch::Overruled => return Mode::Off(Some(Condition::GateConflict)),
        Switch::On if !slo.suppress.enable => return Mode::Off(None),
        Switch::On => {}
    }
    let Some(topology) = input.snapshot.topology.as_deref().filter(|topology| !topology.cpus.is_empty())
    else {
        return Mode::Keep(Input::Cpus);
    };
    let Some(amount_input) = amount_input(input, topology) else {
        return Mode::Keep(Input::Node);
    };
    if amount::capacity(amount_input.node).is_none() {
        return Mode::Keep(Input::Node);
    }
    if !input.snapshot.pods.synced || input.snapshot.pods.pods.is_empty() {
        return Mode::Keep(Input::Pods);
    }
    let oldest = Nanos(input.settings.collect_interval.0.saturating_mul(2));
    if now - input.usage.at > oldest {
        return Mode::Keep(Input::Usage);
    }
    amount::full_amount(&amount_input).map_or(Mode::Keep(Input::Usage), |amount| Mode::On(topology, amount))
}

fn amount_input<'a>(input: &SuppressInput<'a>, topology: &Topology) -> Option<AmountInput<'a>> {
    Some(AmountInput {
        node: input.snapshot.node.as_deref()?,
        annotation_reserved: topology.reserved_amount,
        pods: &input.snapshot.pods,
        slo: &input.snapshot.slo,
        usage: input.usage,
    })
}

/// The limit that the policy in force asks for.
fn next_limit(
    input: &SuppressInput<'_>,
    state: &SuppressState,
    topology: &Topology,
    amount: &Amount,
) -> Result<Limit, Condition> {
    match input.snapshot.slo.suppress.policy {
        SuppressPolicy::CfsQuota => {
            let choice = quota::choose_quota(amount.amount, amount.capacity, state.quota);
            Ok(Limit::Quota(choice))
        }
        SuppressPolicy::Cpuset => {
            if topology.kubelet_policy == KubeletCpuPolicy::Unknown {
                return Err(Condition::PolicyUnknown);
            }
            let before = state.cpus.as_ref().map(CpuSet::len);
            let choice = choose::choose_cpus(amount.amount, before, topology);
            choice.map(|choice| cpus_limit(choice, topology)).ok_or(Condition::NothingAllowed)
        }
    }
}

fn cpus_limit(choice: CpuChoice, topology: &Topology) -> Limit {
    let is_static = topology.kubelet_policy == KubeletCpuPolicy::Static;
    Limit::Cpus { choice, pool: is_static.then(|| topology.be_pool.clone()) }
}

fn shortage(limit: &Limit) -> Option<Condition> {
    let Limit::Cpus { choice, .. } = limit else { return None };
    (choice.allowed < choice.wanted).then_some(Condition::TooFewCpus)
}

/// A lower quota, if it is lower by at least the smallest step or is the floor.
fn lower_quota(held: &QuotaChoice, amount: &Amount) -> Option<Limit> {
    let target_us = quota::target_us(amount.amount);
    let lower_by = held.quota.micros()?.saturating_sub(target_us);
    let least = if target_us == quota::FLOOR_US { 1 } else { quota::min_delta_us(amount.capacity).max(1) };
    let quota = CfsQuota::Micros(target_us);
    (lower_by >= least).then_some(Limit::Quota(QuotaChoice { quota, target_us, step: QuotaStep::Target }))
}

/// Fewer CPUs, or as many others if some of the held ones may not be used any more.
fn lower_cpus(held: &CpuChoice, amount: &Amount, topology: &Topology) -> Option<Limit> {
    if topology.kubelet_policy == KubeletCpuPolicy::Unknown {
        return None;
    }
    let choice = choose::choose_at_most(amount.amount, Some(held.cpus.len()), topology)?;
    let must_move = !held.cpus.is_subset(&topology.be_pool);
    (choice.cpus.len() < held.cpus.len() || must_move).then(|| cpus_limit(choice, topology))
}
