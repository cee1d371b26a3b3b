//! What a QoS strategy is, besides CPU suppression, which has a pace of its own: something that looks at the node once a
//! tick and holds claims until the next. Pure; what it remembers is its own.

use std::cell::OnceCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::claims::claim::{Claims, Owner};
use crate::state::scaled::ScaledContainer;
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

    /// Figures of containers whose CPU limit it may scale, for metrics; `None` for a strategy that never does.
    fn scaled(&self) -> Option<&Arc<Vec<ScaledContainer>>> {
        None
    }
}

/// What the rules wish, worked out when somebody asks: most ticks nobody does.
pub struct RuleClaims<'a> {
    made: OnceCell<Claims>,
    make: &'a dyn Fn() -> Claims,
}

impl<'a> RuleClaims<'a> {
    /// Those that `make` gives.
    pub fn new(make: &'a dyn Fn() -> Claims) -> Self {
        Self { made: OnceCell::new(), make }
    }
}

impl From<Claims> for RuleClaims<'_> {
    fn from(claims: Claims) -> Self {
        Self { made: claims.into(), make: &Claims::default }
    }
}

impl Deref for RuleClaims<'_> {
    type Target = Claims;

    fn deref(&self) -> &Claims {
        self.made.get_or_init(self.make)
    }
}

impl fmt::Debug for RuleClaims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RuleClaims").field(&self.made).finish()
    }
}

/// What a tick looks at.
#[derive(Clone, Copy, Debug)]
pub struct TickInput<'a> {
    /// Node, pods, policy, CPUs, directories, usage.
    pub snapshot: &'a Snapshot,
    /// What was collected.
    pub series: &'a SharedSeries,
    /// What the rules wish at this moment.
    pub rules: &'a RuleClaims<'a>,
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
