//! OOMScoreAdj: annotations to scores (hooks.md 10.2). Rows of annotations are in the vector set `inject`.

use std::sync::Arc;

use serde_json::json;

use super::with;
use crate::api::keys;
use crate::claims::claim::Wish;
use crate::claims::target::TaskValue;
use crate::claims::testing::{entry, table, tree};
use crate::error_chain::chain;
use crate::rules::{PluginKind, RuleNotice, Rules};
use crate::state::pods::PodEntry;
use crate::state::snapshot::Snapshot;

fn pod(spec: &str, plain: &str, phase: &str) -> PodEntry {
    let mut annotations = json!({});
    for (key, text) in [(keys::OOM_SCORE_ADJ_SPEC, spec), (keys::OOM_SCORE_ADJ, plain)] {
        if text != "-" {
            annotations[key] = json!(text);
        }
    }
    entry(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
        "status": {"phase": phase},
    }))
}

fn snapshot(pod: PodEntry) -> Snapshot {
    let pods = table([pod]);
    Snapshot { tree: Arc::new(tree(&pods)), pods: Arc::new(pods), ..Snapshot::default() }
}

fn rules() -> Rules {
    Rules::new(&with(&[PluginKind::OomScoreAdj]))
}

fn claimed(pod: PodEntry) -> Vec<String> {
    let snapshot = snapshot(pod);
    let mut rules = rules();
    rules.observe(&snapshot);
    let claims = rules.claims(&snapshot);
    let line = |claim: &crate::claims::claim::Claim<crate::claims::target::TaskTarget>| match &claim.wish {
        Wish::Hold(TaskValue::OomScoreAdj(score)) => format!("{} {score}", claim.target.dir.name()),
        other => panic!("{other:?}"),
    };
    let mut lines: Vec<String> = claims.tasks.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn containers_and_init_containers_hold_the_score_and_the_sandbox_does_not() {
    assert_eq!(claimed(pod("-", "300", "Running")), ["a 300", "b 300", "i 300"]);
    assert_eq!(claimed(pod(r#"{"a":-5,"i":7}"#, "300", "Running")), ["a -5", "b 300", "i 7"]);
    assert_eq!(claimed(pod(r#"{"a":2000}"#, "300", "Running")), ["b 300", "i 300"], "no fall-back");
    assert_eq!(claimed(pod("{bad", "300", "Running")), Vec::<String>::new());
    assert_eq!(claimed(pod("-", "300", "Succeeded")), Vec::<String>::new());
    assert_eq!(claimed(pod("-", "-", "Running")), Vec::<String>::new());
}

#[test]
fn mistakes_are_told_once() {
    for (spec, plain, says) in [
        ("{bad", "-", "oom-score-adj-spec cannot be read"),
        (r#"{"a":1.5}"#, "5", "oom-score-adj-spec cannot be read"),
        (r#"{"a":2000}"#, "5", "an adjustment is 2000, not -1000 to 1000"),
        ("-", "abc", "\"abc\" is no whole number"),
        ("-", "1001", "an adjustment is 1001, not -1000 to 1000"),
    ] {
        let mut rules = rules();
        let pod = pod(spec, plain, "Running");
        let notices = rules.observe(&snapshot(pod.clone()));
        let [RuleNotice::Refused { object, error, .. }] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!(object, "pod ns/p");
        assert!(chain(error).contains(says), "{}", chain(error));
        let mut again = pod;
        again.hooks_live = true;
        assert!(rules.observe(&snapshot(again)).is_empty(), "the text is the same");
    }
}
