//! CPU lists along a path: what a container is to run on, the directories above it must have. A child's CPU that its
//! parent lacks is refused by some kernels and taken away by others (design.md 4).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::claim::{Claim, Owner, Reason, Wish};
use super::plan::{Decision, Desired};
use super::planner::Entries;
use super::target::CgroupTarget;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::cpuset::CpuSet;

/// CPUs that directories have to have, because the allocator holds them beneath.
pub(super) type Needed = BTreeMap<CgroupDir, CpuSet>;

/// What every directory above the allocator's lists in `entries` has to have.
pub(super) fn needed_above(entries: &Entries) -> Needed {
    let mut needed = Needed::new();
    for (target, desired) in entries {
        let Decision::Hold(Value::Cpus(cpus)) = &desired.decision else { continue };
        if desired.owner != Owner::CpuSetAllocator {
            continue;
        }
        let mut above = target.dir.parent();
        while let Some(dir) = above {
            above = dir.parent();
            add(&mut needed, dir, cpus);
        }
    }
    needed
}

/// Adds CPUs to what a directory has to have.
pub(super) fn add(needed: &mut Needed, dir: CgroupDir, cpus: &CpuSet) {
    let all = needed.entry(dir).or_default();
    if !cpus.is_subset(all) {
        *all = all.union(cpus);
    }
}

/// Widens each list that is held or given back to what its directory has to have. Directories without an entry are as
/// the kubelet made them; the executor sees what they have.
pub(super) fn widen(entries: &mut Entries, needed: &Needed) {
    for (dir, needed) in needed {
        let target = CgroupTarget::new(dir, Resource::Cpus);
        let Some(desired) = entries.get_mut(&target) else { continue };
        let Some(own) = desired.cpus().filter(|own| !needed.is_subset(own)) else { continue };
        let cpus = own.union(needed);
        let reason = Reason {
            text: format!("{own} and {needed}, which pods beneath were given (hooks.md 8.2)"),
            inputs: BTreeMap::from([("own", own.to_string()), ("beneath", needed.to_string())]),
        };
        // Still its owner's, so that a list to fall back to does not become one to hold.
        let owner = desired.owner;
        desired.overrule(Claim {
            target,
            wish: Wish::Hold(Value::Cpus(cpus)),
            owner,
            reason: Arc::new(reason),
        });
    }
}

impl Desired {
    /// The CPUs that the target is to hold or fall back to.
    fn cpus(&self) -> Option<&CpuSet> {
        match &self.decision {
            Decision::Hold(Value::Cpus(cpus)) | Decision::Release(Value::Cpus(cpus)) => Some(cpus),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::claims::testing::{BE_DIR, BOUNDED, UNBOUNDED, dir, plan_of, pod, said, table};
    use crate::state::topology::{CpuInfo, Topology};

    fn claim(owner: Owner, path: &str, cpus: &str) -> Claim {
        let reason = Arc::new(Reason { text: "test".to_owned(), inputs: BTreeMap::new() });
        let target = CgroupTarget::new(&dir(path), Resource::Cpus);
        Claim::hold(target, Value::Cpus(cpus.parse().unwrap()), owner, reason)
    }

    #[test]
    fn directories_above_an_allocated_list_have_its_cpus() {
        let pods = table([pod("a", "LS", json!({"containers": [{"name": "c"}]}))]);
        let cpus = (0..8).map(|cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0 }).collect();
        let topology = Topology { cpus, be_pool: "0-5".parse().unwrap(), ..Topology::default() };
        let (pod, container) = ("kubepods/besteffort/poda", "kubepods/besteffort/poda/c");
        for semantics in [BOUNDED, UNBOUNDED] {
            let allocated = claim(Owner::CpuSetAllocator, container, "5-7");
            let plan = plan_of(&pods, Some(&topology), semantics, vec![allocated.clone()]);
            assert_eq!(said(&plan, container, Resource::Cpus), "hold 5-7");
            assert_eq!(said(&plan, pod, Resource::Cpus), "release 0-7");
            assert_eq!(said(&plan, BE_DIR, Resource::Cpus), "release 0-7");

            // Suppression holds the levels above, and the container too.
            let mut claims = vec![allocated];
            claims.extend([BE_DIR, pod, container].map(|path| claim(Owner::CpuSuppress, path, "0-1")));
            let plan = plan_of(&pods, Some(&topology), semantics, claims);
            assert_eq!(said(&plan, container, Resource::Cpus), "hold 5-7");
            assert_eq!(said(&plan, pod, Resource::Cpus), "hold 0-1,5-7");
            assert_eq!(said(&plan, BE_DIR, Resource::Cpus), "hold 0-1,5-7");
            let desired = &plan.entries[&CgroupTarget::new(&dir(pod), Resource::Cpus)];
            assert_eq!(desired.owner, Owner::CpuSuppress);
            assert!(desired.reason.text.contains("0-1 and 5-7"), "{}", desired.reason.text);
        }
    }
}
