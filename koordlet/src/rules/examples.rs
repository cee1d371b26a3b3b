//! The worked examples of hooks.md 18 and 19 for CPUNormalization and BatchResource, through the same
//! functions that all callers use.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{RuleGates, RuleNotice, Rules};
use crate::api::keys;
use crate::api::node::Node;
use crate::cgroup::resource::Resource;
use crate::claims::claim::{Claim, Wish};
use crate::claims::target::Target;
use crate::claims::testing::{annotated, batch, entry, limits, pod, table};
use crate::state::pods::PodEntry;
use crate::state::slo::{CpuSuppressPolicy, Slo, SuppressPolicy};
use crate::state::snapshot::Snapshot;

const ALL: RuleGates = RuleGates { cpu_normalization: true, batch_resource: true };

fn node(ratio: Option<&str>) -> Arc<Node> {
    let mut node = Node::default();
    let annotations = &mut node.metadata.annotations;
    annotations.extend(ratio.map(|ratio| (keys::CPU_NORMALIZATION_RATIO.to_owned(), ratio.to_owned())));
    Arc::new(node)
}

fn slo(enable: bool, policy: SuppressPolicy) -> Arc<Slo> {
    let suppress = CpuSuppressPolicy { enable, policy, ..Default::default() };
    Arc::new(Slo { synced: true, suppress, ..Default::default() })
}

fn snapshot(ratio: Option<&str>, pods: Vec<PodEntry>) -> Snapshot {
    Snapshot {
        node: Some(node(ratio)),
        slo: slo(false, SuppressPolicy::Cpuset),
        pods: Arc::new(table(pods)),
        ..Default::default()
    }
}

fn rules_after(snapshot: &Snapshot) -> Rules {
    let mut rules = Rules::new(ALL);
    rules.observe(snapshot);
    rules
}

/// `file value` of each claim beneath the pod's directory, in the order shares, quota, memory; `pod` is the
/// directory itself.
fn values(claims: &[Claim], pod: &PodEntry) -> Vec<String> {
    let line = |claim: &Claim| {
        let Target::Cgroup { dir, resource } = &claim.target;
        let Wish::Hold(value) = &claim.wish else { return "leave".to_owned() };
        let name = if *dir == pod.dir { "pod" } else { dir.name() };
        let file = match resource {
            Resource::CpuShares => "shares",
            Resource::CfsQuota => "quota",
            Resource::MemoryLimit => "memory",
            other => panic!("{other:?} is not of these rules"),
        };
        format!("{name} {file} {value}")
    };
    claims.iter().map(line).collect()
}

fn claimed(ratio: Option<&str>, pod: &PodEntry) -> Vec<String> {
    let rules = rules_after(&snapshot(ratio, vec![pod.clone()]));
    values(&rules.pod_claims(pod), pod)
}

fn one(resources: Json) -> Json {
    json!({"containers": [{"name": "a", "resources": resources}]})
}

#[test]
fn rows_1_to_5_a_limit_is_divided_by_the_ratio() {
    for (cpu, ratio, quota) in [
        ("2", "1.25", Some(160_000)),
        ("2", "1.20", Some(166_667)),
        ("2", "1.00", Some(200_000)),
        ("2", "0.80", Some(200_000)),
        ("-", "1.25", None),
        ("5m", "1.20", Some(1000)), // row 5: the reference writes 834, which the kernel refuses
    ] {
        let resources = if cpu == "-" { json!({}) } else { limits(cpu) };
        let want = quota.map(|quota| vec![format!("pod quota {quota}"), format!("a quota {quota}")]);
        let found = claimed(Some(ratio), &pod("u", "LS", one(resources)));
        assert_eq!(found, want.unwrap_or_default(), "{cpu} at {ratio}");
    }
}

