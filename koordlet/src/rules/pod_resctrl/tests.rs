//! Resctrl: the worked examples of hooks.md 19, what becomes of bad annotations, and the claims of a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::claims::claim::Wish;
use crate::claims::testing::{annotated, table};
use crate::resctrl::bandwidth::CpuVendor;
use crate::resctrl::schemata::Schemata;
use crate::rules::{PluginKind, RuleSettings, Rules};
use crate::state::kernel::KernelFacts;
use crate::state::resctrl::{L3Cache, ResctrlTree};

fn facts(vendor: CpuVendor, cbm: &str, caches: &[u32]) -> ResctrlFacts {
    let full = vendor.full_bandwidth();
    let line = |value: &str| {
        let values: Vec<String> = caches.iter().map(|cache| format!("{cache}={value}")).collect();
        values.join(";")
    };
    let root = format!("L3:{}\nMB:{}\n", line(cbm), line(&full.to_string()));
    let l3 = L3Cache { cbm_mask: cbm.to_owned(), min_cbm_bits: 1, shareable_bits: "0".to_owned() };
    let tree = ResctrlTree {
        l3: Some(l3),
        code_and_data: false,
        bandwidth: true,
        caches: caches.iter().copied().collect(),
        root: Schemata::parse(&root).unwrap(),
    };
    ResctrlFacts { vendor, cat_l3: true, mba: true, tree: Some(tree) }
}

fn intel() -> ResctrlFacts {
    facts(CpuVendor::Intel, "7ff", &[0, 1])
}

fn lines(annotation: &str, facts: &ResctrlFacts) -> (Vec<String>, usize) {
    let found = pod_lines(&serde_json::from_str(annotation).unwrap(), facts);
    (found.lines.iter().map(ToString::to_string).collect(), found.faults.len())
}

fn llc(range: &str) -> String {
    format!(r#"{{"llc":{{"schemata":{{"range":{range}}}}}}}"#)
}

fn both(range: &str, percent: i64) -> String {
    format!(r#"{{"llc":{{"schemata":{{"range":{range}}}}},"mb":{{"schemata":{{"percent":{percent}}}}}}}"#)
}

#[test]
fn a_pods_lines_by_maker_and_mask() {
    let amd = |cbm| facts(CpuVendor::Amd, cbm, &[0, 1]);
    for (annotation, facts, want) in [
        (both("[0,30]", 20), intel(), &["L3:0=f;1=f", "MB:0=20;1=20"][..]),
        (both("[10,50]", 15), intel(), &["L3:0=3c;1=3c", "MB:0=20;1=20"]),
        (llc("[0,5]"), intel(), &["L3:0=1;1=1"]),
        (llc("[10,80]"), facts(CpuVendor::Intel, "3ff", &[0]), &["L3:0=fe"]),
        (both("[0,50]", 33), amd("ffff"), &["L3:0=ff;1=ff", "MB:0=52;1=52"]),
        (r#"{"mb":{"schemata":{"percent":100}}}"#.to_owned(), amd("ffff"), &["MB:0=2048;1=2048"]),
        (
            r#"{"llc":{"schemata":{"range":[0,100]},"schemataPerCache":[{"cacheID":1,"range":[0,50]}]},
                "mb":{"schemata":{"percent":100},"schemataPerCache":[{"cacheID":0,"percent":55}]}}"#
                .to_owned(),
            facts(CpuVendor::Intel, "fff", &[0, 1]),
            &["L3:0=fff;1=3f", "MB:0=60;1=100"],
        ),
    ] {
        assert_eq!(
            lines(&annotation, &facts),
            (want.iter().map(ToString::to_string).collect(), 0),
            "{annotation}"
        );
    }
}

#[test]
fn invalid_parts_are_told_and_the_others_count() {
    for (annotation, facts, want, faults) in [
        (both("[50,50]", 50), intel(), &["MB:0=50;1=50"][..], 1),
        (
            r#"{"llc":{"schemata":{"range":[0,30]},"schemataPerCache":[{"cacheID":1,"range":[40,30]}]},
                "mb":{"schemata":{"percent":5}}}"#
                .to_owned(),
            intel(),
            &["L3:0=f;1=f", "MB:0=10;1=10"],
            1,
        ),
        (llc("[0,30]"), facts(CpuVendor::Intel, "7fe", &[0, 1]), &[], 1),
        (llc("[30,31]"), intel(), &[], 1),
        (llc("[1,2,3]"), intel(), &[], 0),
        (both("[0,30]", 50), facts(CpuVendor::Other, "7ff", &[0]), &["L3:0=f"], 1),
        ("{}".to_owned(), intel(), &[], 0),
        (both("[0,30]", 50), facts(CpuVendor::Intel, "7ff", &[]), &[], 0),
        (both("[0,30]", 50), ResctrlFacts { tree: None, ..intel() }, &[], 0),
    ] {
        let want = want.iter().map(ToString::to_string).collect();
        assert_eq!(lines(&annotation, &facts), (want, faults), "{annotation}");
    }
}

#[test]
fn h30_a_cache_that_is_not_there_voids_its_own_line_alone() {
    let annotation = r#"{"llc":{"schemata":{"range":[0,30]},"schemataPerCache":[{"cacheID":1,"range":[0,50]}]},
                         "mb":{"schemata":{"percent":60},"schemataPerCache":[{"cacheID":1,"percent":10}]}}"#;
    let one_cache = facts(CpuVendor::Intel, "7ff", &[0]);
    assert_eq!(lines(annotation, &one_cache), (vec!["MB:0=60".to_owned()], 1));
}

