//! CoreSched: groups, switches, and who is asked (hooks.md 10.1, 19).

use std::sync::Arc;

use serde_json::json;

use super::with;
use crate::api::keys;
use crate::api::node_slo::NodeSloSpec;
use crate::api::qos::KubeQos;
use crate::cgroup::resource::Resource;
use crate::claims::claim::{Claims, Wish};
use crate::claims::target::{TaskAttribute, TaskValue};
use crate::claims::testing::{entry, table, tree};
use crate::rules::core_sched::CoreSched;
use crate::rules::{PluginKind, RuleNotice, Rules};
use crate::state::kernel::{CoreSchedSwitch, KernelFacts, Switch};
use crate::state::pods::PodEntry;
use crate::state::slo::{Slo, SloMerger};
use crate::state::snapshot::Snapshot;

/// A policy from classes and what their `cpuQOS` says.
fn slo(policy: &str, classes: &[(&str, serde_json::Value)]) -> Arc<Slo> {
    let mut strategy = json!({"policies": {"cpuPolicy": policy}});
    for (class, qos) in classes {
        strategy[*class] = json!({"cpuQOS": qos});
    }
    let spec: NodeSloSpec = serde_json::from_value(json!({"resourceQOSStrategy": strategy})).unwrap();
    let mut merger = SloMerger::default();
    merger.apply(&spec);
    Arc::new(merger.slo().clone())
}

fn all_on() -> Arc<Slo> {
    let on = json!({"enable": true});
    let idle = json!({"enable": true, "schedIdle": 1});
    slo("coreSched", &[("lsrClass", on.clone()), ("lsClass", on), ("beClass", idle)])
}

fn pod(uid: &str, class: &str, kube: &str, labels: &[(&str, &str)]) -> PodEntry {
    let mut all = json!({});
    for (key, value) in labels.iter().chain([(keys::QOS_CLASS, class)].iter()) {
        all[*key] = json!(value);
    }
    entry(json!({
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, "labels": all},
        "spec": {"containers": [{"name": format!("{uid}-a")}]},
        "status": {"phase": "Running", "qosClass": kube},
    }))
}

fn kernel(core_sched: CoreSchedSwitch) -> Arc<KernelFacts> {
    Arc::new(KernelFacts { core_sched, ..KernelFacts::default() })
}

fn claims(slo: Arc<Slo>, kernel: Arc<KernelFacts>, pods: Vec<PodEntry>) -> Claims {
    let pods = table(pods);
    let tree = Arc::new(tree(&pods));
    let snapshot = Snapshot { slo, kernel, tree, pods: Arc::new(pods), ..Snapshot::default() };
    let mut rules = Rules::new(&with(&[PluginKind::CoreSched]));
    rules.observe(&snapshot);
    rules.claims(&snapshot)
}

/// `directory value` of each claim on tasks.
fn cookies(claims: &Claims) -> Vec<String> {
    let line = |claim: &crate::claims::claim::Claim<crate::claims::target::TaskTarget>| {
        assert_eq!(claim.target.attribute, TaskAttribute::CoreSchedCookie);
        let value = match &claim.wish {
            Wish::Hold(TaskValue::CookieOf(group)) => format!("={group}"),
            Wish::Hold(TaskValue::NoCookie) => "none".to_owned(),
            other => panic!("{other:?}"),
        };
        format!("{} {value}", claim.target.dir)
    };
    claims.tasks.iter().map(line).collect()
}

#[test]
fn sandbox_and_containers_get_the_cookie_of_their_group() {
    let group = (keys::CORE_SCHED_GROUP_ID, "g");
    let pods = vec![
        pod("ls", "LS", "Burstable", &[group]),
        pod("lse", "LSE", "Guaranteed", &[]),
        pod("be", "BE", "BestEffort", &[group]),
        pod("own", "LS", "Burstable", &[group, (keys::CORE_SCHED_POLICY, "exclusive")]),
        pod("out", "BE", "BestEffort", &[(keys::CORE_SCHED_POLICY, "none")]),
        pod("sys", "SYSTEM", "Burstable", &[group]),
    ];
    let claims = claims(all_on(), kernel(CoreSchedSwitch::None), pods);
    let mut lines = cookies(&claims);
    lines.sort();
    assert_eq!(
        lines,
        [
            "kubepods/besteffort/podbe/be-a =g",
            "kubepods/besteffort/podbe/sandbox =g",
            "kubepods/besteffort/podout/out-a none",
            "kubepods/besteffort/podout/sandbox none",
            "kubepods/burstable/podls/ls-a =g-expeller",
            "kubepods/burstable/podls/sandbox =g-expeller",
            "kubepods/burstable/podown/own-a =own-expeller",
            "kubepods/burstable/podown/sandbox =own-expeller",
            "kubepods/podlse/lse-a =-expeller",
            "kubepods/podlse/sandbox =-expeller",
        ]
    );
    assert!(claims.host_files.is_empty(), "a mainline kernel needs no switch");
}

