//! hooks.md 18 rows 9 and 20-26, 19 "CPU list" and "change: CPUSetAllocator", 17 rows 3, 18 and 26.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::keys;
use crate::api::node_slo::HostApplication;
use crate::claims::claim::{Claim, Claims, Wish};
use crate::claims::testing::{annotated, dir, entry, limits, table, tree};
use crate::rules::{PluginKind, RuleSettings, Rules};
use crate::state::node_dirs::NodeDirs;
use crate::state::pods::PodEntry;
use crate::state::topology::{CpuInfo, KubeletCpuPolicy};

const LS_POOLS: &str = r#"[{"socket":0,"node":0,"cpuset":"0-7"},{"socket":1,"node":1,"cpuset":"8-15"}]"#;
const BE_POOLS: &str = r#"[{"socket":0,"node":0,"cpuset":"0-5"},{"socket":1,"node":1,"cpuset":"8-13"}]"#;

/// The annotations of section 19's fixtures, with a kubelet policy; an empty text leaves a key out.
fn fixture(policy: &str) -> Annotations {
    object(&[
        (keys::CPU_SHARED_POOLS, LS_POOLS),
        (keys::BE_CPU_SHARED_POOLS, BE_POOLS),
        (keys::CPU_MANAGER_POLICY, policy),
        (keys::SYSTEM_QOS_RESOURCE, r#"{"cpuset":"16-17"}"#),
    ])
}

fn object(pairs: &[(&str, &str)]) -> Annotations {
    let set = pairs.iter().filter(|(_, text)| !text.is_empty());
    set.map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

const NONE: &str = r#"{"policy":"none"}"#;
const STATIC: &str = r#"{"policy":"static"}"#;

fn cpus(nodes: u32) -> Vec<CpuInfo> {
    (0..nodes * 8).map(|cpu| CpuInfo { cpu, core: cpu, socket: cpu / 8, node: cpu / 8 }).collect()
}

/// A pod of a class in the directory of a Kubernetes class, with a resource status.
fn pod(label: &str, kube_qos: &str, status: &str) -> PodEntry {
    let resources = if kube_qos == "BestEffort" { json!({}) } else { limits("2") };
    let resources = match kube_qos {
        "Guaranteed" => {
            json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "1Gi"}})
        }
        _ => resources,
    };
    let annotations = if status.is_empty() { json!({}) } else { json!({ keys::RESOURCE_STATUS: status }) };
    annotated("u", label, annotations, json!({"containers": [{"name": "c", "resources": resources}]}))
}

