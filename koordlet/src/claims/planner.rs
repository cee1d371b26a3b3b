//! Makes one plan after another: what a pod's subtree came to is kept for as long as all that it follows from stays
//! the same, so that one changed pod costs one pod. The result is the same as that of a planner without memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::baseline::Baselines;
use super::claim::{Claim, Claims, PodClaims};
use super::class::ClassLimit;
use super::combine::{PlanInput, group};
use super::cpus::{self, Needed};
use super::plan::{Desired, Plan, Subtree};
use super::resctrl::ResctrlTarget;
use super::subtree::Subtrees;
use super::target::CgroupTarget;
use super::{burst, class, pod};
use crate::cgroup::semantics::Semantics;
use crate::state::pods::{PodEntry, PodTable};

/// Decisions on cgroup files, in the order of their targets.
pub(super) type Entries = BTreeMap<CgroupTarget, Desired>;

/// The last plan, and what each pod contributed to it.
#[derive(Debug, Default)]
pub struct Planner {
    plan: Arc<Plan>,
    parts: BTreeMap<Arc<str>, Part>,
    /// Decisions on what is no known pod's.
    beside: Entries,
    semantics: Option<Semantics>,
    baselines: Baselines,
}

/// A pod's subtree as it was decided, and from what.
#[derive(Debug)]
struct Part {
    from: PartInput,
    entries: Vec<(CgroupTarget, Arc<Desired>)>,
    /// CPUs that the directories above the pod have to have.
    needed: Needed,
}

#[derive(Debug)]
struct PartInput {
    pod: Arc<PodEntry>,
    kept: Option<Arc<Claims>>,
    /// What others claim on it, the kubelet and the pool of best effort among them.
    others: Vec<Claim>,
    /// The limit of the class directory above it.
    limit: Option<ClassLimit>,
}

impl PartInput {
    fn is(&self, other: &Self) -> bool {
        let same_claims = match (&self.kept, &other.kept) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        same_claims
            && Arc::ptr_eq(&self.pod, &other.pod)
            && self.limit == other.limit
            && self.others == other.others
    }

    /// All decisions on the subtree.
    fn decide(
        &self,
        uid: &Arc<str>,
        semantics: Semantics,
        baselines: &Baselines,
    ) -> (Vec<(CgroupTarget, Arc<Desired>)>, Needed) {
        let Self { pod, kept, others, limit } = self;
        let mut claims = kept.as_ref().map(|kept| kept.cgroup.clone()).unwrap_or_default();
        claims.extend_from_slice(others);
        baselines.push_pod(pod, &mut claims);
        let mut entries = group(claims, |_| Subtree::Pod(Arc::clone(uid)));
        burst::grow_pod(pod, &mut entries);
        pod::fit_quota(pod, semantics, &mut entries);
        if let Some(limit) = limit {
            limit.lift_quotas_above(&mut entries);
        }
        let mut needed = cpus::needed_above(&entries);
        cpus::widen(&mut entries, &needed);
        needed.retain(|dir, _| !pod.dir.contains(dir));
        (entries.into_iter().map(|(target, desired)| (target, Arc::new(desired))).collect(), needed)
    }
}

