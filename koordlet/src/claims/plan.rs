//! The combined result: one decision for each target, with the chain of claims behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claim::{Claim, Owner, Reason};
use super::network::NetworkTarget;
use super::own_file::OwnFile;
use super::resctrl::ResctrlTarget;
use super::target::{CgroupTarget, HostFile, Target, TaskTarget};
use crate::cgroup::value::Value;

/// What the executor has to make true for one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<V = Value> {
    /// Hold this value against others.
    Hold(V),
    /// Write nothing and forget a value of ours without restoring it.
    Leave,
    /// Nobody but a baseline claims it: if the ledger says that we changed it, write this value once and let
    /// go; else do nothing.
    Release(V),
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
#[derive(Clone, Debug, PartialEq)]
pub struct Desired<T: Target = CgroupTarget> {
    /// What to do.
    pub decision: Decision<T::Value>,
    /// Owner of the claim that decided.
    pub owner: Owner,
    /// Its reason.
    pub reason: Arc<Reason>,
    /// All claims on the target, the deciding one first.
    pub claims: Vec<Claim<T>>,
    /// The write group of a cgroup file; of anything else, that of the host.
    pub subtree: Subtree,
}

/// The state of the world that the executor makes true. A target that is not in it and is in the ledger is
/// restored to its recorded original once all owners in `synced` cover the ledger entry's owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// One decision a cgroup file, shared with the plans before and after it that say the same.
    pub entries: BTreeMap<CgroupTarget, Arc<Desired>>,
    /// One decision a setting of the host.
    pub host_files: BTreeMap<HostFile, Desired<HostFile>>,
    /// One decision an attribute of a directory's tasks.
    pub tasks: BTreeMap<TaskTarget, Desired<TaskTarget>>,
    /// One decision a setting of resctrl.
    pub resctrl: BTreeMap<ResctrlTarget, Desired<ResctrlTarget>>,
    /// One decision an object of the node's network.
    pub network: BTreeMap<NetworkTarget, Desired<NetworkTarget>>,
    /// One decision a file of our own making.
    pub own_files: BTreeMap<OwnFile, Desired<OwnFile>>,
    /// Owners whose inputs have been seen at least once: only their ledger entries may be judged.
    pub synced: BTreeSet<Owner>,
}

impl Plan {
    /// Cgroup files of which this plan and an `older` one say something else, or only one of them says anything.
    pub fn changed_from(&self, older: &Self) -> Vec<CgroupTarget> {
        let mut changed = Vec::new();
        let mut before = older.entries.iter().peekable();
        for (target, desired) in &self.entries {
            while let Some((gone, _)) = before.next_if(|(known, _)| *known < target) {
                changed.push(gone.clone());
            }
            let known = before.next_if(|(known, _)| *known == target);
            let same = known.is_some_and(|(_, known)| {
                Arc::ptr_eq(known, desired)
                    || (known.decision == desired.decision && known.owner == desired.owner)
            });
            if !same {
                changed.push(target.clone());
            }
        }
        changed.extend(before.map(|(gone, _)| gone.clone()));
        changed
    }

    /// Whether `other` says the same of all that is no cgroup file.
    pub(super) fn is_but_for_entries(&self, other: &Self) -> bool {
        let Self { entries: _, host_files, tasks, resctrl, network, own_files, synced } = self;
        *host_files == other.host_files
            && *tasks == other.tasks
            && *resctrl == other.resctrl
            && *network == other.network
            && *own_files == other.own_files
            && *synced == other.synced
    }
}
