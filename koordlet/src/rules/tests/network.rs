//! TCNetworkQoS and TerwayQoS: worked examples, defects, and what stays the same.

use serde_json::{Value as Json, json};

use super::*;
use crate::api::node_slo::NodeSloSpec;
use crate::claims::claim::Claims;
use crate::claims::network::{ClassId, NetworkTarget};
use crate::claims::own_file::OwnFile;
use crate::claims::testing::entry;
use crate::rules::RuleNotice;
use crate::rules::bandwidth::pod_limits;
use crate::state::kernel::KernelFacts;
use crate::state::slo::SloMerger;
use crate::units::BitRate;

#[expect(clippy::needless_pass_by_value, reason = "so that a literal is passed without a borrow")]
fn policy(name: &str, total: &str, ls: Json, be: Json) -> Arc<Slo> {
    let spec: NodeSloSpec = serde_json::from_value(json!({
        "systemStrategy": {"totalNetworkBandwidth": total},
        "resourceQOSStrategy": {
            "policies": {"netQOSPolicy": name},
            "lsClass": {"networkQOS": ls},
            "beClass": {"networkQOS": be},
        },
    }))
    .unwrap();
    let mut merger = SloMerger::default();
    assert_eq!(merger.apply(&spec).unwrap(), []);
    Arc::new(merger.slo().clone())
}

#[expect(clippy::needless_pass_by_value, reason = "so that a literal is passed without a borrow")]
fn pod(uid: &str, label: &str, more: Json) -> PodEntry {
    let mut object = json!({
        "metadata": {"name": uid, "namespace": "ns", "uid": uid, "annotations": {},
            "labels": {keys::QOS_CLASS: label}},
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1"},
    });
    for (path, value) in more.as_object().unwrap() {
        *object.pointer_mut(path).unwrap() = value.clone();
    }
    entry(object)
}

fn limited(uid: &str, label: &str, annotation: &str) -> PodEntry {
    pod(uid, label, json!({"/metadata/annotations": {keys::NETWORK_QOS: annotation}}))
}

fn seen(slo: Arc<Slo>, pods: Vec<PodEntry>) -> Snapshot {
    let kernel = Arc::new(KernelFacts { net_cls: true, ..KernelFacts::default() });
    Snapshot { slo, pods: Arc::new(table(pods)), kernel, ..Snapshot::default() }
}

fn network_rules(snapshot: &Snapshot) -> (Rules, Vec<RuleNotice>) {
    let mut rules = Rules::new(&with(&[PluginKind::TcNetworkQos, PluginKind::TerwayQos]));
    let notices = rules.observe(snapshot);
    (rules, notices)
}

/// `target: value` of each claim on the network.
fn network(claims: &Claims) -> Vec<String> {
    let value = |claim: &Claim<NetworkTarget>| match &claim.wish {
        Wish::Hold(value) => format!("{}: {value}", claim.target),
        Wish::Leave => "leave".to_owned(),
    };
    claims.network.iter().map(value).collect()
}

/// `net_cls.classid` by pod.
fn class_ids(claims: &Claims) -> Vec<(String, String)> {
    let id = |claim: &Claim| match &claim.wish {
        Wish::Hold(value) if claim.target.resource == Resource::NetClsClassid => {
            Some((claim.target.dir.name().to_owned(), value.to_string()))
        }
        _ => None,
    };
    claims.cgroup.iter().filter_map(id).collect()
}

fn on() -> Json {
    json!({"enable": true, "egressRequest": 40, "egressLimit": "80M"})
}

#[test]
fn each_class_gets_its_share_of_the_total() {
    let be = json!({"enable": true, "egressRequest": "4M", "egressLimit": "8M"});
    let snapshot = seen(policy("tc", "100M", on(), be), Vec::new());
    let claims = network_rules(&snapshot).0.claims(&snapshot);
    assert_eq!(
        network(&claims),
        [
            "network class 1:1: rate 100000000bit ceil 100000000bit prio 0",
            "network class 1:2: rate 56000000bit ceil 100000000bit prio 1",
            "network class 1:3: rate 40000000bit ceil 80000000bit prio 2",
            "network class 1:4: rate 4000000bit ceil 8000000bit prio 3",
            "network filters by cgroup: present",
            "network addresses of class 1:2: ",
            "network addresses of class 1:3: ",
            "network addresses of class 1:4: ",
        ]
    );
}

#[test]
fn shares_stay_within_what_traffic_control_takes() {
    let shares = |ls: Json, be: Json| -> Vec<String> {
        let snapshot = seen(policy("tc", "10M", ls, be), Vec::new());
        let claims = network_rules(&snapshot).0.claims(&snapshot);
        network(&claims)
            .into_iter()
            .filter_map(|line| Some(line.split_once(": rate ")?.1.to_owned()))
            .collect()
    };
    // Off, whatever the fields say: no promise, no limit.
    let off = json!({"enable": false, "egressRequest": 50, "egressLimit": 60});
    assert_eq!(shares(off.clone(), off)[2], "8000bit ceil 10000000bit prio 2");
    // More than there is is promised; the limit is below the promise.
    let much = json!({"enable": true, "egressRequest": "80G", "egressLimit": "1M"});
    let all = shares(much.clone(), much);
    assert_eq!(all[1], "8000bit ceil 10000000bit prio 1");
    assert_eq!(all[2], "10000000bit ceil 10000000bit prio 2");
}