impl Planner {
    /// Combines all claims and baselines to one decision a target; `None` if that is the same as the last time.
    /// `by_pod` are claims beside those of the input that whoever made them keeps for as long as they stay the same.
    pub fn plan(&mut self, input: PlanInput<'_>, by_pod: &PodClaims) -> Option<Arc<Plan>> {
        let PlanInput { pods, topology, tree, semantics, claims, synced } = input;
        if self.semantics.replace(semantics) != Some(semantics) {
            self.parts.clear();
        }
        let mut claims = claims;
        for of_pod in by_pod.values() {
            claims.append_beside_cgroup(of_pod);
        }
        let Claims { mut cgroup, host_files, tasks, resctrl, network, own_files } = claims;
        let be_dir = class::best_effort_dir(tree, pods);
        self.baselines.push_others(pods, topology, tree, be_dir.as_ref(), &mut cgroup);
        let subtrees = Subtrees::new(pods, tree);
        let (mut others, beside) = by_subtree(cgroup, &subtrees, pods);

        let mut beside = group(beside, |target: &CgroupTarget| subtrees.of(&target.dir));
        let limit = be_dir.as_ref().and_then(|dir| class::limit_of(dir, semantics, &beside));
        if let Some(limit) = &limit {
            limit.lift_quotas_above(&mut beside);
        }
        let mut changed = self.forget_pods(pods);
        for (uid, entry) in &pods.pods {
            let from = PartInput {
                pod: Arc::clone(entry),
                kept: by_pod.get(uid).cloned(),
                others: others.remove(uid).unwrap_or_default(),
                limit: limit.clone().filter(|limit| limit.is_above(&entry.dir)),
            };
            changed |= self.decide(uid, from, semantics);
        }
        let mut needed = cpus::needed_above(&beside);
        for (dir, cpus) in self.parts.values().flat_map(|part| &part.needed) {
            cpus::add(&mut needed, dir.clone(), cpus);
        }
        cpus::widen(&mut beside, &needed);
        changed |= self.beside != beside;
        self.beside = beside;

        let plan = Plan {
            entries: if changed { self.entries() } else { BTreeMap::new() },
            host_files: group(host_files, |_| Subtree::Class),
            tasks: group(tasks, |target| subtrees.of(&target.dir)),
            resctrl: group(resctrl, |target| match target {
                ResctrlTarget::Tasks(dir) => subtrees.of(dir),
                ResctrlTarget::Mount | ResctrlTarget::Line(..) => Subtree::Class,
            }),
            network: group(network, |_| Subtree::Class),
            own_files: group(own_files, |_| Subtree::Class),
            synced,
        };
        if !changed && plan.is_but_for_entries(&self.plan) {
            return None;
        }
        let entries = if changed { plan.entries } else { self.plan.entries.clone() };
        self.plan = Arc::new(Plan { entries, ..plan });
        Some(Arc::clone(&self.plan))
    }

    /// Forgets pods that are gone; whether there were any.
    fn forget_pods(&mut self, pods: &PodTable) -> bool {
        let before = self.parts.len();
        self.parts.retain(|uid, _| pods.pods.contains_key(uid));
        self.parts.len() != before
    }

    /// Decides a pod's subtree, if that has to be done anew; whether it came to something else.
    fn decide(&mut self, uid: &Arc<str>, from: PartInput, semantics: Semantics) -> bool {
        let known = self.parts.get(uid);
        if known.is_some_and(|part| part.from.is(&from)) {
            return false;
        }
        let (mut entries, needed) = from.decide(uid, semantics, &self.baselines);
        let mut changed = known.is_none_or(|part| part.entries.len() != entries.len());
        if let Some(part) = known {
            // What stays the same stays shared.
            for ((target, now), (known_target, known)) in entries.iter_mut().zip(&part.entries) {
                if target == known_target && now == known {
                    *now = Arc::clone(known);
                } else {
                    changed = true;
                }
            }
        }
        self.parts.insert(Arc::clone(uid), Part { from, entries, needed });
        changed
    }

    fn entries(&self) -> BTreeMap<CgroupTarget, Arc<Desired>> {
        let of_pods = self.parts.values().flat_map(|part| part.entries.iter().cloned());
        let known = |(target, desired): (&CgroupTarget, &Desired)| {
            let shared = self.plan.entries.get(target).filter(|known| ***known == *desired);
            (target.clone(), shared.map_or_else(|| Arc::new(desired.clone()), Arc::clone))
        };
        let beside = self.beside.iter().map(known);
        beside.chain(of_pods).collect()
    }
}

/// Claims on what is in a known pod, by the pod's UID, and all others.
fn by_subtree(
    claims: Vec<Claim>,
    subtrees: &Subtrees<'_>,
    pods: &PodTable,
) -> (HashMap<Arc<str>, Vec<Claim>>, Vec<Claim>) {
    let mut of_pods: HashMap<Arc<str>, Vec<Claim>> = HashMap::new();
    let mut beside = Vec::new();
    for claim in claims {
        match subtrees.of(&claim.target.dir) {
            Subtree::Pod(uid) if pods.pods.contains_key(&uid) => of_pods.entry(uid).or_default().push(claim),
            _ => beside.push(claim),
        }
    }
    (of_pods, beside)
}
