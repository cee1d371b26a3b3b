//! Why a target holds what it holds: the chain of claims as data, and as lines of text. Knows nothing of
//! what is in the kernel; the executor adds that.

use std::fmt::Write as _;

use serde::Serialize;

use super::claim::{Claim, Owner, Wish};
use super::combine::precedence;
use super::plan::{Decision, Desired};
use super::target::CgroupTarget;
use crate::cgroup::value::Value;

/// One claim on a target and what became of it (an element of `claims` in `explain -o json`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedClaim {
    /// Who claimed.
    pub owner: Owner,
    /// The value as text; `None` where the wish is to leave the target alone.
    pub value: Option<String>,
    /// Why it was claimed.
    pub reason: String,
    /// Whether it decided.
    pub won: bool,
    /// What made it lose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// The chain of claims on one target, the deciding one first. `text` writes a value as this host's kernel
/// does.
pub fn chain(
    target: &CgroupTarget,
    desired: &Desired,
    text: impl Fn(&Value) -> String,
) -> Vec<ExplainedClaim> {
    let winner = desired.claims.first();
    let explained = |(index, claim): (usize, &Claim)| ExplainedClaim {
        owner: claim.owner,
        value: match &claim.wish {
            Wish::Hold(value) => Some(text(value)),
            Wish::Leave => None,
        },
        reason: claim.reason.text.clone(),
        won: index == 0,
        lost: winner.filter(|_| index > 0).map(|winner| why_lost(target, winner, claim)),
    };
    desired.claims.iter().enumerate().map(explained).collect()
}

/// The table's reason where the table decided, else the winner's own: it followed from other targets.
fn why_lost(target: &CgroupTarget, winner: &Claim, loser: &Claim) -> String {
    let CgroupTarget { resource, .. } = target;
    let order = precedence(*resource);
    let place = |owner| order.iter().position(|rank| rank.owner == owner);
    match (place(winner.owner), place(loser.owner)) {
        _ if winner.owner == loser.owner => format!("overruled: {}", winner.reason.text),
        (Some(first), Some(second)) if first > second => format!("overruled: {}", winner.reason.text),
        (Some(first), _) => {
            format!("yields to {}: {}", winner.owner.name(), order.get(first).map_or("", |rank| rank.why))
        }
        (None, _) => format!("yields to {}, which comes first", winner.owner.name()),
    }
}

/// The same chain as lines: the decision, then each claim that lost.
pub fn lines(target: &CgroupTarget, desired: &Desired, text: impl Fn(&Value) -> String) -> Vec<String> {
    let decision = match &desired.decision {
        Decision::Hold(value) => format!("hold {}", text(value)),
        Decision::Leave => "leave to others".to_owned(),
        Decision::Release(value) => format!("not claimed; falls back to {}", text(value)),
    };
    let mut lines = vec![format!("{target}: {decision}")];
    for claim in chain(target, desired, text) {
        let mark = if claim.won { "won " } else { "lost" };
        let value = claim.value.as_deref().unwrap_or("leave");
        let mut line = format!("  {mark} {} = {value}: {}", claim.owner.name(), claim.reason);
        if let Some(lost) = claim.lost {
            // Writing to a String cannot fail.
            _ = write!(line, " [{lost}]");
        }
        lines.push(line);
    }
    lines
}
