//! The rules together: gates, inputs that come late or are refused, and what each caller gets.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{all, node, rules_after, slo, snapshot, values, with};
use crate::api::keys;
use crate::claims::claim::{Claims, Owner};
use crate::claims::testing::{annotated, batch, limits, pod, table};
use crate::rules::{PluginKind, RuleNotice, Rules};
use crate::state::slo::{Slo, SuppressPolicy};
use crate::state::snapshot::Snapshot;

#[expect(clippy::needless_pass_by_value, reason = "so that a literal is passed without a borrow")]
fn one(resources: Json) -> Json {
    json!({"containers": [{"name": "a", "resources": resources}]})
}

/// hooks.md 19, "change: BatchResource".
#[test]
fn batch_rules_report_their_first_input_and_each_change() {
    let mut rules = Rules::new(&with(&[PluginKind::BatchResource]));
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
    let ls = pod("l", "LS", one(limits("2")));
    let be = pod("b", "BE", json!({"containers": [batch("a", "500", "500", "1Gi")]}));
    let snapshot = snapshot(Some("1.25"), vec![ls.clone(), be.clone()]);
    let mut rules = Rules::new(&with(&[PluginKind::BatchResource]));
    rules.observe(&snapshot);
    assert!(rules.pod_claims(&ls) == Claims::default());
    assert_eq!(
        values(&rules.pod_claims(&be).cgroup, &be)[1],
        "pod quota 40000",
        "the ratio counts without the gate"
    );
    let mut none = Rules::new(&with(&[]));
    assert!(none.observe(&snapshot).is_empty() && none.claims(&snapshot) == Claims::default());
}

#[test]
fn a_malformed_pod_annotation_is_told_once_with_its_name() {
    let mut rules = Rules::new(&with(&[PluginKind::BatchResource]));
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
    let mut rules = Rules::new(&all());
    let early = Snapshot { node: None, ..snapshot(None, vec![pod.clone()]) };
    rules.observe(&early);
    assert!(rules.claims(&early) == Claims::default());
    let of_the_node = |owner: &Owner| matches!(owner, Owner::BatchResource | Owner::CpuNormalization);
    assert_eq!(rules.synced(&early).filter(of_the_node).count(), 0);
    let late = Snapshot { node: Some(node(Some("1.25"))), ..early };
    rules.observe(&late);
    assert_eq!(values(&rules.claims(&late).cgroup, &pod), ["pod quota 160000", "a quota 160000"]);
    assert_eq!(rules.synced(&late).filter(of_the_node).count(), 2);
}

/// The hook server asks before the container has an id; the reconciler claims the same afterwards.
#[test]
fn a_container_about_to_start_gets_what_the_reconciler_will_claim() {
    let started = pod("u", "BE", json!({"containers": [batch("a", "500", "500", "1Gi")]}));
    let rules = rules_after(&snapshot(Some("1.25"), vec![started.clone()]));
    let mut starting = started.containers[0].clone();
    (starting.id, starting.dir) = (None, None);
    let wishes = rules.container_wishes(&started, &starting);
    let asked: Vec<String> =
        wishes.iter().map(|wish| format!("{:?} {}", wish.resource, wish.value)).collect();
    assert_eq!(asked, ["CpuShares 512", "CfsQuota 40000", "MemoryLimit 1073741824"]);
    let claimed = values(&rules.pod_claims(&started).cgroup, &started);
    assert_eq!(claimed[3..], ["a shares 512", "a quota 40000", "a memory 1073741824"]);
}
