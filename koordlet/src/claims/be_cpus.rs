//! The CPU lists that best-effort directories fall back to when nothing suppresses them, qos.md 5.1: the pool;
//! for containers of a pod with an allocation of its own that allocation (Q6), which the directories above it
//! include, since a parent that lacks a CPU of its child is refused or takes it away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::baseline::{claim, reason};
use super::claim::{Claim, Owner, Reason};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::cpuset::CpuSet;
use crate::state::cpu_sources::allocated_cpus;
use crate::state::pods::PodTable;
use crate::state::topology::Topology;
use crate::state::tree::{CgroupTree, DirKind};

/// Appends the lists of the best-effort directory and two levels beneath it: sandboxes and pods that only the
/// tree knows, and known pods that are not in the tree yet. An empty list is nothing to fall back to.
pub(super) fn best_effort_cpus(
    pods: &PodTable,
    topology: &Topology,
    tree: &CgroupTree,
    be_dir: &CgroupDir,
    claims: &mut Vec<Claim>,
) {
    let own = own_cpus(pods, topology, be_dir);
    let class = own.values().fold(topology.be_pool.clone(), |all, cpus| all.union(cpus));
    let lists = Lists::new(&topology.be_pool, !own.is_empty());
    for dir in directories(pods, tree, be_dir) {
        let (cpus, owner, reason) = if dir == be_dir {
            (class.clone(), Owner::BePool, &lists.with_own)
        } else if let Some(cpus) = own.get(dir.as_str()) {
            (topology.be_pool.union(cpus), Owner::BePool, &lists.with_own)
        } else if let Some(cpus) = parent(dir).and_then(|pod| own.get(pod)) {
            (cpus.clone(), Owner::PodSpec, &lists.own)
        } else {
            (topology.be_pool.clone(), Owner::BePool, &lists.pool)
        };
        if !cpus.is_empty() {
            claims.push(claim(dir, Resource::Cpus, Value::Cpus(cpus), owner, reason));
        }
    }
}

/// The reasons, one allocation each a plan.
struct Lists {
    pool: Arc<Reason>,
    with_own: Arc<Reason>,
    own: Arc<Reason>,
}

impl Lists {
    fn new(pool: &CpuSet, some_own: bool) -> Self {
        let text = "all CPUs but reserved, exclusive system, LSE and pinned ones (qos.md 5.1)";
        let with_own = format!("{text}, here {pool}, and what pods beneath have for themselves");
        Self {
            pool: reason(text),
            with_own: reason(if some_own { &with_own } else { text }),
            own: reason("CPUs that the scheduler allocated to the pod (resource-status, qos.md Q6)"),
        }
    }
}

/// Online CPUs that the scheduler allocated to best-effort pods, by the pod's directory; no empty lists.
fn own_cpus<'a>(pods: &'a PodTable, topology: &Topology, be_dir: &CgroupDir) -> BTreeMap<&'a str, CpuSet> {
    let online = topology.all();
    let best_effort = pods.pods.values().filter(|pod| be_dir.contains(&pod.dir));
    let own = best_effort.filter_map(|pod| {
        let cpus = allocated_cpus(pod).ok()?.intersection(&online);
        (!cpus.is_empty()).then_some((pod.dir.as_str(), cpus))
    });
    own.collect()
}

fn directories<'a>(
    pods: &'a PodTable,
    tree: &'a CgroupTree,
    be_dir: &'a CgroupDir,
) -> BTreeSet<&'a CgroupDir> {
    let in_tree = tree.dirs.range(be_dir..).take_while(|(dir, _)| dir.as_str().starts_with(be_dir.as_str()));
    let in_tree = in_tree.filter(|(_, kind)| **kind != DirKind::Nested).map(|(dir, _)| dir);
    let known = pods.pods.values().flat_map(|pod| {
        let containers = pod.containers.iter().filter_map(|container| container.dir.as_ref());
        std::iter::once(&pod.dir).chain(containers)
    });
    let all = std::iter::once(be_dir).chain(in_tree).chain(known);
    all.filter(|dir| be_dir.contains(dir)).collect()
}

fn parent(dir: &CgroupDir) -> Option<&str> {
    dir.as_str().rsplit_once('/').map(|(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::api::keys;
    use crate::cgroup::resource::Resource;
    use crate::claims::testing::{BE_DIR, BOUNDED, annotated, plan_of, pod, said, table};
    use crate::state::topology::{CpuInfo, Topology};

    #[test]
    fn q6_directories_fall_back_to_the_pool_and_what_pods_in_them_have_for_themselves() {
        let spec = json!({"containers": [{"name": "c"}]});
        let own = json!({ keys::RESOURCE_STATUS: r#"{"cpuset":"6-7"}"# });
        let pods = table([pod("a", "BE", spec.clone()), annotated("b", "BE", own, spec)]);
        let cpus = (0..8).map(|cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0 }).collect();
        let topology = Topology { cpus, be_pool: "0-5".parse().unwrap(), ..Topology::default() };
        let plan = plan_of(&pods, Some(&topology), BOUNDED, Vec::new());
        for (path, want) in [
            (BE_DIR, "release 0-7"),
            ("kubepods/besteffort/poda", "release 0-5"),
            ("kubepods/besteffort/poda/sandbox", "release 0-5"),
            ("kubepods/besteffort/podb", "release 0-7"),
            ("kubepods/besteffort/podb/c", "release 6-7"),
        ] {
            assert_eq!(said(&plan, path, Resource::Cpus), want, "{path}");
        }
    }
}
