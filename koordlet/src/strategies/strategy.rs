//! What a QoS strategy is, besides CPU suppression, which has a pace of its own: something that looks at the node once a
//! tick and holds claims until the next. Pure; what it remembers is its own.

use std::fmt;

use crate::claims::claim::{Claims, Owner};
use crate::state::series::shared::SharedSeries;
use crate::state::snapshot::Snapshot;
use crate::units::Nanos;

/// A strategy, qos.md 5.
pub trait Strategy: fmt::Debug + Send {
    /// Whose claims it makes.
    fn owner(&self) -> Owner;

    /// Looks at the node and decides anew. Says whether its claims are other ones than before.
    fn tick(&mut self, input: &TickInput<'_>, notices: &mut Vec<StrategyNotice>) -> bool;

    /// The claims in force.
    fn claims(&self) -> &Claims;

    /// Whether it could decide at least once, so that ledger entries of its owner may be judged.
    fn has_decided(&self) -> bool;
}

/// What a tick looks at.
#[derive(Clone, Copy, Debug)]
pub struct TickInput<'a> {
    /// Node, pods, policy, CPUs, directories, usage.
    pub snapshot: &'a Snapshot,
    /// What was collected.
    pub series: &'a SharedSeries,
    /// What the rules wish at this moment.
    pub rules: &'a Claims,
    /// `CLOCK_MONOTONIC`
    pub now: Nanos,
}

/// Something to be told once, and again only after it was over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyNotice {
    /// Whose.
    pub owner: Owner,
    /// One sentence: what is missing or refused, and what applies instead.
    pub text: String,
}
