//! The combined result: one decision for each target, with the chain of claims behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claim::{Claim, Owner, Reason};
use super::target::Target;
use crate::cgroup::value::Value;

/// What the executor has to make true for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Hold this value against others.
    Hold(Value),
    /// Write nothing and forget a value of ours without restoring it.
    Leave,
    /// Nobody but a baseline claims it: if the ledger says that we changed it, write this value once and let
    /// go; else do nothing.
    Release(Value),
}

/// Which lock-step group of writes a target belongs to: order holds within one subtree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subtree {
    /// kubepods and the QoS class directories, and everything that spans pods.
    Class,
    /// One pod directory and what is beneath it, by pod UID.
    Pod(Arc<str>),
}

/// A decision with its chain of reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// What to do.
    pub decision: Decision,
    /// Owner of the claim that decided.
    pub owner: Owner,
    /// Its reason.
    pub reason: Arc<Reason>,
    /// All claims on the target, the deciding one first.
    pub claims: Vec<Claim>,
    /// The write group.
    pub subtree: Subtree,
}

/// The state of the world that the executor makes true. A target that is not in it and is in the ledger is
/// restored to its recorded original once all owners in `synced` cover the ledger entry's owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// One decision a target.
    pub entries: BTreeMap<Target, Desired>,
    /// Owners whose inputs have been seen at least once: only their ledger entries may be judged.
    pub synced: BTreeSet<Owner>,
}
