//! What is kept of pods that did not change is what would be decided anew.

use super::*;
use crate::claims::claim::Claims;
use crate::claims::combine::plan;
use crate::claims::testing::BOUNDED;

/// Claims on what plugins claim for pods, in one order.
fn sorted(claims: &Claims) -> Vec<String> {
    let Claims { cgroup, tasks, resctrl, network, .. } = claims;
    let mut lines: Vec<String> = cgroup.iter().map(|claim| format!("{claim:?}")).collect();
    lines.extend(tasks.iter().map(|claim| format!("{claim:?}")));
    lines.extend(resctrl.iter().map(|claim| format!("{claim:?}")));
    lines.extend(network.iter().map(|claim| format!("{claim:?}")));
    lines.sort();
    lines
}

/// Scenes one after another: pods that stay are the same objects, as the hub keeps them.
fn sequence(scenes: &[Scene]) -> Vec<Snapshot> {
    let mut last: Option<Snapshot> = None;
    let mut snapshots = Vec::new();
    for (number, scene) in scenes.iter().enumerate() {
        let mut next = scene.snapshot(Nanos(SECOND * (number as u64 + 1)));
        if let Some(last) = &last {
            for (uid, pod) in &mut Arc::make_mut(&mut next.pods).pods {
                if let Some(known) = last.pods.pods.get(uid).filter(|known| *known == pod) {
                    *pod = Arc::clone(known);
                }
            }
            if next.slo == last.slo {
                next.slo = Arc::clone(&last.slo);
            }
            if next.node == last.node {
                next.node.clone_from(&last.node);
            }
            if next.topology == last.topology {
                next.topology.clone_from(&last.topology);
            }
            if next.kernel == last.kernel {
                next.kernel = Arc::clone(&last.kernel);
            }
        }
        last = Some(next.clone());
        snapshots.push(next);
    }
    snapshots
}

/// Pods that stay, go or become others, under policies that change or stay.
fn scenes() -> impl Strategy<Value = Vec<Scene>> {
    let steps = prop::collection::vec((0_usize..4, 0_usize..4), 2..6);
    (prop::collection::vec(scene::some(), 1..4), steps).prop_map(|(scenes, steps)| {
        let at = |index: usize| scenes[index % scenes.len()].clone();
        let step = |(pods, policy): (usize, usize)| at(policy).of(at(pods).pods);
        steps.into_iter().map(step).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn claims_and_plans_are_those_of_a_decider_without_memory(scenes in scenes()) {
        let plugins = PluginKind::ALL.iter().copied().collect();
        let mut rules = Rules::new(&RuleSettings { plugins, ..RuleSettings::default() });
        let mut planner = Planner::default();
        let mut kept: Arc<Plan> = Arc::default();
        for snapshot in sequence(&scenes) {
            rules.observe(&snapshot);
            let by_pod = rules.claims_of_pods(&snapshot);
            let mut all = rules.claims_beside_pods(&snapshot);
            let input = |claims| PlanInput {
                pods: &snapshot.pods,
                topology: snapshot.topology.as_deref(),
                tree: &snapshot.tree,
                semantics: BOUNDED,
                claims,
                synced: BTreeSet::new(),
            };
            if let Some(plan) = planner.plan(input(all.clone()), &by_pod) {
                prop_assert_ne!(&*plan, &*kept, "a plan that is said to be new");
                kept = plan;
            }
            for of_pod in by_pod.values() {
                all.append(Claims::clone(of_pod));
            }
            let anew = rules.claims(&snapshot);
            prop_assert_eq!(sorted(&all), sorted(&anew));
            prop_assert_eq!(&*kept, &plan(input(anew)));
        }
    }
}
