//! Who yields to whom: one table for each kind of target, and the combination of all claims into one plan.
//!
//! Combination (`planner`) is bottom-up: each target's own claims are ordered by the table, then a pod directory's
//! quota grows by the bursts of its containers (`burst`) and is fitted to them (`pod`), then the class directories to the pods (`class`), and CPU lists to those
//! beneath them (`cpus`). Baselines
//! (`baseline`) come last in every order, so that a withdrawn claim falls back to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claim::{Claim, Claims, Owner, PodClaims, Wish};
use super::plan::{Decision, Desired, Plan, Subtree};
use super::planner::Planner;
use super::target::Target;
use crate::cgroup::resource::Resource;
use crate::cgroup::semantics::Semantics;
use crate::cgroup::value::Value;
use crate::state::pods::PodTable;
use crate::state::topology::Topology;
use crate::state::tree::CgroupTree;

/// One owner's place in the order of a kind of target.
#[derive(Clone, Copy, Debug)]
pub struct Rank {
    /// Who.
    pub owner: Owner,
    /// Why it comes before the owners after it.
    pub why: &'static str,
}

const fn rank(owner: Owner, why: &'static str) -> Rank {
    Rank { owner, why }
}

const CFS_QUOTA: &[Rank] = &[
    rank(Owner::KubeletExclusive, "the kubelet lifts the quota of containers with exclusive CPUs itself"),
    rank(
        Owner::CpuSuppress,
        "a finite quota beneath a limited best-effort directory would refuse that directory's quota",
    ),
    rank(Owner::CpuSetAllocator, "CPUs of the pod's own are its limit"),
    rank(
        Owner::CpuBurst,
        "a burst starts from what the owners after it yield and only lifts it; where one of them is higher, that counts",
    ),
    rank(Owner::BatchResource, "a best-effort pod's limit is its batch limit"),
    rank(Owner::CpuNormalization, "the scaled limit replaces the one that the kubelet computed"),
    rank(Owner::BeUnlimited, "the best-effort directory has no quota of its own"),
    rank(Owner::PodSpec, "the pod's own spec"),
];

const CPUS: &[Rank] = &[
    rank(Owner::KubeletExclusive, "exclusive CPUs are the kubelet's to give"),
    rank(
        Owner::CpuSetAllocator,
        "an allocation or a class that is not best effort; what all best-effort pods share is another matter",
    ),
    rank(Owner::CpuSuppress, "the load decides how many CPUs best-effort pods may use now"),
    rank(Owner::PodSpec, "CPUs that the scheduler allocated to one pod are narrower than the pool"),
    rank(Owner::BePool, "the pool of all best-effort pods"),
];

const CPU_SHARES: &[Rank] = &[
    rank(Owner::BatchResource, "a best-effort pod's weight is its batch request"),
    rank(
        Owner::GroupIdentity,
        "where weight stands in for an identity, it multiplies what the pod's spec asks for",
    ),
    rank(Owner::PodSpec, "the pod's own spec"),
];

const MEMORY_LIMIT: &[Rank] = &[
    rank(Owner::BatchResource, "a best-effort pod's limit is its batch limit"),
    rank(Owner::PodSpec, "the pod's own spec"),
];

/// The precedence of owners on one kind of target, first wins. Owners that are not listed come after the
/// listed ones, in the order of [`Owner`].
pub fn precedence(resource: Resource) -> &'static [Rank] {
    match resource {
        Resource::CfsQuota => CFS_QUOTA,
        Resource::Cpus => CPUS,
        Resource::CpuShares => CPU_SHARES,
        Resource::MemoryLimit => MEMORY_LIMIT,
        _ => &[],
    }
}

/// Sorts first what wins.
fn place<T: Target>(target: &T, owner: Owner) -> (usize, Owner) {
    let order = target.precedence();
    (order.iter().position(|rank| rank.owner == owner).unwrap_or(order.len()), owner)
}

/// What a plan is made from.
#[derive(Clone, Debug)]
pub struct PlanInput<'a> {
    /// Pods of this node.
    pub pods: &'a PodTable,
    /// CPUs and who may use them, once known.
    pub topology: Option<&'a Topology>,
    /// Directories that exist.
    pub tree: &'a CgroupTree,
    /// What this host's kernel refuses.
    pub semantics: Semantics,
    /// Claims of rules and strategies, in any order.
    pub claims: Claims,
    /// Owners whose inputs have been seen; handed through to the executor.
    pub synced: BTreeSet<Owner>,
}

/// Combines all claims and baselines to one decision a target.
pub fn plan(input: PlanInput<'_>) -> Plan {
    let plan = Planner::default().plan(input, &PodClaims::new());
    plan.map(Arc::unwrap_or_clone).unwrap_or_default()
}

/// Claims -> one decision a target, by the precedence of each.
pub(super) fn group<T: Target>(
    mut claims: Vec<Claim<T>>,
    subtree: impl Fn(&T) -> Subtree,
) -> BTreeMap<T, Desired<T>> {
    // Stable, so that of two claims of one owner the first stays first.
    claims.sort_by(|a, b| {
        a.target.cmp(&b.target).then_with(|| place(&a.target, a.owner).cmp(&place(&b.target, b.owner)))
    });
    let mut entries: Vec<(T, Desired<T>)> = Vec::new();
    for claim in claims {
        match entries.last_mut() {
            Some((target, desired)) if *target == claim.target => desired.claims.push(claim),
            _ => {
                let subtree = subtree(&claim.target);
                entries.push((claim.target.clone(), Desired::decided_by(claim, Vec::new(), subtree)));
            }
        }
    }
    entries.into_iter().collect()
}

