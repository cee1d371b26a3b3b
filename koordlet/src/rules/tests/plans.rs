//! Whole plans: what the rules' and a strategy's claims come to for a few pods, and what is left when they
//! are withdrawn.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::all;
use crate::api::keys;
use crate::api::node::Node;
use crate::cgroup::resource::Resource;
use crate::cgroup::semantics::Semantics;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Claims, Owner, Reason, Wish};
use crate::claims::combine::{PlanInput, plan};
use crate::claims::explain;
use crate::claims::plan::{Plan, Subtree};
use crate::claims::target::CgroupTarget;
use crate::claims::testing::{
    BE_DIR, BOUNDED, UNBOUNDED, annotated, batch, dir, entry, limits, plan_of, pod, quota_of, said, table,
    tree,
};
use crate::cpuset::CpuSet;
use crate::rules::Rules;
use crate::state::pods::{PodEntry, PodTable};
use crate::state::slo::Slo;
use crate::state::snapshot::Snapshot;
use crate::state::topology::{CpuInfo, Topology};
use crate::state::tree::DirKind;
use crate::units::CfsQuota;

/// The claims of both rules at a ratio.
fn rule_claims(pods: &PodTable, ratio: Option<&str>) -> Vec<Claim> {
    let mut node = Node::default();
    let annotation = ratio.map(|ratio| (keys::CPU_NORMALIZATION_RATIO.to_owned(), ratio.to_owned()));
    node.metadata.annotations.extend(annotation);
    let snapshot = Snapshot {
        node: Some(Arc::new(node)),
        pods: Arc::new(pods.clone()),
        slo: Arc::new(Slo { synced: true, ..Default::default() }),
        ..Default::default()
    };
    let mut rules = Rules::new(&all());
    rules.observe(&snapshot);
    rules.claims(&snapshot).cgroup
}

fn planned(pods: &PodTable, ratio: Option<&str>, semantics: Semantics) -> Plan {
    plan_of(pods, None, semantics, rule_claims(pods, ratio))
}

fn suppress(path: &str, resource: Resource, value: Value) -> Claim {
    let reason = Arc::new(Reason { text: "the load".to_owned(), inputs: BTreeMap::new() });
    let target = CgroupTarget::new(&dir(path), resource);
    Claim { target, wish: Wish::Hold(value), owner: Owner::CpuSuppress, reason }
}

fn quota(us: i64) -> Value {
    Value::Quota(CfsQuota::from_raw(us))
}

fn limited(uid: &str, cpu: &str, hooks_live: bool) -> PodEntry {
    let pod = pod(uid, "LS", json!({"containers": [{"name": "a", "resources": limits(cpu)}]}));
    PodEntry { hooks_live, ..pod }
}

const POD: &str = "kubepods/burstable/podu";
const CONTAINER: &str = "kubepods/burstable/podu/a";

#[test]
fn c201_a_pod_is_lowered_only_where_the_runtime_asks_for_our_values() {
    let blind = planned(&table([limited("u", "2", false)]), Some("1.5"), BOUNDED);
    assert_eq!(quota_of(&blind, CONTAINER), "hold 133334", "the container alone carries the scaling");
    assert_eq!(quota_of(&blind, POD), "release 200000", "put back if we lowered it before");
    let pod = &blind.entries[&CgroupTarget::new(&dir(POD), Resource::CfsQuota)];
    assert_eq!(pod.owner, Owner::PodSpec);
    assert!(pod.reason.text.contains("keeps its native 200000 instead of 133334"), "{}", pod.reason.text);

    let live = planned(&table([limited("u", "2", true)]), Some("1.5"), BOUNDED);
    assert_eq!([quota_of(&live, POD), quota_of(&live, CONTAINER)], ["hold 133334"; 2]);
    // Where the kernel takes any quota of a child there is nothing to break.
    let free = planned(&table([limited("u", "2", false)]), Some("1.5"), UNBOUNDED);
    assert_eq!([quota_of(&free, POD), quota_of(&free, CONTAINER)], ["hold 133334"; 2]);
}

#[test]
fn c019_with_hooks_live_pod_and_container_are_scaled_alike() {
    let plan = planned(&table([limited("u", "2", true)]), Some("1.20"), BOUNDED);
    assert_eq!([quota_of(&plan, POD), quota_of(&plan, CONTAINER)], ["hold 166667"; 2]);
}

/// hooks.md 18, rows 27 and 28: down to 160000 and back.
#[test]
fn a_ratio_taken_back_to_one_holds_the_native_quotas() {
    let pods = table([limited("u", "2", true)]);
    let both = |ratio| {
        let plan = planned(&pods, Some(ratio), BOUNDED);
        [quota_of(&plan, POD), quota_of(&plan, CONTAINER)]
    };
    assert_eq!(both("1.25"), ["hold 160000"; 2]);
    assert_eq!(both("1.00"), ["hold 200000"; 2]);
}

