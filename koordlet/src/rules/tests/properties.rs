//! What holds for every plan, whatever the pods, the policy and the kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::with;
use crate::api::keys;
use crate::api::node::Node;
use crate::api::qos::QosClass;
use crate::cgroup::resource::Resource;
use crate::cgroup::semantics::Semantics;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Owner, Reason, Wish};
use crate::claims::native::NativePod;
use crate::claims::plan::{Decision, Plan};
use crate::claims::target::CgroupTarget;
use crate::claims::testing::random::{amount, pod_entry, renamed};
use crate::claims::testing::{BE_DIR, BOUNDED, UNBOUNDED, dir, plan_of, table, tree};
use crate::rules::{PluginKind, RuleSettings, Rules};
use crate::state::pods::PodTable;
use crate::state::slo::{CpuSuppressPolicy, Slo, SuppressPolicy};
use crate::state::snapshot::Snapshot;
use crate::state::topology::{CpuInfo, Topology};
use crate::state::tree::DirKind;
use crate::units::CfsQuota;

/// Everything that a plan of the rules and of a suppression depends on.
#[derive(Clone, Debug)]
struct World {
    pods: PodTable,
    ratio: Option<&'static str>,
    /// What suppression holds on the best-effort directory.
    suppress: Option<Suppress>,
    /// What containers outside of best effort burst to, in percent of their own limit. It may be less than what their
    /// quota is by now.
    burst: Option<i64>,
    rules: RuleSettings,
    semantics: Semantics,
    /// Whether the rules have seen the suppress policy yet.
    policy_seen: bool,
}

#[derive(Clone, Copy, Debug)]
enum Suppress {
    Quota(i64),
    Cpus(u32),
}

fn plugins(on: &[(bool, PluginKind)]) -> Vec<PluginKind> {
    on.iter().filter_map(|(on, kind)| on.then_some(*kind)).collect()
}

