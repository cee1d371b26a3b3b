//! What directories and switches come to hold, by policy, annotation and kernel.

use serde_json::{Value as Json, json};

use super::*;
use crate::api::node_slo::HostApplication;
use crate::api::qos::KubeQos;
use crate::claims::claim::Wish;
use crate::claims::testing::{BE_DIR, annotated, dir, entry, pod, table, tree};
use crate::rules::{PluginKind, RuleSettings, Rules};
use crate::state::node_dirs::NodeDirs;
use crate::state::slo::SloMerger;
use crate::state::tree::DirKind;

/// A kernel with the file, and without switches.
fn with_file() -> KernelFacts {
    KernelFacts { bvt: true, ..KernelFacts::default() }
}

/// A kernel with the file and the switch, and with core scheduling on.
fn with_switch(switch: Switch) -> KernelFacts {
    KernelFacts { bvt: true, group_identity: switch, sched_core: Switch::Reads(1), ..KernelFacts::default() }
}

/// The classes' `cpuQOS`, each of which is on with its default identity (2, 2, -1) or another one.
#[expect(clippy::needless_pass_by_value, reason = "so that a literal is passed without a borrow")]
fn policy(lsr: Json, ls: Json, be: Json) -> Json {
    json!({"lsrClass": {"cpuQOS": lsr}, "lsClass": {"cpuQOS": ls}, "beClass": {"cpuQOS": be}})
}

fn on() -> Json {
    json!({"enable": true})
}

/// R1 of hooks.md 19.
fn r1() -> Json {
    policy(on(), on(), on())
}

/// R5: the other mechanism.
fn r5() -> Json {
    let mut policy = r1();
    policy["policies"] = json!({"cpuPolicy": "coreSched"});
    policy
}

fn snapshot(qos: &Json, kernel: KernelFacts, pods: Vec<PodEntry>) -> Snapshot {
    let mut slo = SloMerger::default();
    let spec = serde_json::from_value(json!({ "resourceQOSStrategy": qos })).unwrap();
    assert!(slo.apply(&spec).unwrap().is_empty());
    let pods = table(pods);
    let classes = [
        (KubeQos::Guaranteed, dir("kubepods")),
        (KubeQos::Burstable, dir("kubepods/burstable")),
        (KubeQos::BestEffort, dir(BE_DIR)),
    ];
    Snapshot {
        slo: Arc::new(slo.slo().clone()),
        tree: Arc::new(tree(&pods)),
        pods: Arc::new(pods),
        kernel: Arc::new(kernel),
        dirs: Arc::new(NodeDirs { classes: classes.to_vec(), host_apps: Vec::new() }),
        ..Snapshot::default()
    }
}

fn rules(mainline_equivalents: bool) -> Rules {
    let plugins = [PluginKind::GroupIdentity].into_iter().collect();
    Rules::new(&RuleSettings { plugins, mainline_equivalents, ..RuleSettings::default() })
}

/// `path identity` of each directory, sorted.
fn identities(claims: &Claims) -> Vec<String> {
    let line = |claim: &Claim| {
        let Wish::Hold(value) = &claim.wish else { panic!("{claim:?}") };
        assert_eq!((claim.target.resource, claim.owner), (Resource::BvtWarpNs, Owner::GroupIdentity));
        assert!(claim.reason.text.contains("hooks.md 8.1"), "{claim:?}");
        format!("{} {value}", claim.target.dir)
    };
    let mut lines: Vec<String> = claims.cgroup.iter().map(line).collect();
    lines.sort();
    lines
}

fn switches(claims: &Claims) -> Vec<String> {
    let line = |claim: &Claim<HostFile>| {
        let Wish::Hold(text) = &claim.wish else { panic!("{claim:?}") };
        format!("{} {text}", claim.target)
    };
    claims.host_files.iter().map(line).collect()
}

fn claims(snapshot: &Snapshot) -> Claims {
    let mut rules = rules(false);
    rules.observe(snapshot);
    rules.claims(snapshot)
}

fn spec() -> Json {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]})
}