#[test]
fn q37_what_is_said_of_some_caches_leaves_the_others_as_in_the_root_group() {
    let annotation = r#"{"llc":{"schemataPerCache":[{"cacheID":0,"range":[0,50]}]},
                         "mb":{"schemataPerCache":[{"cacheID":1,"percent":40}]}}"#;
    let (found, faults) = lines(annotation, &intel());
    assert_eq!((found, faults), (vec!["L3:0=3f;1=7ff".to_owned(), "MB:0=100;1=40".to_owned()], 0));
}

#[test]
fn q34_masks_have_the_bits_that_the_kernel_wants_and_code_and_data_are_two_lines() {
    let mut facts = intel();
    let tree = facts.tree.as_mut().unwrap();
    tree.l3.as_mut().unwrap().min_cbm_bits = 2;
    tree.code_and_data = true;
    let (found, _) = lines(&llc("[0,5]"), &facts);
    assert_eq!(found, ["L3CODE:0=3;1=3", "L3DATA:0=3;1=3"]);
}

fn snapshot(facts: ResctrlFacts, pods: Vec<PodEntry>) -> Snapshot {
    let kernel = KernelFacts { resctrl: facts, ..KernelFacts::default() };
    Snapshot { pods: Arc::new(table(pods)), kernel: Arc::new(kernel), ..Snapshot::default() }
}

fn pod(uid: &str, annotation: &str) -> PodEntry {
    annotated(uid, "LS", json!({ keys::RESCTRL: annotation }), json!({"containers": [{"name": "c"}]}))
}

fn rules() -> Rules {
    let plugins = [PluginKind::PodResctrl].into();
    Rules::new(&RuleSettings { plugins, ..RuleSettings::default() })
}

fn claimed(rules: &Rules, snapshot: &Snapshot) -> Vec<String> {
    let line = |claim: &Claim<ResctrlTarget>| match &claim.wish {
        Wish::Hold(value) => format!("{} = {value}", claim.target),
        Wish::Leave => "leave".to_owned(),
    };
    rules.claims(snapshot).resctrl.iter().map(line).collect()
}