/// An idle class directory would refuse the kubelet's shares (design.md 4): its pods are idle instead.
#[test]
fn cpu_idle_is_claimed_on_pods_and_never_on_a_class() {
    let pods = vec![pod("be", "BE", "BestEffort", &[]), pod("ls", "LS", "Burstable", &[])];
    let claims = claims(all_on(), kernel(CoreSchedSwitch::None), pods);
    let idle: Vec<String> = claims.cgroup.iter().map(|claim| claim.target.to_string()).collect();
    assert_eq!(idle, [format!("kubepods/besteffort/podbe {:?}", Resource::CpuIdle)]);
}

#[test]
fn a_kernel_without_core_scheduling_gets_no_claim() {
    let pods = vec![pod("be", "BE", "BestEffort", &[])];
    let found = claims(all_on(), kernel(CoreSchedSwitch::Unsupported), pods.clone());
    assert_eq!(found, Claims::default());
    // Nor is anything claimed before the first policy.
    let unsynced = Arc::new(Slo { synced: false, ..(*all_on()).clone() });
    assert_eq!(claims(unsynced, kernel(CoreSchedSwitch::None), pods), Claims::default());
}

#[test]
fn the_other_mechanism_is_switched_off_and_this_one_on() {
    let on = |core_sched, group_identity| {
        let facts = Arc::new(KernelFacts { group_identity, core_sched, ..KernelFacts::default() });
        let claims = claims(all_on(), facts, Vec::new());
        let line = |claim: &crate::claims::claim::Claim<crate::claims::target::HostFile>| match &claim.wish {
            Wish::Hold(text) => format!("{} {text}", claim.target),
            Wish::Leave => panic!("never left"),
        };
        claims.host_files.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(
        on(CoreSchedSwitch::Sysctl, Switch::Reads(1)),
        ["/proc/sys/kernel/sched_group_identity_enabled 0", "/proc/sys/kernel/sched_core 1"]
    );
    assert_eq!(on(CoreSchedSwitch::Feature, Switch::Absent), ["/sys/kernel/debug/sched_features CORE_SCHED"]);
    // The other policy claims nothing here.
    let facts = kernel(CoreSchedSwitch::Sysctl);
    let other = slo("groupIdentity", &[("beClass", json!({"enable": true}))]);
    assert!(claims(other, facts, Vec::new()).host_files.is_empty());
}

/// Pods lose their cookies when the policy goes, also those that an agent before this one gave.
#[test]
fn a_class_that_is_off_has_no_cookie() {
    let pods = vec![pod("be", "BE", "BestEffort", &[]), pod("ls", "LS", "Burstable", &[])];
    let found = claims(slo("groupIdentity", &[]), kernel(CoreSchedSwitch::None), pods.clone());
    assert!(cookies(&found).iter().all(|line| line.ends_with(" none")) && found.tasks.len() == 4);
    let ls_alone = slo("coreSched", &[("lsClass", json!({"enable": true}))]);
    let found = claims(ls_alone, kernel(CoreSchedSwitch::None), pods);
    assert_eq!(cookies(&found).iter().filter(|line| line.ends_with(" none")).count(), 2);
}

/// hooks.md 19, "change: GroupIdentity and CoreSched (nodeSLO)".
#[test]
fn the_first_policy_is_a_change_and_an_equal_one_is_none() {
    let mut rule = CoreSched::default();
    assert_eq!(rule.cpu_idle(KubeQos::BestEffort), None);
    let off = slo("", &[]);
    let ls = slo("coreSched", &[("lsClass", json!({"enable": true}))]);
    let changes = [&off, &off, &ls, &ls].map(|slo| rule.update(&slo.qos.cpu));
    assert_eq!(changes, [true, false, true, false]);
    assert_eq!(rule.to_string(), "LS expelling others; this kernel has no core scheduling");
    rule.set_kernel(&kernel(CoreSchedSwitch::None));
    assert_eq!(rule.to_string(), "LS expelling others");
    let notices = {
        let mut rules = Rules::new(&with(&[PluginKind::CoreSched]));
        rules.observe(&Snapshot { slo: ls, ..Snapshot::default() })
    };
    assert!(matches!(&notices[..], [RuleNotice::Changed { rule: CoreSched::NAME, .. }]), "{notices:?}");
}

/// hooks.md 10.1: Guaranteed goes by LSR where that is enabled, else by LS.
#[test]
fn kubernetes_classes_stand_for_pods_without_one() {
    let group = |slo: &Arc<Slo>, kube| {
        let mut rule = CoreSched::default();
        rule.update(&slo.qos.cpu);
        let group = rule.group(&pod("u", "", kube, &[]));
        (group.enabled, group.name)
    };
    let lsr = json!({"enable": true, "coreExpeller": false});
    let both = slo("coreSched", &[("lsrClass", lsr), ("lsClass", json!({"enable": true}))]);
    assert_eq!(group(&both, "Guaranteed"), (true, String::new()));
    assert_eq!(group(&both, "Burstable"), (true, "-expeller".to_owned()));
    assert_eq!(group(&both, "BestEffort"), (false, String::new()));
    let ls = slo("coreSched", &[("lsClass", json!({"enable": true}))]);
    assert_eq!(group(&ls, "Guaranteed"), (true, "-expeller".to_owned()));
}