fn of_pod(qos: &Json, pod: &PodEntry) -> Option<String> {
    let claims = claims(&snapshot(qos, with_file(), vec![pod.clone()]));
    let prefix = format!("{} ", pod.dir);
    identities(&claims).iter().find_map(|line| line.strip_prefix(&prefix).map(str::to_owned))
}

#[test]
fn worked_example_17_lsr_off_ls_2_be_minus_1() {
    let qos = policy(json!({"enable": false}), on(), on());
    let guaranteed = entry(json!({
        "metadata": {"name": "g", "namespace": "ns", "uid": "g"},
        "spec": {"containers": [{"name": "c", "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}}]},
    }));
    assert_eq!(guaranteed.kube_qos, KubeQos::Guaranteed);
    let pods = vec![pod("r", "LSR", spec()), guaranteed, pod("s", "SYSTEM", spec())];
    let claims = claims(&snapshot(&qos, with_file(), pods));
    let lines = identities(&claims);
    for line in [
        "kubepods 0",
        "kubepods/burstable 2",
        "kubepods/besteffort -1",
        "kubepods/burstable/podr 0",
        "kubepods/podg 2",
        "kubepods/burstable/pods 2",
        "kubepods/burstable/pods/c 2",
        "kubepods/burstable/pods/sandbox 2",
    ] {
        assert!(lines.iter().any(|each| each == line), "{line}: {lines:?}");
    }
    assert_eq!(lines.len(), 3 + 3 * 3, "each directory once: {lines:?}");
}

#[test]
fn worked_example_18_an_ls_pods_own_identity() {
    let own =
        |label: &str, text: &str| of_pod(&r1(), &annotated("u", label, json!({ CPU_QOS: text }), spec()));
    for (label, text, identity) in [
        ("LS", r#"{"enable":true,"groupIdentity":-1}"#, Some("-1")),
        ("LS", r#"{"enable":true}"#, Some("2")),
        ("LS", r#"{"groupIdentity":-1}"#, Some("0")),
        ("LS", r#"{"enable":false,"groupIdentity":2}"#, Some("0")),
        ("LS", "{}", Some("0")),
        ("LSR", r#"{"enable":true,"groupIdentity":1}"#, Some("2")),
        ("BE", r#"{"enable":true,"groupIdentity":1}"#, Some("-1")),
        ("LS", r#"{"enable":true,"groupIdentity":3}"#, None),
        ("BE", r#"{"groupIdentity":-2}"#, None),
        ("", "{bad", None),
        ("LS", r#"{"enable":"yes"}"#, None),
        ("LS", r#"{"coreExpeller":1}"#, None),
    ] {
        assert_eq!(own(label, text).as_deref(), identity, "{label} {text}");
    }
}

#[test]
fn worked_example_19_the_other_policy_leaves_zeros_or_nothing() {
    let pods = || vec![pod("l", "LS", spec())];
    let held = |kernel| claims(&snapshot(&r5(), kernel, pods()));
    let off = held(with_switch(Switch::Reads(0)));
    assert!(off == Claims::default());
    let absent = held(with_file());
    assert!(identities(&absent).iter().all(|line| line.ends_with(" 0")) && absent.cgroup.len() == 6);
    let on = held(with_switch(Switch::Reads(1)));
    assert_eq!(on.cgroup.len(), 6, "kept at 0 while the switch is on");
    assert!(on.host_files.is_empty(), "whose switch it is now, the other mechanism says");
}

/// hooks.md 19, "bvt, sysctl file 0, 1, absent, unreadable".
#[test]
fn the_switch_decides_whether_anything_is_written() {
    let enable = ["/proc/sys/kernel/sched_core 0", "/proc/sys/kernel/sched_group_identity_enabled 1"];
    for (switch, written, by_host) in [
        (Switch::Reads(0), true, &enable[..]),
        (Switch::Reads(1), true, &enable[..]),
        (Switch::Absent, true, &[]),
        (Switch::Unreadable, false, &enable[..1]),
    ] {
        let snapshot = snapshot(&r1(), with_switch(switch.clone()), vec![pod("l", "LS", spec())]);
        let mut rules = rules(false);
        rules.observe(&snapshot);
        let claims = rules.claims(&snapshot);
        assert_eq!(!claims.cgroup.is_empty(), written, "{switch:?}");
        assert_eq!(switches(&claims), by_host, "{switch:?}");
        let judged = rules.synced(&snapshot).any(|owner| owner == Owner::GroupIdentity);
        assert_eq!(judged, switch != Switch::Unreadable, "what cannot be read is not put back either");
    }
}

#[test]
fn a_kernel_without_the_feature_costs_nothing_and_says_nothing() {
    let bad = annotated("u", "LS", json!({ CPU_QOS: "{bad" }), spec());
    let qos = policy(on(), json!({"enable": true, "groupIdentity": 7}), on());
    let snapshot = snapshot(&qos, KernelFacts::default(), vec![bad]);
    let mut rules = rules(false);
    assert!(rules.observe(&snapshot).is_empty());
    assert!(rules.claims(&snapshot) == Claims::default());
}

#[test]
fn h13_a_kernel_that_shows_the_feature_later_is_seen() {
    let mut now = snapshot(&r1(), KernelFacts::default(), vec![pod("l", "LS", spec())]);
    let mut rules = rules(false);
    assert!(rules.observe(&now).is_empty());
    now.kernel = Arc::new(with_file());
    let notices = rules.observe(&now);
    let [RuleNotice::Changed { rule: "GroupIdentity", now: told }] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert_eq!(told, "LSR 2, LS 2, BE -1");
    assert_eq!(rules.claims(&now).cgroup.len(), 6);
    assert!(rules.observe(&now).is_empty());
}

#[test]
fn h16_every_caller_sees_the_pods_own_identity() {
    let own = json!({ CPU_QOS: r#"{"enable":true,"groupIdentity":1}"# });
    let pod = annotated("u", "LS", own, spec());
    let snapshot = snapshot(&r1(), with_file(), vec![pod.clone()]);
    let mut rules = rules(false);
    rules.observe(&snapshot);
    let by_hook = identities(&rules.pod_claims(&pod));
    assert_eq!(by_hook, ["kubepods/burstable/podu 1", "kubepods/burstable/podu/c 1"]);
    let all = identities(&rules.claims(&snapshot));
    assert!(by_hook.iter().all(|line| all.contains(line)), "{all:?}");
    assert!(all.contains(&"kubepods/burstable/podu/sandbox 1".to_owned()));
}

#[test]
fn h16_classes_that_the_policy_leaves_out_are_off() {
    let be_alone = json!({"beClass": {"cpuQOS": {"enable": true, "groupIdentity": -1}}});
    assert_eq!(of_pod(&be_alone, &pod("l", "LS", spec())).as_deref(), Some("0"));
    assert_eq!(of_pod(&json!({}), &pod("l", "LS", spec())).as_deref(), Some("0"));
}

#[test]
fn before_the_first_policy_nothing_is_touched() {
    let mut early = snapshot(&r1(), with_switch(Switch::Reads(1)), vec![pod("l", "LS", spec())]);
    early.slo = Arc::default();
    let mut rules = rules(false);
    rules.observe(&early);
    assert!(rules.claims(&early) == Claims::default());
    assert_eq!(rules.synced(&early).filter(|owner| *owner == Owner::GroupIdentity).count(), 0);
}

#[test]
fn directories_that_no_known_pod_stands_for_hold_what_their_class_does() {
    let mut now = snapshot(&r1(), with_file(), vec![pod("l", "LS", spec())]);
    let mut tree = (*now.tree).clone();
    for (path, kind) in [
        ("kubepods/podgone", DirKind::Pod),
        ("kubepods/podgone/x", DirKind::Container),
        ("kubepods/besteffort/podgone", DirKind::Pod),
        ("kubepods/besteffort/podgone/x", DirKind::Container),
        ("kubepods/besteffort/podgone/x/init.scope", DirKind::Nested),
        ("kubepods/burstable/podl/just-born", DirKind::Container),
    ] {
        tree.dirs.insert(dir(path), kind);
    }
    now.tree = Arc::new(tree);
    let app = |name: &str, qos: &str| {
        let app = HostApplication { name: name.into(), qos: qos.into(), ..HostApplication::default() };
        (app, dir(&format!("host/{name}")))
    };
    let apps = vec![app("a", "LS"), app("b", "BE"), app("c", ""), app("d", "SYSTEM")];
    now.dirs = Arc::new(NodeDirs { classes: Vec::new(), host_apps: apps });
    assert_eq!(
        identities(&claims(&now)),
        [
            "host/a 2",
            "host/b -1",
            "host/c 0",
            "host/d 0",
            "kubepods/besteffort/podgone -1",
            "kubepods/besteffort/podgone/x -1",
            "kubepods/burstable/podl 2",
            "kubepods/burstable/podl/c 2",
            "kubepods/burstable/podl/just-born 2",
            "kubepods/burstable/podl/sandbox 2",
            "kubepods/podgone 0",
            "kubepods/podgone/x 0",
        ]
    );
}

/// hooks.md 19, "change: GroupIdentity": all off, same, LS on, same.
#[test]
fn the_first_policy_and_each_change_are_told_and_refusals_keep_the_last_good_rule() {
    let mut rules = rules(false);
    let mut told = |qos: &Json| {
        let told = |notice: RuleNotice| match notice {
            RuleNotice::Changed { now, .. } => now,
            RuleNotice::Refused { object, error, .. } => format!("{object}: {error}"),
        };
        let now = snapshot(qos, with_file(), vec![pod("l", "LS", spec())]);
        let notices: Vec<String> = rules.observe(&now).into_iter().map(told).collect();
        (notices.join("; "), identities(&rules.claims(&now)).pop().unwrap())
    };
    let ls = |identity: i64| policy(json!({}), json!({"enable": true, "groupIdentity": identity}), json!({}));
    let of_ls = |identity: i64| format!("kubepods/burstable/podl/sandbox {identity}");
    assert_eq!(told(&json!({})), ("off".to_owned(), of_ls(0)));
    assert_eq!(told(&json!({})), (String::new(), of_ls(0)));
    assert_eq!(told(&ls(1)), ("LSR off, LS 1, BE off".to_owned(), of_ls(1)));
    assert_eq!(told(&ls(1)), (String::new(), of_ls(1)));
    let refused = "NodeSLO: cpuQOS of LS has groupIdentity 5, not -1 to 2".to_owned();
    assert_eq!(told(&ls(5)), (refused, of_ls(1)));
}

#[test]
fn a_malformed_annotation_is_told_once() {
    let bad = annotated("u", "BE", json!({ CPU_QOS: r#"{"groupIdentity":3}"# }), spec());
    let now = snapshot(&r1(), with_file(), vec![bad]);
    let mut rules = rules(false);
    let notices = rules.observe(&now);
    let refused: Vec<_> = notices.iter().filter(|n| matches!(n, RuleNotice::Refused { .. })).collect();
    assert!(
        matches!(&refused[..], [RuleNotice::Refused { object, .. }] if object == "pod ns/u"),
        "{notices:?}"
    );
    assert!(rules.observe(&now).is_empty());
}

#[test]
fn with_mainline_equivalents_the_rule_speaks_on_any_kernel_while_a_class_is_on() {
    let mut now = snapshot(&r1(), KernelFacts::default(), vec![pod("l", "LS", spec())]);
    let mut rules = rules(true);
    let notices = rules.observe(&now);
    let [RuleNotice::Changed { now: told, .. }] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!(told, "LSR 2, LS 2, BE -1, by mainline equivalents");
    let claims = rules.claims(&now);
    assert_eq!((claims.cgroup.len(), claims.host_files.len()), (6, 0));
    // The vendor's kernel shows itself: its own file counts, as if the flag were not there.
    now.kernel = Arc::new(with_file());
    rules.observe(&now);
    assert!(rules.claims(&now) == claims);
    for qos in [json!({}), r5()] {
        let off = snapshot(&qos, KernelFacts::default(), vec![pod("l", "LS", spec())]);
        rules.observe(&off);
        assert!(rules.claims(&off) == Claims::default(), "{qos}");
    }
}