#[test]
fn a_pod_claims_its_lines_and_its_tasks() {
    let mut rules = rules();
    let mut now = snapshot(intel(), vec![pod("u-1", &both("[0,30]", 20)), pod("u-2", "{}")]);
    assert_eq!(rules.observe(&now).len(), 1, "what the host offers");
    let want = [
        "/sys/fs/resctrl = mounted",
        "/sys/fs/resctrl/koordlet-u-1/schemata L3 = L3:0=f;1=f",
        "/sys/fs/resctrl/koordlet-u-1/schemata MB = MB:0=20;1=20",
        "kubepods/burstable/podu-1 resctrl group = koordlet-u-1",
    ];
    let burstable = claimed(&rules, &now);
    let besteffort: Vec<String> = want.iter().map(|line| line.replace("burstable", "besteffort")).collect();
    assert!(burstable == want || burstable == besteffort, "{burstable:?}");
    assert!(rules.synced(&now).any(|owner| owner == Owner::PodResctrl));
    // A look at a tree that is away does not let the pods go.
    now.kernel = snapshot(ResctrlFacts { tree: None, ..intel() }, vec![]).kernel;
    rules.observe(&now);
    assert_eq!(claimed(&rules, &now).len(), 4);
    // A CPU without it does.
    now.kernel = Arc::default();
    rules.observe(&now);
    assert_eq!(claimed(&rules, &now), [""; 0]);
}

#[test]
fn h23_a_changed_annotation_changes_the_claims_and_a_bad_one_leaves_them() {
    let mut rules = rules();
    let mut mb_of = |annotation: &str| {
        let now = snapshot(intel(), vec![pod("u", annotation)]);
        let refused = rules.observe(&now).iter().filter(|n| matches!(n, RuleNotice::Refused { .. })).count();
        let again = rules.observe(&now);
        assert!(again.is_empty(), "told once: {again:?}");
        let claims = claimed(&rules, &now);
        let mb = claims.iter().find_map(|line| Some(line.split_once("schemata MB = ")?.1.to_owned()));
        (mb.unwrap_or_default(), refused)
    };
    let percent = |percent: i64| format!(r#"{{"mb":{{"schemata":{{"percent":{percent}}}}}}}"#);
    assert_eq!(mb_of(&percent(20)), ("MB:0=20;1=20".to_owned(), 0));
    assert_eq!(mb_of(&percent(50)), ("MB:0=50;1=50".to_owned(), 0));
    assert_eq!(mb_of("x"), ("MB:0=50;1=50".to_owned(), 1));
    assert_eq!(mb_of(&percent(-10)), (String::new(), 1));
    assert_eq!(mb_of(&percent(30)), ("MB:0=30;1=30".to_owned(), 0));
    assert_eq!(mb_of(""), (String::new(), 0), "an empty one is none");
}

#[test]
fn a_container_is_told_its_class_before_it_starts() {
    let mut rules = rules();
    rules.observe(&snapshot(intel(), vec![]));
    let class = |pod: &PodEntry| {
        let (injection, errors) = rules.injection(pod, &pod.containers[0]);
        (injection.rdt_class, errors.len())
    };
    assert_eq!(class(&pod("u", &llc("[0,30]"))), (Some("koordlet-u".to_owned()), 0));
    assert_eq!(class(&pod("u", "{}")), (None, 0), "no line, no group");
    assert_eq!(class(&pod("u", "x")), (None, 1), "hooks.md 11.1: the hook fails");
}

#[test]
fn a_uid_that_is_no_name_has_no_group() {
    let mut rules = rules();
    let mut hostile = pod("u", &llc("[0,30]"));
    hostile.uid = "../../x".into();
    let pods = BTreeMap::from([(Arc::clone(&hostile.uid), Arc::new(hostile))]);
    let mut now = snapshot(intel(), vec![]);
    now.pods = Arc::new(crate::state::pods::PodTable { pods, synced: true });
    let notices = rules.observe(&now);
    assert!(notices.iter().any(|n| matches!(n, RuleNotice::Refused { .. })), "{notices:?}");
    assert_eq!(claimed(&rules, &now), ["/sys/fs/resctrl = mounted"]);
}