#[test]
fn rows_6_and_7_small_steps_and_bad_texts_leave_the_rule() {
    let limited = pod("u", "LS", one(limits("2")));
    let mut rules = Rules::new(ALL);
    let mut quota_after = |ratio: &str| {
        let snapshot = snapshot(Some(ratio), vec![limited.clone()]);
        let notices = rules.observe(&snapshot);
        let again = rules.observe(&snapshot);
        assert!(again.is_empty(), "told once: {again:?}");
        (values(&rules.claims(&snapshot), &limited)[0].clone(), notices.len())
    };
    assert_eq!(quota_after("1.20"), ("pod quota 166667".to_owned(), 3)); // both plugins, and the first policy
    assert_eq!(quota_after("1.205"), ("pod quota 166667".to_owned(), 0));
    for bad in ["0", "-1", "abc", "NaN", "Inf"] {
        assert_eq!(quota_after(bad), ("pod quota 166667".to_owned(), 2), "{bad}: each plugin says so");
    }
    assert_eq!(quota_after("1.25"), ("pod quota 160000".to_owned(), 2));
}

#[test]
fn rows_8_and_9_only_unpinned_ls_and_unclassed_pods_are_normalized() {
    let pinned = json!({ keys::RESOURCE_STATUS: r#"{"cpuset":"0-3"}"# });
    let numa_only = json!({ keys::RESOURCE_STATUS: r#"{"numaNodeResources":[{"node":1}]}"# });
    let malformed = json!({ keys::RESOURCE_STATUS: "{bad" });
    for (label, annotations, scaled) in [
        ("LS", json!({}), true),
        ("", json!({}), true),
        ("other", json!({}), true),
        ("LSE", json!({}), false),
        ("LSR", json!({}), false),
        ("BE", json!({}), false),
        ("SYSTEM", json!({}), false),
        ("", pinned.clone(), false),
        ("LS", pinned, false), // the reference's reconciler scales it, against its own hooks
        ("LS", numa_only, true),
        ("LS", malformed, true),
    ] {
        let pod = annotated("u", label, annotations.clone(), one(limits("2")));
        let found = claimed(Some("1.5"), &pod);
        assert_eq!(!found.is_empty(), scaled, "{label} {annotations}: {found:?}");
    }
}

#[test]
fn finished_and_virtualized_pods() {
    let phase = |phase: &str, class: &str| {
        let spec =
            json!({"containers": [{"name": "a", "resources": limits("2")}], "runtimeClassName": class});
        let object = json!({"metadata": {"uid": "u"}, "spec": spec, "status": {"phase": phase}});
        claimed(Some("1.25"), &entry(object))
    };
    let both = ["pod quota 160000", "a quota 160000"];
    assert_eq!(phase("Running", "runc"), both);
    assert_eq!(phase("Pending", "runc"), both);
    assert!(phase("Succeeded", "runc").is_empty() && phase("Failed", "runc").is_empty());
    assert_eq!(phase("Running", "kata"), ["pod quota 160000"], "hooks.md 6.2: pods, not containers");
}

/// hooks.md 19, "normalisation, pod q0 in the reconciler", at a ratio that shows who is asked.
#[test]
fn a_pods_limit_is_its_effective_one_if_all_that_runs_is_limited() {
    let container = |name: &str, cpu: &str| json!({"name": name, "resources": limits(cpu)});
    let sidecar = |cpu: &str| json!({"name": "s", "restartPolicy": "Always", "resources": limits(cpu)});
    let plain = json!({"name": "b"});
    for (spec, quota) in [
        (json!({"containers": [container("a", "1"), container("b", "500m")]}), Some(150_000)),
        (json!({"containers": [container("a", "1"), plain]}), None), // the reference: 100000
        (
            json!({"containers": [container("a", "1")], "initContainers": [container("i", "3")]}),
            Some(300_000),
        ),
        (json!({"containers": [container("a", "1")], "initContainers": [plain]}), Some(100_000)),
        (json!({"containers": [container("a", "1")], "initContainers": [sidecar("500m")]}), Some(150_000)),
        (json!({"containers": [container("a", "1")], "overhead": {"cpu": "250m"}}), Some(125_000)),
        (json!({"containers": [container("a", "1"), plain], "resources": limits("2")}), Some(200_000)),
        (json!({"containers": [plain]}), None),
    ] {
        let found = claimed(Some("1.0"), &pod("u", "LS", spec.clone()));
        let pods = found.iter().find_map(|line| line.strip_prefix("pod quota ")).map(|q| q.parse().unwrap());
        assert_eq!(pods, quota, "{spec}");
    }
}

#[test]
fn init_containers_are_normalized_and_a_container_without_a_limit_takes_the_pods() {
    let spec = json!({
        "containers": [{"name": "a", "resources": limits("1")}],
        "initContainers": [{"name": "i", "resources": limits("2")}],
    });
    let found = claimed(Some("1.25"), &pod("u", "LS", spec));
    assert_eq!(found, ["pod quota 160000", "a quota 80000", "i quota 160000"]);
    // The kubelet writes 200000 to `b`, which must not stay above a pod of 160000.
    let spec = json!({"containers": [{"name": "b"}], "resources": limits("2")});
    assert_eq!(claimed(Some("1.25"), &pod("u", "LS", spec)), ["pod quota 160000", "b quota 160000"]);
}

#[test]
fn while_a_pod_is_resized_the_larger_limit_counts() {
    let resizing = |spec: &str, applied: &str| {
        let object = json!({
            "metadata": {"uid": "u"},
            "spec": {"containers": [{"name": "a", "resources": limits(spec)}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "a", "resources": limits(applied)}]},
        });
        claimed(Some("1.25"), &entry(object))
    };
    let four = ["pod quota 320000", "a quota 320000"];
    assert_eq!([resizing("2", "4"), resizing("4", "2"), resizing("4", "4")], [four, four, four]);
}

/// Shares, quota and memory of pod and containers, in hooks.md 19's notation.
fn batch_values(ratio: Option<&str>, containers: Json, init: Json) -> (String, Vec<String>) {
    let pod = pod("u", "BE", json!({"containers": containers, "initContainers": init}));
    let found = claimed(ratio, &pod);
    let lines: Vec<String> = found
        .chunks(3)
        .map(|three| {
            let (name, _) = three[0].split_once(' ').unwrap();
            let figures: Vec<_> = three.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
            format!("{name} {}", figures.join(", "))
        })
        .collect();
    let mut lines = lines.into_iter();
    (lines.next().unwrap_or_default(), lines.collect())
}

#[test]
fn rows_10_to_15_batch_containers_and_pods() {
    let none = json!([]);
    let of = |ratio, containers| batch_values(ratio, containers, json!([]));
    let a = |request, limit, memory| json!([batch("a", request, limit, memory)]);
    let both = |values: &str| (format!("pod {values}"), vec![format!("a {values}")]);
    for (ratio, containers, values) in [
        (None, a("500", "1000", "1Gi"), "512, 100000, 1073741824"),
        (Some("1.25"), a("500", "1000", "1Gi"), "512, 80000, 1073741824"),
        (None, a("0", "-", "-"), "2, -1, -1"), // row 15
        (None, a("1500m", "-", "-"), "2, -1, -1"),
        (None, a("500", "500", "2Gi"), "512, 50000, 2147483648"),
        (Some("1.2"), a("500", "500", "2Gi"), "512, 41667, 2147483648"),
        (Some("0.8"), a("500", "500", "2Gi"), "512, 50000, 2147483648"),
        (None, a("500", "-", "-"), "512, -1, -1"),
        (None, a("500", "500", "-"), "512, 50000, -1"),
        (None, a("-", "5", "1Mi"), "2, 1000, 1048576"),
        (Some("1.2"), a("-", "5", "1Mi"), "2, 1000, 1048576"), // the reference: 834
        (None, a("300000", "1", "1"), "262144, 1000, 1"),
    ] {
        assert_eq!(of(ratio, containers.clone()), both(values), "{containers} at {ratio:?}");
    }
    let first = batch("a", "500", "500", "2Gi");
    let (pod, _) = of(None, json!([first, batch("b", "-", "1000", "2Gi")]));
    assert_eq!(pod, "pod 512, 150000, 4294967296");
    let (pod, _) = of(None, json!([first, batch("b", "500", "-", "-")]));
    assert_eq!(pod, "pod 1024, -1, -1");
    // An ordinary init container does not count in the pod, but has values of its own.
    let (pod, containers) = batch_values(None, json!([first]), json!([batch("i", "1000", "1000", "1Gi")]));
    assert_eq!(pod, "pod 512, 50000, 2147483648");
    assert_eq!(containers, ["a 512, 50000, 2147483648", "i 1024, 100000, 1073741824"]);
    // Row 12, and row 13.
    let (pod, containers) = of(None, json!([batch("a", "-", "1000", "1Gi"), batch("b", "1", "-", "-")]));
    assert_eq!(pod, "pod 2, -1, -1");
    assert_eq!(containers, ["a 2, 100000, 1073741824", "b 2, -1, -1"]);
    assert_eq!(of(None, json!([{"name": "a"}])), (String::new(), vec![]));
    assert_eq!(batch_values(None, none.clone(), none), (String::new(), vec![]));
}

/// A container without a limit has no limit, and its pod has none either: not the smallest quota.
#[test]
fn c004_one_unlimited_container_makes_the_pod_unlimited() {
    let containers = json!([batch("a", "500", "500", "1Gi"), batch("b", "100", "-", "-")]);
    let (pod, containers) = batch_values(None, containers, json!([]));
    assert_eq!(pod, "pod 614, -1, -1");
    assert_eq!(containers, ["a 512, 50000, 1073741824", "b 102, -1, -1"]);
}

/// hooks.md 17, row 20: the sibling of a batch container is not throttled by the batch container's limit.
#[test]
fn a_container_without_batch_resources_has_no_limit() {
    let first = batch("a", "500", "500", "2Gi");
    let (pod, containers) = batch_values(None, json!([first, {"name": "c"}]), json!([]));
    assert_eq!(pod, "pod 512, -1, -1");
    assert_eq!(containers, ["a 512, 50000, 2147483648"], "`c` stays as the runtime made it");
    let plain_init = json!([{"name": "i"}]);
    assert_eq!(batch_values(None, json!([first]), plain_init).0, "pod 512, 50000, 2147483648");
    let sidecar = json!([{"name": "s", "restartPolicy": "Always"}]);
    assert_eq!(batch_values(None, json!([first]), sidecar).0, "pod 512, -1, -1");
}

#[test]
fn batch_amounts_come_from_the_spec_else_from_the_annotation() {
    let amounts = r#"{"requests":{"kubernetes.io/batch-cpu":"500"},
        "limits":{"kubernetes.io/batch-cpu":"500","kubernetes.io/batch-memory":"2Gi"}}"#;
    let of = |label: &str, annotation: &str, containers: Json| {
        let annotations = json!({ keys::EXTENDED_RESOURCE_SPEC: annotation });
        claimed(None, &annotated("u", label, annotations, json!({ "containers": containers })))
    };
    let spec = |name: &str| format!(r#"{{"containers":{{"{name}":{amounts}}}}}"#);
    let plain = || json!([{"name": "a"}]);
    let full = ["pod shares 512", "pod quota 50000", "pod memory 2147483648"];
    assert_eq!(of("BE", &spec("a"), plain())[..3], full);
    assert_eq!(of("BE", &spec("a"), plain())[3..], full.map(|line| line.replace("pod", "a")));
    // Absent, empty (the reference limits the memory to 0) and malformed ones; another class.
    for none in ["{}", r#"{"containers":{}}"#, "{bad", ""] {
        assert!(of("BE", none, plain()).is_empty(), "{none}");
    }
    assert!(of("LS", &spec("a"), plain()).is_empty() && of("", &spec("a"), plain()).is_empty());
    // The pod follows its spec as soon as a container has batch resources there; the containers each their own.
    let mixed = of("BE", &spec("b"), json!([batch("a", "250", "-", "-"), {"name": "b"}]));
    assert_eq!(mixed[..3], ["pod shares 256", "pod quota -1", "pod memory -1"]);
    assert_eq!(mixed[6..], full.map(|line| line.replace("pod", "b")));
    // Negative and zero amounts are none.
    let odd = spec("a").replace(
        r#""limits":{"kubernetes.io/batch-cpu":"500""#,
        r#""limits":{"kubernetes.io/batch-cpu":"-1""#,
    );
    assert_eq!(of("BE", &odd, plain())[1], "pod quota -1");
}

#[test]
fn row_14_under_the_cfs_quota_policy_batch_pods_have_no_quota() {
    let pod = pod("u", "BE", json!({"containers": [batch("a", "500", "500", "1Gi")]}));
    let quotas = |slo: Arc<Slo>| {
        let mut snapshot = snapshot(Some("1.25"), vec![pod.clone()]);
        snapshot.slo = slo;
        let found = values(&rules_after(&snapshot).pod_claims(&pod), &pod);
        [found[1].clone(), found[4].clone()]
    };
    assert_eq!(quotas(slo(true, SuppressPolicy::CfsQuota)), ["pod quota -1", "a quota -1"]);
    let finite = ["pod quota 40000", "a quota 40000"];
    assert_eq!(quotas(slo(true, SuppressPolicy::Cpuset)), finite);
    assert_eq!(quotas(slo(false, SuppressPolicy::CfsQuota)), finite);
    assert_eq!(quotas(Arc::default()), finite, "before the first NodeSLO");
}

/// hooks.md 19, "change: BatchResource".
#[test]
fn batch_rules_report_their_first_input_and_each_change() {
    let mut rules = Rules::new(RuleGates::default());
    let mut changes = |ratio: Option<&str>, policy: Arc<Slo>| {
        let snapshot = Snapshot { slo: policy, ..snapshot(ratio, vec![]) };
        let notices = rules.observe(&snapshot);
        let changed = |notice: &RuleNotice| match notice {
            RuleNotice::Changed { rule, .. } => *rule,
            RuleNotice::Refused { .. } => "refused",
        };
        notices.iter().map(changed).collect::<Vec<_>>().join("; ")
    };
    let unseen = Arc::<Slo>::default;
    assert_eq!(changes(None, unseen()), "BatchResource (nodeMeta)");
    assert_eq!(changes(None, unseen()), "");
    assert_eq!(changes(Some("1.20"), unseen()), "BatchResource (nodeMeta)");
    assert_eq!(changes(Some("1.205"), unseen()), "");
    assert_eq!(changes(None, unseen()), "BatchResource (nodeMeta)");
    assert_eq!(changes(None, slo(false, SuppressPolicy::Cpuset)), "BatchResource (nodeSLO)");
    assert_eq!(changes(None, slo(true, SuppressPolicy::Cpuset)), "");
    assert_eq!(changes(None, slo(true, SuppressPolicy::CfsQuota)), "BatchResource (nodeSLO)");
    assert_eq!(changes(None, slo(false, SuppressPolicy::CfsQuota)), "BatchResource (nodeSLO)");
}

#[test]
fn gates_are_what_the_flags_say() {
    assert_eq!(RuleGates::default(), RuleGates { cpu_normalization: false, batch_resource: true });
    let ls = pod("l", "LS", one(limits("2")));
    let be = pod("b", "BE", json!({"containers": [batch("a", "500", "500", "1Gi")]}));
    let snapshot = snapshot(Some("1.25"), vec![ls.clone(), be.clone()]);
    let mut rules = Rules::new(RuleGates::default());
    rules.observe(&snapshot);
    assert!(rules.pod_claims(&ls).is_empty());
    assert_eq!(
        values(&rules.pod_claims(&be), &be)[1],
        "pod quota 40000",
        "the ratio counts without the gate"
    );
    let mut none = Rules::new(RuleGates { cpu_normalization: false, batch_resource: false });
    assert!(none.observe(&snapshot).is_empty() && none.claims(&snapshot).is_empty());
}

#[test]
fn a_malformed_pod_annotation_is_told_once_with_its_name() {
    let mut rules = Rules::new(RuleGates::default());
    let bad = || annotated("u", "BE", json!({ keys::EXTENDED_RESOURCE_SPEC: "{bad" }), one(json!({})));
    let snapshot = snapshot(None, vec![bad()]);
    let told = |notices: Vec<RuleNotice>| -> Vec<String> {
        let refused = |notice: RuleNotice| match notice {
            RuleNotice::Refused { object, error, .. } => Some(format!("{object}: {error}")),
            RuleNotice::Changed { .. } => None,
        };
        notices.into_iter().filter_map(refused).collect()
    };
    let first = told(rules.observe(&snapshot));
    assert_eq!(first.len(), 1);
    assert!(
        first[0].starts_with("pod ns/u: annotation node.koordinator.sh/extended-resource-spec"),
        "{first:?}"
    );
    // A new object with the same text says nothing new.
    let again = Snapshot { pods: Arc::new(table([bad()])), ..snapshot };
    assert!(told(rules.observe(&again)).is_empty());
}

/// A NodeSLO or pods may come long before the Node does; the ledger is not judged by then.
#[test]
fn c132_a_node_that_is_late_holds_nothing_up() {
    let pod = pod("u", "LS", one(limits("2")));
    let mut rules = Rules::new(ALL);
    let early = Snapshot { node: None, ..snapshot(None, vec![pod.clone()]) };
    rules.observe(&early);
    assert!(rules.claims(&early).is_empty());
    assert_eq!(rules.synced(&early).count(), 0);
    let late = Snapshot { node: Some(node(Some("1.25"))), ..early };
    rules.observe(&late);
    assert_eq!(values(&rules.claims(&late), &pod), ["pod quota 160000", "a quota 160000"]);
    assert_eq!(rules.synced(&late).count(), 2);
}

/// The hook server asks before the container has an id; the reconciler claims the same afterwards.
#[test]
fn a_container_about_to_start_gets_what_the_reconciler_will_claim() {
    let started = pod("u", "BE", json!({"containers": [batch("a", "500", "500", "1Gi")]}));
    let rules = rules_after(&snapshot(Some("1.25"), vec![started.clone()]));
    let mut starting = started.containers[0].clone();
    (starting.id, starting.dir) = (None, None);
    let mut wishes = rules.container_wishes(&started, &starting);
    let asked: Vec<String> =
        wishes.drain().map(|wish| format!("{:?} {}", wish.resource, wish.value)).collect();
    assert_eq!(asked, ["CpuShares 512", "CfsQuota 40000", "MemoryLimit 1073741824"]);
    let claimed = values(&rules.pod_claims(&started), &started);
    assert_eq!(claimed[3..], ["a shares 512", "a quota 40000", "a memory 1073741824"]);
}

#[test]
fn reasons_carry_the_formula_and_are_shared() {
    let pods = vec![pod("a", "LS", one(limits("2"))), pod("b", "LS", one(limits("2")))];
    let snapshot = snapshot(Some("1.5"), pods);
    let claims = rules_after(&snapshot).claims(&snapshot);
    let container = |claim: &&Claim| claim.reason.text.contains("the container's");
    let reasons: Vec<_> = claims.iter().filter(container).map(|claim| &claim.reason).collect();
    assert_eq!(reasons[0].text, "the container's CPU limit, ceil(200000 / 1.5) (hooks.md 9.4)");
    assert_eq!(reasons[0].inputs["ratio"], "1.5");
    assert!(Arc::ptr_eq(reasons[0], reasons[1]));
}
