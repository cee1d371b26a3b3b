//! CPUNormalization: the worked examples of hooks.md 18 (rows 1 to 9) and 19.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{claimed, rules_after, snapshot, values, with};
use crate::api::keys;
use crate::claims::claim::Claim;
use crate::claims::testing::{annotated, entry, limits, pod};
use crate::rules::{PluginKind, Rules};

#[expect(clippy::needless_pass_by_value, reason = "so that a literal is passed without a borrow")]
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
    let mut rules = Rules::new(&with(&[PluginKind::BatchResource, PluginKind::CpuNormalization]));
    let mut quota_after = |ratio: &str| {
        let snapshot = snapshot(Some(ratio), vec![limited.clone()]);
        let notices = rules.observe(&snapshot);
        let again = rules.observe(&snapshot);
        assert!(again.is_empty(), "told once: {again:?}");
        (values(&rules.claims(&snapshot).cgroup, &limited)[0].clone(), notices.len())
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

#[test]
fn reasons_carry_the_formula_and_are_shared() {
    let pods = vec![pod("a", "LS", one(limits("2"))), pod("b", "LS", one(limits("2")))];
    let snapshot = snapshot(Some("1.5"), pods);
    let claims = rules_after(&snapshot).claims(&snapshot).cgroup;
    let container = |claim: &&Claim| claim.reason.text.contains("the container's");
    let reasons: Vec<_> = claims.iter().filter(container).map(|claim| &claim.reason).collect();
    assert_eq!(reasons[0].text, "the container's CPU limit, ceil(200000 / 1.5) (hooks.md 9.4)");
    assert_eq!(reasons[0].inputs["ratio"], "1.5");
    assert!(Arc::ptr_eq(reasons[0], reasons[1]));
}