fn on_node(node: u32) -> String {
    format!(r#"{{"numaNodeResources":[{{"node":{node},"resources":{{"cpu":"4"}}}}]}}"#)
}

/// The list of a pod's container: `-` for no value, empty where it is cleared.
fn list_by(allocator: &CpuSetAllocator, pod: &PodEntry) -> String {
    match allocator.choice(&RulePod::new(pod)) {
        None => "ERR".to_owned(),
        Some(CpuChoice::NoValue) => "-".to_owned(),
        Some(CpuChoice::Clear) => String::new(),
        Some(CpuChoice::Cpus(cpus, _)) => cpus.to_string(),
    }
}

fn allocator(annotations: &Annotations, be_by_node: bool) -> CpuSetAllocator {
    let mut allocator = CpuSetAllocator::new(be_by_node, false);
    allocator.update(annotations).unwrap();
    allocator
}

/// The lists under the kubelet's policies none and static.
fn lists(label: &str, kube_qos: &str, status: &str) -> [String; 2] {
    [NONE, STATIC].map(|policy| list_by(&allocator(&fixture(policy), false), &pod(label, kube_qos, status)))
}

fn both(text: &str) -> [String; 2] {
    [text.to_owned(), text.to_owned()]
}

const ALL: &str = "0-15";

#[test]
fn cpu_lists_of_ls_pods() {
    for kube_qos in ["Burstable", "BestEffort"] {
        assert_eq!(lists("LS", kube_qos, ""), both(ALL), "{kube_qos}");
    }
    assert_eq!(lists("LS", "Burstable", &on_node(1)), both("8-15"));
    let two =
        r#"{"numaNodeResources":[{"node":1,"resources":{"cpu":"4"}},{"node":0,"resources":{"cpu":"4"}}]}"#;
    assert_eq!(lists("LS", "Burstable", two), both(ALL));
    assert_eq!(lists("LS", "Burstable", &on_node(2)), both(""));
    for resources in [r#"{"memory":"1Gi"}"#, r#"{"cpu":"0"}"#] {
        let status = format!(r#"{{"numaNodeResources":[{{"node":1,"resources":{resources}}}]}}"#);
        assert_eq!(lists("LS", "Burstable", &status), both(ALL), "{resources}");
    }
    let batch = r#"{"numaNodeResources":[{"node":0,"resources":{"kubernetes.io/batch-cpu":"2000"}}]}"#;
    assert_eq!(lists("LS", "Burstable", batch), both("0-7"));
}

#[test]
fn cpu_lists_of_other_classes() {
    let all_or_none = [ALL.to_owned(), "-".to_owned()];
    for label in ["LSR", "LSE", ""] {
        assert_eq!(lists(label, "Guaranteed", ""), all_or_none, "{label}");
        assert_eq!(lists(label, "Burstable", ""), all_or_none, "{label}");
        assert_eq!(lists(label, "BestEffort", ""), both(""), "{label}");
        assert_eq!(lists(label, "Burstable", &on_node(1)), both("8-15"), "{label}");
    }
    for kube_qos in ["Guaranteed", "Burstable", "BestEffort"] {
        assert_eq!(lists("SYSTEM", kube_qos, ""), both("16-17"), "{kube_qos}");
        assert_eq!(lists("SYSTEM", kube_qos, &on_node(1)), both("8-15"), "{kube_qos}");
    }
    let mut none_of_its_own = fixture(NONE);
    none_of_its_own.remove(keys::SYSTEM_QOS_RESOURCE);
    let list = |kube_qos| list_by(&allocator(&none_of_its_own, false), &pod("SYSTEM", kube_qos, ""));
    assert_eq!([list("Burstable"), list("BestEffort")], [ALL, ""]);
}

#[test]
fn cpus_of_the_pods_own_come_first_whatever_the_class() {
    for label in ["LSE", "LSR", "LS", "BE", "SYSTEM", ""] {
        assert_eq!(lists(label, "Burstable", r#"{"cpuset":"2-3"}"#), both("2-3"), "{label}");
        let without_rule =
            list_by(&CpuSetAllocator::default(), &pod(label, "Burstable", r#"{"cpuset":"2-3"}"#));
        assert_eq!(without_rule, "2-3");
        assert_eq!(lists(label, "Burstable", "{bad"), both("ERR"), "{label}");
        assert_eq!(lists(label, "Burstable", r#"{"cpuset":"2-"}"#), both("-"), "{label}");
        assert_eq!(list_by(&CpuSetAllocator::default(), &pod(label, "Burstable", "")), "-");
    }
}

#[test]
fn h26_be_pods_never_get_the_ls_pools_and_empty_pools_are_skipped() {
    for kube_qos in ["Burstable", "BestEffort"] {
        assert_eq!(lists("BE", kube_qos, ""), both(""), "{kube_qos}");
        assert_eq!(lists("BE", kube_qos, &on_node(1)), both(""), "{kube_qos}");
        let by_node = allocator(&fixture(NONE), true);
        assert_eq!(list_by(&by_node, &pod("BE", kube_qos, &on_node(1))), "8-13");
        assert_eq!(list_by(&by_node, &pod("BE", kube_qos, &on_node(3))), "");
        assert_eq!(list_by(&by_node, &pod("BE", kube_qos, "")), "");
    }
    let pools = |text| object(&[(keys::CPU_SHARED_POOLS, text)]);
    let one_empty = pools(r#"[{"socket":0,"node":0,"cpuset":"0-7"},{"socket":1,"node":1}]"#);
    let allocator_of = |annotations: &Annotations| allocator(annotations, false);
    assert_eq!(allocator_of(&one_empty).rule().unwrap().ls_text(), "0-7");
    assert_eq!(list_by(&allocator_of(&one_empty), &pod("LS", "Burstable", "")), "0-7");
    // Example 26.
    assert_eq!(list_by(&allocator_of(&BTreeMap::new()), &pod("LS", "Burstable", "")), "");
    // Nobody runs on CPUs that cannot be told.
    let odd = pools(r#"[{"node":0,"cpuset":"0-7"},{"node":1,"cpuset":"zz"}]"#);
    assert_eq!(list_by(&allocator_of(&odd), &pod("LS", "Burstable", "")), "-");
    assert_eq!(list_by(&allocator_of(&odd), &pod("LS", "Burstable", &on_node(0))), "0-7");
    assert_eq!(allocator_of(&odd).rule().unwrap().unreadable().count(), 1);
}

#[test]
fn a_rule_changes_by_value_and_a_malformed_one_is_refused() {
    let mut allocator = CpuSetAllocator::default();
    let none = BTreeMap::new();
    let reordered = r#"[{"socket":1,"node":1,"cpuset":"8-15"},{"socket":0,"node":0,"cpuset":"0-7"}]"#;
    let pools = |text| object(&[(keys::CPU_SHARED_POOLS, text)]);
    let mut mark = |annotations: &Annotations| match allocator.update(annotations) {
        Ok(true) => '+',
        Ok(false) => '-',
        Err(_) => 'E',
    };
    let marks: String = [
        none.clone(),
        none,
        pools(LS_POOLS),
        pools(reordered),
        pools("{bad"),
        object(&[(keys::SYSTEM_QOS_RESOURCE, r#"{"cpuset":"x"}"#)]),
        object(&[(keys::CPU_MANAGER_POLICY, "{")]),
        object(&[(keys::BE_CPU_SHARED_POOLS, "{}")]),
    ]
    .iter()
    .map(&mut mark)
    .collect();
    assert_eq!(marks, "+-++EEEE");
    assert_eq!(allocator.rule().unwrap().ls_text(), "8-15,0-7", "the last good rule stays");
}

/// A world with these pods and this topology.
fn snapshot(topology: Topology, pods: impl IntoIterator<Item = PodEntry>) -> Snapshot {
    let pods = table(pods);
    Snapshot {
        tree: Arc::new(tree(&pods)),
        pods: Arc::new(pods),
        topology: Some(Arc::new(topology)),
        ..Snapshot::default()
    }
}

fn settings() -> RuleSettings {
    RuleSettings { plugins: [PluginKind::CpuSetAllocator].into(), ..RuleSettings::default() }
}

fn claims(settings: &RuleSettings, snapshot: &Snapshot) -> Claims {
    let mut rules = Rules::new(settings);
    rules.observe(snapshot);
    rules.claims(snapshot)
}

/// `directory file value` of each claim; the last part of the path stands for it.
fn said(claims: &[Claim]) -> Vec<String> {
    let line = |claim: &Claim| {
        let Wish::Hold(value) = &claim.wish else { panic!("{claim:?}") };
        let file = if claim.target.resource == Resource::Cpus { "cpus" } else { "quota" };
        format!("{} {file} {value}", claim.target.dir.name())
    };
    let mut lines: Vec<String> = claims.iter().map(line).collect();
    lines.sort();
    lines
}

fn topology(object: Option<Annotations>) -> Topology {
    let all: CpuSet = "0-15".parse().unwrap();
    Topology { cpus: cpus(2), ls_pool: all.clone(), be_pool: all, object, ..Topology::default() }
}

#[test]
fn a_stock_node_is_left_alone() {
    for policy in [KubeletCpuPolicy::None, KubeletCpuPolicy::Static] {
        let topology = Topology { kubelet_policy: policy, ..topology(None) };
        for (label, kube_qos) in
            [("", "Guaranteed"), ("", "Burstable"), ("", "BestEffort"), ("LS", "Burstable")]
        {
            let snapshot = snapshot(topology.clone(), [pod(label, kube_qos, "")]);
            assert_eq!(claims(&settings(), &snapshot), Claims::default(), "{label} {kube_qos} {policy:?}");
        }
    }
}

#[test]
fn pools_computed_here_are_enforced_once_they_keep_somebody_off_something() {
    let other = |topology: Topology, label| {
        said(&claims(&settings(), &snapshot(topology, [pod(label, "Burstable", "")])).cgroup)
    };
    let reserved = Topology { ls_pool: "2-15".parse().unwrap(), ..topology(None) };
    assert_eq!(other(reserved.clone(), ""), ["c cpus 2-15", "sandbox cpus 2-15"]);
    assert_eq!(other(reserved.clone(), "LS"), ["c cpus 2-15", "sandbox cpus 2-15"]);
    assert_eq!(other(reserved.clone(), "BE"), Vec::<String>::new());
    let by_kubelet = Topology { kubelet_policy: KubeletCpuPolicy::Static, ..reserved.clone() };
    assert_eq!(other(by_kubelet.clone(), ""), Vec::<String>::new());
    assert_eq!(other(by_kubelet, "LS"), ["c cpus 2-15", "sandbox cpus 2-15"]);
    // Nobody may change a list on the strength of a guess.
    let unknown = Topology { kubelet_policy: KubeletCpuPolicy::Unknown, ..reserved };
    assert_eq!(other(unknown, "LS"), Vec::<String>::new());
    // A NUMA node is a restriction by itself.
    let placed = snapshot(topology(None), [pod("LS", "Burstable", &on_node(1))]);
    assert_eq!(said(&claims(&settings(), &placed).cgroup), ["c cpus 8-15", "sandbox cpus 8-15"]);
}

#[test]
fn a_given_object_wins_and_what_it_leaves_open_is_filled_in() {
    let object = object(&[(keys::CPU_SHARED_POOLS, r#"[{"node":0,"cpuset":"4-7"}]"#)]);
    let given = Topology {
        kubelet_policy: KubeletCpuPolicy::Static,
        system: "14-15".parse().unwrap(),
        ..topology(Some(object))
    };
    let rule = CpuSetRule::of_topology(&given).unwrap().unwrap();
    assert_eq!((rule.ls_text().as_str(), rule.kubelet_static()), ("4-7", true));
    assert_eq!(rule.system().to_string(), "14-15");
    // An object without pools says nothing about pools.
    let reserved = Topology {
        ls_pool: "2-15".parse().unwrap(),
        ..topology(Some(self::object(&[(keys::NODE_RESERVATION, "{}")])))
    };
    assert_eq!(CpuSetRule::of_topology(&reserved).unwrap().unwrap().ls_text(), "2-7,8-15");
}

#[test]
fn h03_any_pod_with_cpus_of_its_own_is_pinned() {
    let status = r#"{"cpuset":"2-3"}"#;
    for (label, lifted) in
        [("LSE", true), ("LSR", true), ("", true), ("LS", true), ("BE", false), ("SYSTEM", false)]
    {
        let pod = pod(label, "Burstable", status);
        let snapshot = snapshot(topology(None), [pod.clone()]);
        let mut expected = vec!["c cpus 2-3", "sandbox cpus 2-3"];
        if lifted {
            expected.extend(["c quota -1", "podu quota -1", "sandbox quota -1"]);
        }
        expected.sort_unstable();
        assert_eq!(said(&claims(&settings(), &snapshot).cgroup), expected, "{label}");
        // Where the runtime asks, the class does not matter.
        let mut rules = Rules::new(&settings());
        rules.observe(&snapshot);
        let wishes = rules.container_wishes(&pod, &pod.containers[0]);
        let values: Vec<String> = wishes.iter().map(|wish| wish.value.to_string()).collect();
        assert_eq!(values, ["2-3", "-1"], "{label}");
    }
    let keep = RuleSettings { keep_pinned_quota: true, ..settings() };
    let kept = said(&claims(&keep, &snapshot(topology(None), [pod("LSR", "Burstable", status)])).cgroup);
    assert_eq!(kept, ["c cpus 2-3", "sandbox cpus 2-3"]);
}

#[test]
fn example_9_a_pinned_pod_is_not_normalized() {
    let node = json!({"metadata": {"annotations": {keys::CPU_NORMALIZATION_RATIO: "1.5"}}});
    let both = [PluginKind::CpuSetAllocator, PluginKind::CpuNormalization].into();
    let snapshot = Snapshot {
        node: Some(Arc::new(serde_json::from_value(node).unwrap())),
        ..snapshot(topology(None), [pod("", "Burstable", r#"{"cpuset":"0-3"}"#)])
    };
    let claims = claims(&RuleSettings { plugins: both, ..RuleSettings::default() }, &snapshot);
    let expected = ["c cpus 0-3", "c quota -1", "podu quota -1", "sandbox cpus 0-3", "sandbox quota -1"];
    assert_eq!(said(&claims.cgroup), expected);
}

#[test]
fn cpus_that_are_not_online_are_left_out() {
    let of = |status| {
        said(&claims(&settings(), &snapshot(topology(None), [pod("LSR", "Burstable", status)])).cgroup)
    };
    assert_eq!(of(r#"{"cpuset":"14-19"}"#)[0], "c cpus 14-15");
    // None is left: neither a list nor a lifted quota.
    assert_eq!(of(r#"{"cpuset":"16-19"}"#), Vec::<String>::new());
}

#[test]
fn an_empty_list_clears_a_request_and_is_never_claimed() {
    let pod = pod("BE", "BestEffort", "");
    let snapshot = snapshot(topology(None), [pod.clone()]);
    let mut rules = Rules::new(&settings());
    rules.observe(&snapshot);
    let wishes = rules.container_wishes(&pod, &pod.containers[0]);
    assert_eq!(wishes.len(), 1);
    assert_eq!(wishes[0].value, Value::Cpus(CpuSet::new()));
    assert_eq!(rules.claims(&snapshot), Claims::default());
}

#[test]
fn containers_in_virtual_machines_and_finished_pods_get_nothing() {
    let object = |class: &str, phase: &str| {
        entry(json!({
            "metadata": {"uid": "u", "labels": {keys::QOS_CLASS: "LSR"},
                         "annotations": {keys::RESOURCE_STATUS: r#"{"cpuset":"2-3"}"#}},
            "spec": {"containers": [{"name": "c"}], "runtimeClassName": class},
            "status": {"phase": phase},
        }))
    };
    let of =
        |class, phase| said(&claims(&settings(), &snapshot(topology(None), [object(class, phase)])).cgroup);
    assert_eq!(of("kata", "Running"), ["podu quota -1", "sandbox cpus 2-3", "sandbox quota -1"]);
    assert_eq!(of("runc", "Succeeded"), Vec::<String>::new());
}

#[test]
fn h18_host_applications_of_ls_share_and_others_have_no_value() {
    let reserved = Topology { ls_pool: "2-15".parse().unwrap(), ..topology(None) };
    for (qos, expected) in [("LS", vec!["app cpus 2-15"]), ("LSR", vec![]), ("BE", vec![]), ("", vec![])] {
        let app =
            HostApplication { name: "app".to_owned(), qos: qos.to_owned(), ..HostApplication::default() };
        let host_apps = vec![(app, dir("host-latency-sensitive/app"))];
        let dirs = Arc::new(NodeDirs { host_apps, ..NodeDirs::default() });
        let snapshot = Snapshot { dirs, ..snapshot(reserved.clone(), []) };
        let mut rules = Rules::new(&settings());
        let notices = rules.observe(&snapshot);
        assert_eq!(said(&rules.claims(&snapshot).cgroup), expected, "{qos}");
        assert_eq!(notices.len(), 1, "the rule itself, and no complaint: {notices:?}");
        assert!(rules.observe(&snapshot).is_empty());
    }
}

#[test]
fn a_malformed_object_is_told_once_and_the_last_rule_stays() {
    let good = Topology { ls_pool: "2-15".parse().unwrap(), ..topology(None) };
    let mut rules = Rules::new(&settings());
    let pod = || [pod("LS", "Burstable", "")];
    let first = snapshot(good, pod());
    assert_eq!(rules.observe(&first).len(), 1);
    let bad = snapshot(topology(Some(object(&[(keys::CPU_SHARED_POOLS, "{bad")]))), pod());
    let notices = rules.observe(&bad);
    assert!(
        matches!(&notices[..], [RuleNotice::Refused { object, .. }] if object == TOPOLOGY_OBJECT),
        "{notices:?}"
    );
    assert!(rules.observe(&bad).is_empty());
    assert_eq!(said(&rules.claims(&bad).cgroup), ["c cpus 2-15", "sandbox cpus 2-15"]);
}