#[test]
fn c206_a_normalized_quota_is_one_decision_and_goes_with_the_annotation() {
    let pods = table([limited("u", "1", true)]);
    let first = planned(&pods, Some("1.5"), BOUNDED);
    assert_eq!([quota_of(&first, POD), quota_of(&first, CONTAINER)], ["hold 66667"; 2]);
    assert_eq!(first, planned(&pods, Some("1.5"), BOUNDED), "unchanged inputs, the same plan");
    let withdrawn = planned(&pods, None, BOUNDED);
    assert_eq!([quota_of(&withdrawn, POD), quota_of(&withdrawn, CONTAINER)], ["release 100000"; 2]);
}

#[test]
fn a_pod_may_be_lowered_to_what_its_largest_container_is_given() {
    let containers = json!([
        {"name": "a", "resources": limits("1")},
        {"name": "b", "resources": limits("1")},
    ]);
    let pods = table([pod("u", "LS", json!({ "containers": containers }))]);
    assert_eq!(quota_of(&planned(&pods, Some("1.25"), BOUNDED), POD), "hold 160000");
    assert_eq!(
        quota_of(&planned(&pods, Some("2.50"), BOUNDED), POD),
        "release 200000",
        "80000 is below 100000"
    );
}

#[test]
fn a_partially_limited_pod_keeps_an_unlimited_directory() {
    let containers = json!([{"name": "a", "resources": limits("1")}, {"name": "b"}]);
    let pods = table([PodEntry { hooks_live: true, ..pod("u", "", json!({ "containers": containers })) }]);
    for semantics in [BOUNDED, UNBOUNDED] {
        let plan = planned(&pods, Some("1.25"), semantics);
        assert_eq!(quota_of(&plan, POD), "release -1");
        assert_eq!(quota_of(&plan, CONTAINER), "hold 80000");
        assert_eq!(quota_of(&plan, "kubepods/burstable/podu/b"), "release -1");
    }
}

#[test]
fn a_batch_pod_is_lowered_at_once_and_its_init_container_to_it() {
    let spec = json!({
        "containers": [batch("a", "500", "500", "1Gi")],
        "initContainers": [batch("i", "1000", "1000", "1Gi")],
    });
    let pods = table([pod("u", "BE", spec)]);
    let of = |plan: &Plan, name: &str| quota_of(plan, &format!("{BE_DIR}/podu{name}"));
    let bounded = planned(&pods, None, BOUNDED);
    assert_eq!(["", "/a", "/i"].map(|name| of(&bounded, name)), ["hold 50000"; 3]);
    let free = planned(&pods, None, UNBOUNDED);
    assert_eq!(["", "/a", "/i"].map(|name| of(&free, name)), ["hold 50000", "hold 50000", "hold 100000"]);
}

/// A pod labelled BE may have native limits too; those are what its runtime writes.
#[test]
fn a_batch_pod_with_native_limits_is_not_lowered_below_them() {
    let mut container = batch("a", "500", "500", "1Gi");
    container["resources"]["limits"]["cpu"] = json!("2");
    let pods = table([pod("u", "BE", json!({"containers": [container]}))]);
    let plan = planned(&pods, None, BOUNDED);
    assert_eq!([quota_of(&plan, POD), quota_of(&plan, CONTAINER)], ["release 200000", "hold 50000"]);
}

#[test]
fn while_a_pod_is_resized_nothing_is_cut() {
    let object = json!({
        "metadata": {"uid": "u", "labels": {keys::QOS_CLASS: "LS"}},
        "spec": {"containers": [{"name": "a", "resources": limits("1")}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "a", "resources": limits("3")}]},
    });
    let pods = table([entry(object)]);
    let plan = planned(&pods, None, BOUNDED);
    assert_eq!([quota_of(&plan, POD), quota_of(&plan, CONTAINER)], ["release 300000"; 2]);
    let plan = planned(&pods, Some("1.5"), BOUNDED);
    assert_eq!([quota_of(&plan, POD), quota_of(&plan, CONTAINER)], ["release 300000", "hold 200000"]);
}

fn topology(pool: &str) -> Topology {
    let cpus = (0..8).map(|cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0 }).collect();
    Topology { cpus, be_pool: pool.parse().unwrap(), ..Default::default() }
}