impl<T: Target> Desired<T> {
    /// The decision that `winner` makes, with the claims that it beat.
    pub(crate) fn decided_by(winner: Claim<T>, beaten: Vec<Claim<T>>, subtree: Subtree) -> Self {
        let decision = match &winner.wish {
            Wish::Leave => Decision::Leave,
            Wish::Hold(value) if winner.owner.is_baseline() => Decision::Release(value.clone()),
            Wish::Hold(value) => Decision::Hold(value.clone()),
        };
        let (owner, reason) = (winner.owner, Arc::clone(&winner.reason));
        // Most targets have one claim, and there are many: room for it and no more.
        let mut claims = Vec::with_capacity(1 + beaten.len());
        claims.push(winner);
        claims.extend(beaten);
        Self { decision, owner, reason, claims, subtree }
    }
}

impl Desired {
    /// The finite quota that the target is to hold or fall back to, in microseconds per 100 ms.
    pub(super) fn quota(&self) -> Option<i64> {
        match &self.decision {
            Decision::Hold(Value::Quota(quota)) | Decision::Release(Value::Quota(quota)) => quota.micros(),
            _ => None,
        }
    }

    /// Lets the claim after the deciding one decide, which stays in the chain behind it.
    pub(super) fn step_back(&mut self) {
        if self.claims.len() < 2 {
            return;
        }
        let beaten_before = self.claims.remove(0);
        let winner = self.claims.remove(0);
        let mut beaten = std::mem::take(&mut self.claims);
        beaten.insert(0, beaten_before);
        *self = Self::decided_by(winner, beaten, self.subtree.clone());
    }

    /// Lets `winner`, a claim that follows from other targets' decisions, decide before all others.
    pub(super) fn overrule(&mut self, winner: Claim) {
        let beaten = std::mem::take(&mut self.claims);
        *self = Self::decided_by(winner, beaten, self.subtree.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::CgroupTarget;
    use super::super::testing::{BOUNDED, UNBOUNDED, dir, plan_of, said};
    use super::*;
    use crate::units::{CfsQuota, CpuShares, MemoryLimit};

    const OWNERS: [Owner; 9] = [
        Owner::KubeletExclusive,
        Owner::CpuSetAllocator,
        Owner::BatchResource,
        Owner::CpuNormalization,
        Owner::CpuSuppress,
        Owner::CpuBurst,
        Owner::PodSpec,
        Owner::BePool,
        Owner::BeUnlimited,
    ];

    fn claim(resource: Resource, owner: Owner, figure: i64) -> Claim {
        let figure_u64 = figure.unsigned_abs();
        let value = match resource {
            Resource::CfsQuota => Value::Quota(CfsQuota::Micros(figure)),
            Resource::CpuShares => Value::Shares(CpuShares(figure_u64)),
            Resource::MemoryLimit => Value::Memory(MemoryLimit::Bytes(figure_u64)),
            Resource::Cpus => Value::Cpus(figure.to_string().parse().unwrap()),
            _ => Value::Int(figure),
        };
        let reason = super::super::claim::Reason { text: format!("{owner:?}"), inputs: BTreeMap::new() };
        let target = CgroupTarget::new(&dir("kubepods/x"), resource);
        Claim { target, wish: Wish::Hold(value), owner, reason: Arc::new(reason) }
    }

    /// Which of two owners wins, in whatever order they claim.
    fn winner(resource: Resource, one: Owner, other: Owner) -> Owner {
        let win = |claims: Vec<Claim>| {
            let plan = plan_of(&PodTable::default(), None, BOUNDED, claims);
            let desired = &plan.entries[&CgroupTarget::new(&dir("kubepods/x"), resource)];
            assert_eq!(desired.claims.len(), 2, "the loser stays in the chain");
            assert_eq!(desired.claims[0].owner, desired.owner);
            assert_eq!(desired.claims[0].reason, desired.reason);
            desired.owner
        };
        let (a, b) = (claim(resource, one, 5), claim(resource, other, 7));
        let first = win(vec![a.clone(), b.clone()]);
        assert_eq!(first, win(vec![b, a]), "the order of claims does not matter");
        first
    }

    #[test]
    fn each_row_of_the_table_comes_before_the_rows_after_it() {
        for resource in [Resource::CfsQuota, Resource::Cpus, Resource::CpuShares, Resource::MemoryLimit] {
            let rows = precedence(resource);
            for (place, row) in rows.iter().enumerate() {
                assert!(!row.why.is_empty());
                for later in &rows[place + 1..] {
                    assert_eq!(winner(resource, row.owner, later.owner), row.owner, "{resource:?}");
                }
                for other in OWNERS.iter().filter(|owner| rows.iter().all(|row| row.owner != **owner)) {
                    assert_eq!(winner(resource, row.owner, *other), row.owner, "{resource:?}: not listed");
                }
            }
        }
    }

    #[test]
    fn what_the_table_does_not_list_goes_by_the_order_of_owners() {
        assert!(precedence(Resource::CpuIdle).is_empty());
        assert_eq!(winner(Resource::CpuIdle, Owner::CpuSuppress, Owner::BatchResource), Owner::BatchResource);
        // The table says the opposite for quotas.
        assert_eq!(winner(Resource::CfsQuota, Owner::CpuSuppress, Owner::BatchResource), Owner::CpuSuppress);
    }

    #[test]
    fn of_two_claims_of_one_owner_the_first_stays_first() {
        let claims = vec![
            claim(Resource::CpuIdle, Owner::CpuSuppress, 1),
            claim(Resource::CpuIdle, Owner::CpuSuppress, 0),
        ];
        let plan = plan_of(&PodTable::default(), None, UNBOUNDED, claims);
        assert_eq!(said(&plan, "kubepods/x", Resource::CpuIdle), "hold 1");
    }
}