fn world() -> impl Strategy<Value = World> {
    let pods = prop::collection::vec(pod_entry(), 0..4);
    let suppress = prop::option::of(prop_oneof![
        prop::sample::select(vec![2000_i64, 50_000, 200_000]).prop_map(Suppress::Quota),
        (0_u32..4).prop_map(Suppress::Cpus),
    ]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let burst = prop::option::of(prop::sample::select(vec![50_i64, 100, 120, 300]));
    (pods, amount(&["0.80", "1.00", "1.20", "1.5", "5.00"]), (suppress, burst), flags).prop_map(
        |(pods, ratio, (suppress, burst), (normalization, batch, cpusets, bounded, policy_seen))| World {
            pods: table(pods.into_iter().enumerate().map(|(index, pod)| renamed(&pod, index))),
            ratio,
            suppress,
            burst,
            rules: with(&plugins(&[
                (normalization, PluginKind::CpuNormalization),
                (batch, PluginKind::BatchResource),
                (cpusets, PluginKind::CpuSetAllocator),
            ])),
            semantics: if bounded { BOUNDED } else { UNBOUNDED },
            policy_seen,
        },
    )
}

impl World {
    fn claims(&self) -> Vec<Claim> {
        let mut node = Node::default();
        let ratio = self.ratio.map(|ratio| (keys::CPU_NORMALIZATION_RATIO.to_owned(), ratio.to_owned()));
        node.metadata.annotations.extend(ratio);
        let policy = match self.suppress {
            Some(Suppress::Quota(_)) => SuppressPolicy::CfsQuota,
            _ => SuppressPolicy::Cpuset,
        };
        let suppress = CpuSuppressPolicy { enable: self.suppress.is_some(), policy, ..Default::default() };
        let snapshot = Snapshot {
            node: Some(Arc::new(node)),
            pods: Arc::new(self.pods.clone()),
            slo: Arc::new(Slo { synced: self.policy_seen, suppress, ..Default::default() }),
            topology: Some(Arc::new(topology())),
            tree: Arc::new(tree(&self.pods)),
            ..Default::default()
        };
        let mut rules = Rules::new(&self.rules);
        rules.observe(&snapshot);
        let mut claims = rules.claims(&snapshot).cgroup;
        claims.extend(self.suppress_claims());
        claims.extend(self.burst_claims());
        claims
    }

    /// Claims shaped like those of the strategy: quotas of containers.
    fn burst_claims(&self) -> Vec<Claim> {
        let mut claims = Vec::new();
        for pod in self.pods.pods.values().filter(|pod| matches!(pod.qos, None | Some(QosClass::Ls))) {
            let native = NativePod::new(pod);
            for container in &pod.containers {
                let (Some(dir), Some(percent)) = (&container.dir, self.burst) else { continue };
                let Some(quota) = native.container(container).quota.micros() else { continue };
                let reason = Reason { text: "throttled".to_owned(), inputs: BTreeMap::new() };
                let value = Value::Quota(CfsQuota::Micros((quota * percent / 100).max(1000)));
                let target = CgroupTarget::new(dir, Resource::CfsQuota);
                claims.push(Claim::hold(target, value, Owner::CpuBurst, Arc::new(reason)));
            }
        }
        claims
    }

    /// Claims shaped like those of the strategy: the class directory's quota, or CPUs on three levels.
    fn suppress_claims(&self) -> Vec<Claim> {
        let claim = |dir: &_, resource, value| Claim {
            target: CgroupTarget::new(dir, resource),
            wish: Wish::Hold(value),
            owner: Owner::CpuSuppress,
            reason: Arc::new(Reason { text: "the load".to_owned(), inputs: BTreeMap::new() }),
        };
        match self.suppress {
            None => Vec::new(),
            Some(Suppress::Quota(us)) => {
                vec![claim(&dir(BE_DIR), Resource::CfsQuota, Value::Quota(CfsQuota::Micros(us)))]
            }
            Some(Suppress::Cpus(cpu)) => {
                let tree = tree(&self.pods);
                let be =
                    tree.dirs.iter().filter(|(d, kind)| dir(BE_DIR).contains(d) && **kind != DirKind::Nested);
                be.map(|(dir, _)| claim(dir, Resource::Cpus, Value::Cpus([cpu].into_iter().collect())))
                    .collect()
            }
        }
    }

    fn plan(&self, claims: Vec<Claim>) -> Plan {
        plan_of(&self.pods, Some(&topology()), self.semantics, claims)
    }
}

/// Eight CPUs, of which LS pods share all but two.
fn topology() -> Topology {
    let cpus = (0..8).map(|cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0 }).collect();
    let (ls_pool, be_pool) = ("0-1,4-7".parse().unwrap(), "0-7".parse().unwrap());
    Topology { cpus, be_pool, ls_pool, ..Default::default() }
}

/// Whether what was there before is the only thing to go back to: CPU lists outside the best-effort directory, and
/// the quota of a sandbox, which no spec tells.
fn has_no_baseline(target: &CgroupTarget) -> bool {
    let is_sandbox = target.dir.name() == "sandbox";
    let is_best_effort = dir(BE_DIR).contains(&target.dir);
    match target.resource {
        Resource::Cpus => !is_best_effort,
        Resource::CfsQuota => is_sandbox,
        _ => false,
    }
}

/// The quota that a target is to have, and whether the plan holds it.
fn quota(plan: &Plan, dir: &crate::cgroup::path::CgroupDir) -> Option<(CfsQuota, bool)> {
    match plan.entries.get(&CgroupTarget::new(dir, Resource::CfsQuota))?.decision {
        Decision::Hold(Value::Quota(quota)) => Some((quota, true)),
        Decision::Release(Value::Quota(quota)) => Some((quota, false)),
        _ => None,
    }
}

