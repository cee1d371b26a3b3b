use proptest::prelude::*;

use super::super::SloMerger;
use super::*;
use crate::units::Percent;

fn data(entries: &[(&str, Value)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), value.to_string())).collect()
}

fn labels(labels: &[(&str, &str)]) -> Labels {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn policy(entries: &[(&str, Value)]) -> ConfigMapPolicy {
    let mut policy = ConfigMapPolicy::default();
    assert_eq!(policy.take(&data(entries)), []);
    policy
}

fn spec(policy: &ConfigMapPolicy, of: &[(&str, &str)]) -> NodeSloSpec {
    policy.render(&labels(of), &Annotations::new()).0
}

#[test]
fn the_minimal_policy_reaches_the_agent() {
    let policy = policy(&[(
        THRESHOLDS,
        json!({
        "clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 65, "memoryEvictLowerPercent": 65},
        "nodeStrategies": [{"name": "big", "nodeSelector": {"matchLabels": {"pool": "big"}},
                            "cpuSuppressThresholdPercent": 75}]}),
    )]);
    for (of, threshold) in [(&[("pool", "big")][..], 75), (&[("pool", "small")], 65), (&[], 65)] {
        let mut merger = SloMerger::default();
        assert_eq!(merger.apply(&spec(&policy, of)), Some(vec![]));
        let slo = merger.slo();
        assert_eq!((slo.suppress.enable, slo.suppress.threshold), (true, Percent(threshold)));
        assert_eq!(slo.evict.memory_lower, Some(Percent(65)));
    }
}

#[test]
fn without_a_config_map_the_defaults_apply() {
    let mut merger = SloMerger::default();
    assert_eq!(merger.apply(&spec(&ConfigMapPolicy::default(), &[])), Some(vec![]));
    let slo = merger.slo();
    let default = super::super::Slo { synced: true, spec: slo.spec.clone(), ..Default::default() };
    assert_eq!(*slo, default);
}

/// Vector K4 of qos.md 13, with lists that replace lists (12, Q32).
#[test]
fn q32_a_list_replaces_the_clusters() {
    let blocks = |node: Value| {
        let policy = policy(&[(
            QOS,
            json!({
            "clusterStrategy": {"beClass": {"blkioQOS": {"enable": true,
                "blocks": [{"name": "sdb", "ioCfg": {"readBPS": 100}}, {"name": "sdc"}]}}},
            "nodeStrategies": [{"nodeSelector": {}, "beClass": {"blkioQOS": {"blocks": node}}}]}),
        )]);
        let section = spec(&policy, &[]).resource_qos_strategy.unwrap();
        assert_eq!(section["beClass"]["blkioQOS"]["enable"], true);
        section["beClass"]["blkioQOS"]["blocks"].clone()
    };
    for list in [json!([{"ioCfg": {"readIOPS": 5}}]), json!([]), json!([{"name": "sdd"}])] {
        assert_eq!(blocks(list.clone()), list);
    }
    assert_eq!(blocks(Value::Null).as_array().unwrap().len(), 2);
}

/// Vector K5 of qos.md 13, with a bandwidth that is inherited (12, Q30).
#[test]
fn q30_a_node_strategy_inherits_the_bandwidth() {
    for node in [json!({"nodeSelector": {}}), json!({"nodeSelector": {}, "minFreeKbytesFactor": 50})] {
        let policy = policy(&[(
            SYSTEM,
            json!({
            "clusterStrategy": {"totalNetworkBandwidth": "10M", "minFreeKbytesFactor": 150}, "nodeStrategies": [node]}),
        )]);
        let system = spec(&policy, &[]).system_strategy.unwrap();
        assert_eq!(system["totalNetworkBandwidth"], "10M");
        assert_eq!(
            system["minFreeKbytesFactor"],
            node.get("minFreeKbytesFactor").unwrap_or(&json!(150)).clone()
        );
    }
}

#[test]
fn the_first_strategy_for_a_node_is_taken() {
    let policy = policy(&[(
        BURST,
        json!({"clusterStrategy": {"policy": "auto"}, "nodeStrategies": [
            {"name": "nil", "cpuBurstPercent": 1},
            {"name": "expression", "nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}, "cpuBurstPercent": 2},
            {"name": "all", "nodeSelector": {}, "policy": "", "cpuBurstPercent": 3},
        ]}),
    )]);
    let burst = |of: &[(&str, &str)]| spec(&policy, of).cpu_burst_strategy.unwrap();
    assert_eq!(burst(&[("pool", "x")])["cpuBurstPercent"], 2);
    assert_eq!(burst(&[])["cpuBurstPercent"], 3);
    assert_eq!((&burst(&[])["policy"], burst(&[]).get("name")), (&json!("auto"), None));
}

#[test]
fn host_applications_of_a_node_replace_the_clusters() {
    let policy = policy(&[(
        HOST_APPLICATIONS,
        json!({"applications": [{"name": "a"}], "nodeConfigs": [
        {"nodeSelector": {"matchLabels": {"pool": "big"}}, "applications": [{"name": "b"}]},
        {"nodeSelector": {"matchLabels": {"zone": "z"}}}]}),
    )]);
    assert_eq!(spec(&policy, &[]).host_applications, Some(json!([{"name": "a"}])));
    assert_eq!(
        spec(&policy, &[("pool", "big"), ("zone", "z")]).host_applications,
        Some(json!([{"name": "b"}]))
    );
    assert_eq!(spec(&policy, &[("zone", "z")]).host_applications, None);
}

#[test]
fn what_cannot_be_read_keeps_what_it_said_last() {
    let good = json!({"clusterStrategy": {"enable": true}});
    let mut known = policy(&[(THRESHOLDS, good)]);
    let before = known.clone();
    for bad in [
        "{bad",
        "",
        "[]",
        "null",
        r#"{"clusterStrategy":[]}"#,
        r#"{"nodeStrategies":{}}"#,
        r#"{"nodeStrategies":[1]}"#,
    ] {
        let notices = known.take(&BTreeMap::from([(THRESHOLDS.to_owned(), bad.to_owned())]));
        assert_eq!((notices.len(), notices[0].key), (1, THRESHOLDS), "{bad}");
        assert_eq!(known, before, "{bad}");
    }
    let selector = json!({"nodeStrategies": [{"nodeSelector": {"matchLabels": {"a": 1}}, "enable": true}, {"nodeSelector": {}, "enable": false}]});
    let notices = known.take(&data(&[(THRESHOLDS, selector)]));
    let told = "resource-threshold-config: nodeStrategies[0].nodeSelector: matchLabels.a is no text; the entry is for no node";
    assert_eq!(notices.iter().map(ToString::to_string).collect::<Vec<_>>(), [told]);
    assert_eq!(spec(&known, &[]).resource_used_threshold_with_be.unwrap()["enable"], false);
    assert_eq!(known.take(&data(&[(HOST_APPLICATIONS, json!({"applications": {}}))])).len(), 1);
    assert_eq!(known, ConfigMapPolicy::default(), "a key that is gone has its default");
}

#[test]
fn the_nodes_annotation_wins_over_the_bandwidth() {
    let policy = policy(&[(
        SYSTEM,
        json!({"clusterStrategy": {"totalNetworkBandwidth": "10M", "watermarkScaleFactor": 5}}),
    )]);
    let render = |text: &str| {
        policy.render(&Labels::new(), &Annotations::from([(keys::NETWORK_BANDWIDTH.into(), text.into())]))
    };
    let (spec, notices) = render("1000M");
    assert_eq!(
        (spec.system_strategy.unwrap()["totalNetworkBandwidth"].clone(), notices.len()),
        (json!("1G"), 0)
    );
    let (spec, notices) = render("fast");
    assert_eq!((spec.system_strategy, notices.len()), (None, 1));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(key in prop::sample::select(vec![THRESHOLDS, QOS, BURST, SYSTEM, HOST_APPLICATIONS]), text in r#"[\[\]{}":,a-z0-9]{0,40}"#) {
        let mut policy = ConfigMapPolicy::default();
        policy.take(&BTreeMap::from([(key.to_owned(), text)]));
        drop(policy.render(&Labels::new(), &Annotations::new()));
    }
}
