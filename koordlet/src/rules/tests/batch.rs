//! BatchResource: the worked examples of hooks.md 18 (rows 10 to 15) and 19.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{claimed, rules_after, slo, snapshot, values};
use crate::api::keys;
use crate::claims::testing::{annotated, batch, pod};
use crate::state::slo::{Slo, SuppressPolicy};

/// Shares, quota and memory of pod and containers, in hooks.md 19's notation.
#[expect(clippy::needless_pass_by_value, reason = "so that a literal is passed without a borrow")]
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
        let found = values(&rules_after(&snapshot).pod_claims(&pod).cgroup, &pod);
        [found[1].clone(), found[4].clone()]
    };
    assert_eq!(quotas(slo(true, SuppressPolicy::CfsQuota)), ["pod quota -1", "a quota -1"]);
    let finite = ["pod quota 40000", "a quota 40000"];
    assert_eq!(quotas(slo(true, SuppressPolicy::Cpuset)), finite);
    assert_eq!(quotas(slo(false, SuppressPolicy::CfsQuota)), finite);
    assert_eq!(quotas(Arc::default()), finite, "before the first NodeSLO");
}