#[test]
fn without_a_total_or_under_another_policy_nothing_is_claimed() {
    for (name, total) in [("tc", "0"), ("tc", "7"), ("terway-qos", "1G")] {
        let snapshot = seen(policy(name, total, on(), json!({})), vec![pod("a", "LS", json!({}))]);
        let claims = network_rules(&snapshot).0.claims(&snapshot);
        assert_eq!((network(&claims).len(), class_ids(&claims).len()), (0, 0), "{name} {total}");
    }
    let snapshot = seen(Arc::default(), Vec::new());
    assert_eq!(network_rules(&snapshot).0.claims(&snapshot), Claims::default(), "no policy seen yet");
}

#[test]
fn class_ids_and_addresses_follow_the_qos_class() {
    let at = |uid: &str, label: &str, address: &str| pod(uid, label, json!({"/status/podIP": address}));
    let on_host = entry(json!({
        "metadata": {"name": "h", "namespace": "ns", "uid": "h", "labels": {keys::QOS_CLASS: "BE"}},
        "spec": {"hostNetwork": true},
        "status": {"phase": "Running", "podIP": "10.0.0.9"},
    }));
    let pods = vec![
        at("s", "SYSTEM", "10.0.0.1"),
        at("e", "LSE", "10.0.0.2"),
        at("r", "LSR", "10.0.0.3"),
        at("l", "LS", "fd00::1"),
        at("b", "BE", "10.0.0.5"),
        at("n", "", "10.0.0.6"),
        pod("f", "BE", json!({"/status/phase": "Succeeded"})),
        on_host,
    ];
    let snapshot = seen(policy("tc", "1G", on(), json!({})), pods);
    let claims = network_rules(&snapshot).0.claims(&snapshot);
    // hooks.md 11.5: the figures as written; no label, nothing.
    let wanted = [("b", 65_540), ("e", 65_539), ("h", 65_540), ("l", 65_539), ("r", 65_539), ("s", 65_538)];
    let wanted = wanted.map(|(uid, id)| (format!("pod{uid}"), id.to_string()));
    assert_eq!(class_ids(&claims), wanted);
    let lines = network(&claims);
    for line in ["1:2: 10.0.0.1", "1:3: 10.0.0.2,10.0.0.3", "1:4: 10.0.0.5"] {
        assert!(lines.contains(&format!("network addresses of class {line}")), "{lines:?}");
    }
    // Without the cgroup files the addresses do.
    let no_files = Snapshot { kernel: Arc::default(), ..snapshot };
    let claims = network_rules(&no_files).0.claims(&no_files);
    assert_eq!((class_ids(&claims).len(), network(&claims).len()), (0, 7));
}