#[test]
fn exclusive_cpus_of_the_kubelet_are_left_alone() {
    let containers = json!([
        {"name": "a", "resources": limits("2")},
        {"name": "b", "resources": limits("500m")},
    ]);
    let pods = table([pod("u", "LS", json!({ "containers": containers }))]);
    let mut topology = topology("0-3");
    topology.kubelet_exclusive.insert(("u".into(), "a".to_owned()), "4-5".parse().unwrap());
    let mut claims = rule_claims(&pods, Some("1.25"));
    claims.push(suppress(CONTAINER, Resource::Cpus, Value::Cpus("0".parse().unwrap())));
    for semantics in [BOUNDED, UNBOUNDED] {
        let plan = plan_of(&pods, Some(&topology), semantics, claims.clone());
        assert_eq!([quota_of(&plan, POD), quota_of(&plan, CONTAINER)], ["leave"; 2]);
        assert_eq!(said(&plan, CONTAINER, Resource::Cpus), "leave");
        assert_eq!(quota_of(&plan, "kubepods/burstable/podu/b"), "hold 40000");
        assert_eq!(
            said(&plan, CONTAINER, Resource::CpuShares),
            "release 2048",
            "shares are not the kubelet's"
        );
    }
}

#[test]
fn without_claims_all_falls_back_to_the_pods_own_specs() {
    let spec = json!({
        "containers": [{"name": "a", "resources": {
            "requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "1Gi"}}}],
        "initContainers": [{"name": "i", "resources": {"limits": {"cpu": "1"}}}],
    });
    let pods =
        table([pod("u", "LS", spec), pod("b", "BE", json!({"containers": [batch("a", "1", "1", "1")]}))]);
    let plan = plan_of(&pods, None, BOUNDED, Vec::new());
    let of = |path: &str| {
        let files = [Resource::CpuShares, Resource::CfsQuota, Resource::MemoryLimit];
        files.map(|file| said(&plan, path, file).replace("release ", "")).join(", ")
    };
    assert_eq!(of(POD), "512, 200000, 1073741824");
    assert_eq!(of(CONTAINER), "512, 200000, 1073741824");
    assert_eq!(of("kubepods/burstable/podu/i"), "1024, 100000, -1", "shares for the limit, as the kubelet");
    assert_eq!(of(&format!("{BE_DIR}/podb")), "2, -1, -1");
    assert_eq!(of(&format!("{BE_DIR}/podb/a")), "2, -1, -1");
    assert_eq!(quota_of(&plan, BE_DIR), "release -1");
    assert!(plan.entries.values().all(|desired| desired.owner.is_baseline()));
}

#[test]
fn best_effort_cpus_fall_back_to_the_pool_or_to_the_pods_own() {
    let own = json!({ keys::RESOURCE_STATUS: r#"{"cpuset":"2-3,6,99"}"# });
    let containers = || json!({"containers": [{"name": "a"}]});
    let mut late = pod("late", "BE", containers());
    late.containers[0].dir = None;
    let pods = table([pod("p", "BE", containers()), annotated("q", "BE", own, containers()), late]);
    let cpus = |plan: &Plan, path: &str| said(plan, &format!("{BE_DIR}{path}"), Resource::Cpus);
    let plan = plan_of(&pods, Some(&topology("0-5")), BOUNDED, Vec::new());
    for path in ["/podp", "/podp/a", "/podp/sandbox", "/podlate"] {
        assert_eq!(cpus(&plan, path), "release 0-5", "{path}");
    }
    assert_eq!(
        [cpus(&plan, "/podq/a"), cpus(&plan, "/podq/sandbox")],
        ["release 2-3,6"; 2],
        "CPU 99 is not there"
    );
    assert_eq!([cpus(&plan, ""), cpus(&plan, "/podq")], ["release 0-6"; 2], "a parent has its children's");
    assert_eq!(said(&plan, "kubepods/burstable", Resource::Cpus), "-");
    // Never an empty list.
    let none = table([pod("p", "BE", containers())]);
    let empty = plan_of(&none, Some(&topology("")), BOUNDED, Vec::new());
    assert_eq!([cpus(&empty, ""), cpus(&empty, "/podp/a")], ["-"; 2]);
    // A claim of suppression wins while it lasts.
    let two: CpuSet = "0-1".parse().unwrap();
    let claims = vec![suppress(&format!("{BE_DIR}/podp/a"), Resource::Cpus, Value::Cpus(two))];
    let plan = plan_of(&pods, Some(&topology("0-5")), BOUNDED, claims);
    assert_eq!(cpus(&plan, "/podp/a"), "hold 0-1");
}

/// Rules and strategy may see a new policy at different moments.
#[test]
fn beneath_a_limited_best_effort_directory_no_larger_quota_is_planned() {
    let spec = |limit: &str| json!({"containers": [batch("a", "500", limit, "1Gi")]});
    let pods = table([pod("big", "BE", spec("1000")), pod("small", "BE", spec("300"))]);
    let mut claims = rule_claims(&pods, None);
    claims.push(suppress(BE_DIR, Resource::CfsQuota, quota(50_000)));
    let plan = plan_of(&pods, None, BOUNDED, claims.clone());
    let of = |plan: &Plan, path: &str| quota_of(plan, &format!("{BE_DIR}{path}"));
    assert_eq!(of(&plan, ""), "hold 50000");
    assert_eq!([of(&plan, "/podbig"), of(&plan, "/podbig/a")], ["hold -1"; 2]);
    assert_eq!([of(&plan, "/podsmall"), of(&plan, "/podsmall/a")], ["hold 30000"; 2]);
    let free = plan_of(&pods, None, UNBOUNDED, claims);
    assert_eq!([of(&free, "/podbig"), of(&free, "/podbig/a")], ["hold 100000"; 2]);
}

#[test]
fn every_target_belongs_to_its_pods_write_group() {
    let pods = table([pod("p", "BE", json!({"containers": [{"name": "a"}]}))]);
    let mut claims = vec![
        suppress("kubepods", Resource::CfsQuota, quota(-1)),
        suppress(&format!("{BE_DIR}/podgone/x"), Resource::Cpus, Value::Cpus("0".parse().unwrap())),
    ];
    claims.extend(rule_claims(&pods, None));
    let mut tree = tree(&pods);
    tree.dirs.insert(dir(&format!("{BE_DIR}/podgone")), DirKind::Pod);
    let plan = plan(PlanInput {
        pods: &pods,
        topology: Some(&topology("0-5")),
        tree: &tree,
        semantics: BOUNDED,
        claims: Claims { cgroup: claims, ..Claims::default() },
        synced: [Owner::BatchResource].into(),
    });
    assert!(plan.synced.contains(&Owner::BatchResource));
    let pod_p = Subtree::Pod("p".into());
    let gone = Subtree::Pod(format!("{BE_DIR}/podgone").into());
    for (target, desired) in &plan.entries {
        let CgroupTarget { dir, .. } = target;
        let want = match dir.as_str().strip_prefix(BE_DIR) {
            Some(below) if below.starts_with("/podp") => &pod_p,
            Some(below) if below.starts_with("/podgone") => &gone,
            _ => &Subtree::Class,
        };
        assert_eq!(&desired.subtree, want, "{target}");
    }
    assert!(plan.entries.values().any(|desired| desired.subtree == gone));
}

#[test]
fn the_chain_says_who_won_and_why_the_others_lost() {
    let plan = planned(&table([limited("u", "2", false)]), Some("1.5"), BOUNDED);
    let chain = |path: &str| {
        let target = CgroupTarget::new(&dir(path), Resource::CfsQuota);
        explain::chain(&target, &plan.entries[&target], ToString::to_string)
    };
    let container = chain(CONTAINER);
    assert_eq!(container.len(), 2);
    assert_eq!((container[0].owner, container[0].won), (Owner::CpuNormalization, true));
    assert_eq!((container[0].value.as_deref(), &container[0].lost), (Some("133334"), &None));
    assert!(container[0].reason.contains("ceil(200000 / 1.5)"));
    assert_eq!((container[1].owner, container[1].value.as_deref()), (Owner::PodSpec, Some("200000")));
    assert_eq!(
        container[1].lost.as_deref(),
        Some("yields to CPU normalization: the scaled limit replaces the one that the kubelet computed")
    );
    // The pod's own claim lost against the table: it followed from its container.
    let pod = chain(POD);
    let normalization = pod.iter().find(|claim| claim.owner == Owner::CpuNormalization).unwrap();
    assert!(
        !normalization.won
            && normalization.lost.as_ref().unwrap().starts_with("overruled: the pod directory")
    );

    let json = serde_json::to_value(&container[0]).unwrap();
    assert_eq!(json["owner"], "CpuNormalization");
    assert_eq!((&json["value"], &json["won"]), (&json!("133334"), &json!(true)));
    assert!(json.get("lost").is_none());
    let target = CgroupTarget::new(&dir(CONTAINER), Resource::CfsQuota);
    let lines = explain::lines(&target, &plan.entries[&target], ToString::to_string);
    assert_eq!(lines[0], "kubepods/burstable/podu/a CfsQuota: hold 133334");
    assert!(lines[1].starts_with("  won  CPU normalization = 133334: "), "{lines:?}");
    assert!(lines[2].starts_with("  lost pod spec = 200000: "), "{lines:?}");
}
