//! The worked examples: collection.md 16 (15 to 17) and 17 (rows 56 to 67).

use super::*;
use crate::api::keys;

/// Texts of the pools: each NUMA node's CPUs, `-` for one that is listed without any.
fn pools(wanted: &WantedNrt, key: &str) -> String {
    let pools: Vec<Value> = serde_json::from_str(&wanted.annotations[key]).unwrap();
    let text = |pool: &Value| {
        assert_eq!(pool["socket"], pool["node"]);
        format!("{}:{}", pool["node"], pool.get("cpuset").and_then(Value::as_str).unwrap_or("-"))
    };
    pools.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn both_pools(wanted: &WantedNrt) -> (String, String) {
    (pools(wanted, keys::CPU_SHARED_POOLS), pools(wanted, keys::BE_CPU_SHARED_POOLS))
}

const P: [(&str, &str, &str, &str); 5] = [
    ("u1", "ka", "LSR", "2,10"),
    ("u2", "kb", "LSE", "4-5,12-13"),
    ("u3", "kc", "LS", ""),
    ("u4", "kg", "", ""),
    ("u6", "kf", "LSR", "x-y"),
];

const STATE: &str =
    r#"{"u4":{"c1":"3,11","c2":"7"},"u3":{"c":"6"},"u1":{"c":"2"},"zz":{"c":"15"},"u5":{"c":""}}"#;

#[test]
fn an_empty_machine_shares_all() {
    let wanted = Scene::m().wanted();
    let full = r#"[{"socket":0,"node":0,"cpuset":"0-3,8-11"},{"socket":1,"node":1,"cpuset":"4-7,12-15"}]"#;
    assert_eq!(wanted.annotations[keys::CPU_SHARED_POOLS], full);
    assert_eq!(wanted.annotations[keys::BE_CPU_SHARED_POOLS], full);
    assert_eq!(wanted.annotations[keys::POD_CPU_ALLOCS], "null");
    assert_eq!(wanted.annotations[keys::NODE_RESERVATION], "{}");
    assert_eq!(wanted.annotations[keys::SYSTEM_QOS_RESOURCE], "null");
    assert_eq!(wanted.annotations[keys::CPU_MANAGER_POLICY], "{}");
    assert!(wanted.annotations[keys::CPU_TOPOLOGY].starts_with(
        r#"{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":1,"core":1,"socket":0,"node":0},"#
    ));
    assert_eq!((wanted.topology_policy, wanted.notices.len()), ("None", 0));
    let annotated = Scene::m().annotate("a", "b").wanted();
    assert_eq!(annotated.annotations[keys::SYSTEM_QOS_RESOURCE], "{}");
}

#[test]
fn what_the_scheduler_gave_leaves_the_pools() {
    let none = Scene::m().pods(&P).kubelet(r#"{"cpuManagerPolicy":"none"}"#).state(STATE).wanted();
    let ls = "0:0-1,3,8-9,11 1:6-7,14-15";
    assert_eq!(both_pools(&none), (ls.into(), "0:0-3,8-11 1:6-7,14-15".into()));
    assert_eq!(none.notices.len(), 1, "{:?}", none.notices);
    // Example 17.
    let eight = Scene::of(2, 4, 1).pods(&[("a", "a", "LSR", "5"), ("b", "b", "LSE", "2-3")]).wanted();
    assert_eq!(both_pools(&eight), ("0:0-1,4 1:6-7".into(), "0:0-1,4-5 1:6-7".into()));
}

#[test]
fn what_the_kubelet_pinned_and_what_is_reserved_leaves_both() {
    let kubelet = r#"{"cpuManagerPolicy":"static"}"#;
    let scene = Scene::m().pods(&P).kubelet(kubelet).state(STATE);
    let wanted = scene.wanted();
    assert_eq!(
        wanted.annotations[keys::POD_CPU_ALLOCS],
        r#"[{"namespace":"b","name":"kg","uid":"u4","cpuset":"3,7,11","managedByKubelet":true},{"uid":"zz","cpuset":"15","managedByKubelet":true}]"#
    );
    assert_eq!(both_pools(&wanted), ("0:0-1,8-9 1:6,14".into(), "0:0-2,8-10 1:6,14".into()));

    let reserving = scene
        .annotate(keys::NODE_RESERVATION, r#"{"reservedCPUs":"1,0","applyPolicy":"ReservedCPUsOnly"}"#)
        .annotate(keys::SYSTEM_QOS_RESOURCE, r#"{"cpuset":"6"}"#);
    let wanted = reserving.wanted();
    assert_eq!(
        wanted.annotations[keys::NODE_RESERVATION],
        r#"{"reservedCPUs":"0-1","applyPolicy":"ReservedCPUsOnly"}"#
    );
    assert_eq!(both_pools(&wanted), ("0:8-9 1:14".into(), "0:2,8-10 1:14".into()));
}

#[test]
fn a_node_emptied_by_pods_is_not_listed_and_one_emptied_by_reservation_is() {
    let shared = r#"{"cpuset":"6","cpusetExclusive":false}"#;
    let wanted = Scene::m().annotate(keys::SYSTEM_QOS_RESOURCE, shared).wanted();
    assert_eq!(pools(&wanted, keys::CPU_SHARED_POOLS), "0:0-3,8-11 1:4-7,12-15");
    assert_eq!(wanted.annotations[keys::SYSTEM_QOS_RESOURCE], shared);
    let lse = |cpus| Scene::m().pods(&[("u", "u", "LSE", cpus)]).wanted();
    assert_eq!(pools(&lse("0-3,8-11"), keys::BE_CPU_SHARED_POOLS), "1:4-7,12-15");
    assert_eq!(lse("0-15").annotations[keys::BE_CPU_SHARED_POOLS], "[]");
    let wanted = Scene::m().annotate(keys::NODE_RESERVATION, r#"{"reservedCPUs":"0-3,8-11"}"#).wanted();
    assert_eq!(pools(&wanted, keys::CPU_SHARED_POOLS), "0:- 1:4-7,12-15");
}

#[test]
fn an_amount_becomes_cpus() {
    for (reservation, published) in [
        (r#"{"resources":{"cpu":"500m"}}"#, r#"{"resources":{"cpu":"500m"},"reservedCPUs":"0"}"#),
        (r#"{"resources":{"cpu":"2"}}"#, r#"{"resources":{"cpu":"2"},"reservedCPUs":"0,8"}"#),
        (r#"{"resources":{"cpu":"3"}}"#, r#"{"resources":{"cpu":"3"},"reservedCPUs":"0-1,8"}"#),
        (r#"{"resources":{"cpu":"8"}}"#, r#"{"resources":{"cpu":"8"},"reservedCPUs":"0-3,8-11"}"#),
        (r#"{"resources":{"cpu":"9"}}"#, r#"{"resources":{"cpu":"9"},"reservedCPUs":"0-4,8-11"}"#),
        (r#"{"resources":{"cpu":"17"}}"#, r#"{"resources":{"cpu":"17"}}"#),
        (r#"{"reservedCPUs":"1-","resources":{"cpu":2}}"#, r#"{"resources":{"cpu":"2"}}"#),
        (
            r#"{"resources":{"cpu":"2000m","memory":"1024Mi"}}"#,
            r#"{"resources":{"cpu":"2","memory":"1Gi"},"reservedCPUs":"0,8"}"#,
        ),
        ("{", "{}"),
        (r#"{"resources":{"cpu":"x"},"reservedCPUs":"1"}"#, "{}"),
    ] {
        let wanted = Scene::m().annotate(keys::NODE_RESERVATION, reservation).wanted();
        assert_eq!(wanted.annotations[keys::NODE_RESERVATION], published, "{reservation}");
    }
}

#[test]
fn the_kubelets_own_cpus_are_published_and_stay_in_the_pools() {
    for (config, published) in [
        (
            r#""kubeReserved":{"cpu":"1500m"},"systemReserved":{"cpu":"500m"}"#,
            r#"{"policy":"static","reservedCPUs":"0,8"}"#,
        ),
        (
            r#""reservedSystemCPUs":"5,4","kubeReserved":{"cpu":"1"}"#,
            r#"{"policy":"static","reservedCPUs":"4-5"}"#,
        ),
        (
            r#""cpuManagerPolicyOptions":{"full-pcpus-only":"true"}"#,
            r#"{"policy":"static","options":{"full-pcpus-only":"true"}}"#,
        ),
        (r#""reservedSystemCPUs":"15-16""#, r#"{"policy":"static"}"#),
        (r#""kubeReserved":{"cpu":"17"}"#, r#"{"policy":"static"}"#),
        (r#""kubeReserved":{"cpu":"-1"}"#, r#"{"policy":"static"}"#),
        (r#""systemReserved":{"cpu":"abc"}"#, r#"{"policy":"static"}"#),
    ] {
        let wanted = Scene::m().kubelet(&format!(r#"{{"cpuManagerPolicy":"static",{config}}}"#)).wanted();
        assert_eq!(wanted.annotations[keys::CPU_MANAGER_POLICY], published, "{config}");
        assert_eq!(pools(&wanted, keys::CPU_SHARED_POOLS), "0:0-3,8-11 1:4-7,12-15");
        let fails = !published.contains("reserved") && !published.contains("options");
        assert_eq!(wanted.notices.len(), usize::from(fails), "{config}: {:?}", wanted.notices);
    }
}

#[test]
fn basic_info_leaves_out_what_is_empty() {
    let mut scene = Scene::m();
    scene.cpus.basic_info = BasicInfo {
        cpu_model: "M X".into(),
        vendor_id: "GenuineIntel".into(),
        hyper_thread_enabled: true,
        turbo_enabled: false,
        cat_l3_cbm_mask: "fff".into(),
    };
    assert_eq!(
        scene.wanted().annotations[keys::CPU_BASIC_INFO],
        r#"{"cpuModel":"M X","hyperThreadEnabled":true,"catL3CbmMask":"fff","vendorID":"GenuineIntel"}"#
    );
    assert_eq!(Scene::m().wanted().annotations[keys::CPU_BASIC_INFO], "{}");
}

#[test]
fn the_topology_policy_is_of_policy_and_scope() {
    for (policy, scope, name) in [
        ("restricted", "pod", "RestrictedPodLevel"),
        ("single-numa-node", "container", "SingleNUMANodeContainerLevel"),
        ("best-effort", "pod", "BestEffortPodLevel"),
        ("best-effort", "", "None"),
        ("", "container", "None"),
        ("none", "pod", "None"),
        ("bogus", "pod", "None"),
    ] {
        let config = format!(r#"{{"topologyManagerPolicy":"{policy}","topologyManagerScope":"{scope}"}}"#);
        assert_eq!(Scene::m().kubelet(&config).wanted().topology_policy, name, "{policy} {scope}");
    }
}

#[test]
fn zones_have_cpus_memory_and_hugepages() {
    let wanted = Scene::m().wanted();
    assert_eq!(wanted.zones.iter().map(|zone| zone.name.as_str()).collect::<Vec<_>>(), ["node-0", "node-1"]);
    for zone in [0, 1] {
        for (name, amount) in
            [("cpu", "8"), ("hugepages-1Gi", "0"), ("hugepages-2Mi", "0"), ("memory", "64Gi")]
        {
            assert_eq!(amounts(&wanted, zone, name), (amount.to_owned(), amount.to_owned()), "{name}");
        }
    }
    // Example 15.
    let paged = Scene::of(1, 8, 263_554_560).pages(0, 1_048_576, 10).pages(0, 2048, 512).wanted();
    assert_eq!(amounts(&paged, 0, "memory").0, "252020224Ki");
    assert_eq!(
        (amounts(&paged, 0, "hugepages-1Gi").0, amounts(&paged, 0, "hugepages-2Mi").1),
        ("10Gi".into(), "1Gi".into())
    );
    // Names are ordered as text.
    let many = Scene::of(12, 2, 1).wanted();
    assert_eq!(many.zones.iter().map(|zone| zone.name.as_str()).nth(2), Some("node-10"));
}

#[test]
fn a_reservation_is_taken_from_each_zone_where_the_label_asks_for_it() {
    let reserving = || Scene::m().status("cpu", "16", "14500m").status("memory", "128Gi", "125Gi");
    let wanted = reserving().label("true").wanted();
    assert_eq!(wanted.reservation_label.as_deref(), Some("true"));
    for zone in [0, 1] {
        assert_eq!(amounts(&wanted, zone, "cpu"), ("8".into(), "7250m".into()));
        assert_eq!(amounts(&wanted, zone, "memory"), ("64Gi".into(), "64000Mi".into()));
    }
    let off = reserving().label("false").wanted();
    assert_eq!((amounts(&off, 0, "cpu").1, off.reservation_label.as_deref()), ("8".into(), Some("false")));
    assert_eq!(reserving().label("").wanted().reservation_label, None);
    // Row 67; what is not known is not taken, more allocatable than capacity is nothing.
    let three = Scene::of(3, 1, 1_048_576).status("cpu", "4", "0").status("memory", "1000000001", "0");
    let wanted = three.label("true").wanted();
    assert_eq!(
        (amounts(&wanted, 2, "cpu").1, amounts(&wanted, 2, "memory").1),
        ("0".into(), "740408490333m".into())
    );
    let mut half = Scene::m().label("true").status("memory", "1Gi", "2Gi");
    half.node.status.capacity.insert("cpu".into(), "16".parse().unwrap());
    let wanted = half.wanted();
    assert_eq!((amounts(&wanted, 0, "cpu").1, amounts(&wanted, 0, "memory").1), ("8".into(), "64Gi".into()));
}

#[test]
fn what_cannot_be_known_is_an_error() {
    let mut scene = Scene::m();
    scene.numa = scene.numa.numa_infos[..1].to_vec().into();
    assert!(matches!(scene.compute(), Err(NrtError::NodeCount { memory: 1, cpus: 2 })));
    scene.numa = NodeNumaInfo::default();
    assert!(scene.compute().is_err());
    let system = Scene::m().annotate(keys::SYSTEM_QOS_RESOURCE, "{");
    assert!(matches!(system.compute(), Err(NrtError::SystemQos(_))));
    let listless = Scene::m().annotate(keys::SYSTEM_QOS_RESOURCE, r#"{"cpuset":"x"}"#).wanted();
    assert_eq!((pools(&listless, keys::CPU_SHARED_POOLS).len(), listless.notices.len()), (22, 1));
    let mut broken = Scene::m().kubelet(r#"{"cpuManagerPolicy":"static"}"#);
    broken.state = Some("{bad".into());
    assert!(matches!(broken.compute(), Err(NrtError::Pinned(_))));
    // The file of a kubelet that pins nothing is not looked at.
    assert!(broken.kubelet("{}").compute().is_ok());
}

/// A report of the reference agent on a host of two sockets with SMT.
#[test]
fn a_recorded_object_is_reproduced() {
    let mut scene = Scene::of(2, 4, 11_184_810)
        .pods(&[("u", "db", "LSR", "3,7"), ("v", "web", "LS", "")])
        .kubelet(r#"{"cpuManagerPolicy":"none","kubeReserved":{"cpu":"500m","memory":"1Gi"},"topologyManagerPolicy":"none"}"#)
        .annotate(keys::NODE_RESERVATION, r#"{"resources":{"cpu":"500m"}}"#);
    let mut infos = scene.numa.numa_infos;
    infos[1].mem_info = Meminfo::parse_numa("Node 1 MemTotal: 22369621 kB\n");
    scene.numa = infos.into();
    let wanted = scene.wanted();
    for (key, text) in [
        (keys::CPU_MANAGER_POLICY, r#"{"policy":"none"}"#),
        (
            keys::BE_CPU_SHARED_POOLS,
            r#"[{"socket":0,"node":0,"cpuset":"1,4-5"},{"socket":1,"node":1,"cpuset":"2-3,6-7"}]"#,
        ),
        (
            keys::CPU_SHARED_POOLS,
            r#"[{"socket":0,"node":0,"cpuset":"1,4-5"},{"socket":1,"node":1,"cpuset":"2,6"}]"#,
        ),
        (
            keys::CPU_TOPOLOGY,
            r#"{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":1,"core":1,"socket":0,"node":0},{"id":2,"core":2,"socket":1,"node":1},{"id":3,"core":3,"socket":1,"node":1},{"id":4,"core":0,"socket":0,"node":0},{"id":5,"core":1,"socket":0,"node":0},{"id":6,"core":2,"socket":1,"node":1},{"id":7,"core":3,"socket":1,"node":1}]}"#,
        ),
        (keys::POD_CPU_ALLOCS, "null"),
        (keys::NODE_RESERVATION, r#"{"resources":{"cpu":"500m"},"reservedCPUs":"0"}"#),
        (keys::SYSTEM_QOS_RESOURCE, "{}"),
    ] {
        assert_eq!(wanted.annotations[key], text, "{key}");
    }
    assert_eq!(
        (amounts(&wanted, 0, "memory").0, amounts(&wanted, 1, "memory").1),
        ("11184810Ki".into(), "22369621Ki".into())
    );
    assert_eq!((wanted.topology_policy, amounts(&wanted, 1, "cpu").1), ("None", "4".into()));
}