#[test]
fn h21_a_pods_limit_is_divided_once() {
    let snapshot = seen(
        policy("tc", "1G", on(), json!({"enable": true, "egressLimit": "5M"})),
        vec![
            limited("l", "LS", r#"{"egressLimit":"10M","ingressLimit":"10M"}"#),
            limited("b", "BE", r#"{"egressLimit":"10M"}"#),
            limited("i", "LS", r#"{"ingressLimit":"10M"}"#),
        ],
    );
    let claims = network_rules(&snapshot).0.claims(&snapshot);
    let own: Vec<_> = claims
        .network
        .iter()
        .filter_map(|claim| match claim.target {
            NetworkTarget::Class(class) if !class.is_shared() && class != ClassId::ROOT => {
                let Wish::Hold(value) = &claim.wish else { return None };
                Some((class.raw().to_string(), value.to_string()))
            }
            _ => None,
        })
        .collect();
    // A BE pod sends no more than BE.
    let shares: Vec<&str> = own.iter().map(|(_, share)| &**share).collect();
    assert_eq!(
        shares,
        ["rate 5000000bit ceil 5000000bit prio 3", "rate 10000000bit ceil 10000000bit prio 2"]
    );
    let ids = class_ids(&claims);
    assert_eq!((&ids[0].1, &ids[2].1), (&own[0].0, &own[1].0), "the pods' own");
    assert_eq!(ids[1], ("podi".to_owned(), "65539".to_owned()), "no limit of what goes out: its QoS class's");
    let limit = pod_limits(&snapshot.pods.pods["l"].pod).unwrap().unwrap().egress.unwrap();
    assert_eq!((limit, limit.bytes_per_second()), (BitRate(10_000_000), 1_250_000));
}

#[test]
fn own_classes_stay_the_same_whoever_comes_and_goes_and_after_a_restart() {
    let limit = r#"{"egressLimit":"1M"}"#;
    let all: Vec<PodEntry> = (0..300).map(|n| limited(&format!("uid-{n}"), "LS", limit)).collect();
    let slo = policy("tc", "1G", on(), json!({}));
    let snapshot = seen(Arc::clone(&slo), all.clone());
    let (mut rules, _) = network_rules(&snapshot);
    let first = class_ids(&rules.claims(&snapshot));
    let ids: std::collections::BTreeSet<_> = first.iter().map(|(_, id)| id).collect();
    assert_eq!(ids.len(), 300, "no two pods share one");
    // Every other pod goes and comes back.
    let half = Snapshot { pods: Arc::new(table(all.iter().step_by(2).cloned())), ..snapshot.clone() };
    rules.observe(&half);
    let kept = class_ids(&rules.claims(&half));
    assert!(kept.len() == 150 && kept.iter().all(|each| first.contains(each)));
    assert_eq!(class_ids(&network_rules(&snapshot).0.claims(&snapshot)), first, "a new agent");
}

#[test]
fn a_bad_annotation_is_told_once_and_the_pod_keeps_its_qos_class() {
    let snapshot = seen(policy("tc", "1G", on(), json!({})), vec![limited("l", "LS", "{bad")]);
    let (mut rules, notices) = network_rules(&snapshot);
    let refused = |notices: &[RuleNotice]| {
        notices.iter().filter(|notice| matches!(notice, RuleNotice::Refused { .. })).count()
    };
    assert_eq!(refused(&notices), 2, "of each plugin that reads it");
    assert_eq!(class_ids(&rules.claims(&snapshot)), [("podl".to_owned(), "65539".to_owned())]);
    let again = Snapshot { pods: Arc::new((*snapshot.pods).clone()), ..snapshot };
    assert_eq!(refused(&rules.observe(&again)), 0);
}

/// The texts of Terway's files; `-` where there is to be none.
fn files(claims: &Claims) -> Vec<(OwnFile, String)> {
    let text = |claim: &Claim<OwnFile>| match &claim.wish {
        Wish::Hold(content) => (claim.target, content.to_string()),
        Wish::Leave => (claim.target, "leave".to_owned()),
    };
    claims.own_files.iter().map(text).collect()
}

#[test]
fn terways_files_say_bytes_and_are_gone_under_another_policy() {
    let pods = vec![
        limited("a-b", "LS", r#"{"ingressLimit":"10M","egressLimit":"20M"}"#),
        limited("half", "LS", r#"{"egressLimit":"20M"}"#),
        pod("plain", "BE", json!({})),
    ];
    let be = json!({"enable": true, "ingressRequest": "16M", "egressLimit": 10});
    let snapshot = seen(policy("terway-qos", "1G", on(), be), pods);
    let (rules, _) = network_rules(&snapshot);
    let found = files(&rules.claims(&snapshot));
    // H21: 40 % of 1 Gbit/s are 50 MB/s.
    let node = "hw_tx_bps_max 125000000\nhw_rx_bps_max 125000000\n\
        offline_l1_tx_bps_min 50000000\noffline_l1_tx_bps_max 10000000\n\
        offline_l1_rx_bps_min 0\noffline_l1_rx_bps_max 0\n\
        offline_l2_tx_bps_min 0\noffline_l2_tx_bps_max 12500000\n\
        offline_l2_rx_bps_min 2000000\noffline_l2_rx_bps_max 0\n";
    assert_eq!(found[0], (OwnFile::TerwayNode, node.to_owned()));
    let pods: Json = serde_json::from_str(&found[1].1).unwrap();
    let line = |uid: &str, prio: u32, ingress: u64, egress: u64| {
        json!({"podName": uid, "podNamespace": "ns", "podUID": uid, "prio": prio,
            "cgroupDir": format!("/sys/fs/cgroup/net_cls/kubepods/besteffort/pod{uid}"),
            "qosConfig": {"ingressBandwidth": ingress, "egressBandwidth": egress}})
    };
    let wanted = json!({"a-b": line("a-b", 1, 1_250_000, 2_500_000), "plain": line("plain", 2, 0, 0)});
    assert_eq!(pods, wanted);
    let snapshot = Snapshot { slo: policy("tc", "1G", on(), json!({})), ..snapshot };
    let claims = network_rules(&snapshot).0.claims(&snapshot);
    let gone = [OwnFile::TerwayNode, OwnFile::TerwayPods].map(|file| (file, "no file".to_owned()));
    assert_eq!(files(&claims), gone);
}

#[test]
fn a_policy_that_terway_cannot_be_told_leaves_the_last_one() {
    let good = seen(policy("terway-qos", "1G", on(), json!({})), Vec::new());
    let (mut rules, _) = network_rules(&good);
    let before = files(&rules.claims(&good));
    let much = json!({"enable": true, "egressRequest": "80G"});
    let bad = Snapshot { slo: policy("terway-qos", "1G", much, json!({})), ..good };
    let notices = rules.observe(&bad);
    assert!(
        matches!(&notices[..], [RuleNotice::Refused { error, .. }] if error.to_string().contains("egressRequest"))
    );
    assert_eq!(files(&rules.claims(&bad)), before);
}