proptest! {
    #[test]
    fn unchanged_inputs_give_the_same_plan(world in world()) {
        let first = world.plan(world.claims());
        prop_assert_eq!(&first, &world.plan(world.claims()));
        // And the order in which the parts claim does not matter.
        let mut reversed = world.claims();
        reversed.reverse();
        prop_assert_eq!(&first, &world.plan(reversed));
    }

    #[test]
    fn every_claim_has_something_to_fall_back_to(world in world()) {
        let claims = world.claims();
        let withdrawn = world.plan(Vec::new());
        for claim in claims.iter().filter(|claim| !has_no_baseline(&claim.target)) {
            let desired = withdrawn.entries.get(&claim.target);
            prop_assert!(desired.is_some(), "{} has no baseline", claim.target);
            prop_assert!(desired.is_some_and(|desired| matches!(desired.decision, Decision::Release(_))));
        }
        // Nothing is held that nobody claims.
        prop_assert!(withdrawn.entries.values().all(|desired| !matches!(desired.decision, Decision::Hold(_))));
    }

    #[test]
    fn a_bounded_kernel_is_never_asked_for_a_child_above_its_parent(mut world in world()) {
        world.semantics = BOUNDED;
        let plan = world.plan(world.claims());
        for pod in world.pods.pods.values() {
            let children = pod.containers.iter().filter_map(|container| container.dir.clone());
            let pairs = children.map(|child| (child, pod.dir.clone())).chain(
                [(pod.dir.clone(), dir(BE_DIR))].into_iter().filter(|(pod, be)| be.contains(pod)),
            );
            for (child, parent) in pairs {
                let (Some((low, low_held)), Some((high, high_held))) = (quota(&plan, &child), quota(&plan, &parent))
                else { continue };
                if (low_held || high_held) && low != CfsQuota::Unlimited {
                    prop_assert!(low <= high, "{child} {low} above {parent} {high}");
                }
            }
            // An unlimited pod lets its containers through to the class directory.
            if let Some((CfsQuota::Micros(class), true)) = quota(&plan, &dir(BE_DIR))
                && dir(BE_DIR).contains(&pod.dir)
            {
                for child in pod.containers.iter().filter_map(|container| container.dir.as_ref()) {
                    let own = quota(&plan, child).and_then(|(quota, _)| quota.micros());
                    prop_assert!(own.is_none_or(|own| own <= class), "{child} above the class");
                }
            }
        }
    }

    #[test]
    fn a_directory_has_every_cpu_that_is_held_beneath_it(world in world()) {
        let plan = world.plan(world.claims());
        let held = |target: &CgroupTarget| match &plan.entries.get(target)?.decision {
            Decision::Hold(Value::Cpus(cpus)) => Some((cpus.clone(), true)),
            Decision::Release(Value::Cpus(cpus)) => Some((cpus.clone(), false)),
            _ => None,
        };
        for target in plan.entries.keys().filter(|target| target.resource == Resource::Cpus) {
            let Some((cpus, true)) = held(target) else { continue };
            prop_assert!(!cpus.is_empty(), "{target} is held at an empty list");
            let above = target.dir.parent().map(|dir| CgroupTarget { dir, resource: Resource::Cpus });
            if let Some((parents, _)) = above.as_ref().and_then(held) {
                prop_assert!(cpus.is_subset(&parents), "{target} {cpus} outside of {parents}");
            }
        }
    }

    #[test]
    fn no_pod_start_is_broken(mut world in world()) {
        world.semantics = BOUNDED;
        let plan = world.plan(world.claims());
        for pod in world.pods.pods.values().filter(|pod| !pod.hooks_live) {
            if let Some((CfsQuota::Micros(held), true)) = quota(&plan, &pod.dir) {
                let native = NativePod::new(pod);
                for container in &pod.containers {
                    let runtime = native.container(container).quota.micros();
                    prop_assert!(runtime.is_none_or(|runtime| runtime <= held), "{} at {held}", container.name);
                }
            }
        }
    }

    #[test]
    fn the_deciding_claim_comes_first_and_quotas_are_what_the_kernel_takes(world in world()) {
        let plan = world.plan(world.claims());
        for (target, desired) in &plan.entries {
            let first = &desired.claims[0];
            prop_assert_eq!(&first.target, target);
            prop_assert_eq!(first.owner, desired.owner);
            prop_assert_eq!(&first.reason, &desired.reason);
            if let Decision::Hold(Value::Quota(CfsQuota::Micros(us))) = desired.decision {
                prop_assert!(us >= 1000, "{target} {us}");
            }
        }
    }
}
