use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::burst::BurstPolicy;
use super::super::thresholds::CpuEvictPolicy;
use super::super::{CpuSuppressPolicy, SuppressPolicy};
use super::*;
use crate::api::quantity::Quantity;
use crate::units::Percent;

fn spec(json: Value) -> NodeSloSpec {
    serde_json::from_value(json).unwrap()
}

fn thresholds(json: &Value) -> NodeSloSpec {
    spec(json!({ "resourceUsedThresholdWithBE": json }))
}

#[test]
fn defaults_are_overlaid_with_what_is_there() {
    let mut merger = SloMerger::default();
    assert_eq!(merger.apply(&spec(json!({}))), Some(vec![]));
    assert_eq!(merger.slo().suppress, CpuSuppressPolicy::default());
    assert_eq!(merger.apply(&thresholds(&json!({"enable": true}))), Some(vec![]));
    let slo = merger.slo();
    assert!(slo.synced && slo.suppress.enable);
    assert_eq!(slo.suppress.threshold, Percent(65));
    let all = json!({"enable": true, "cpuSuppressThresholdPercent": 0, "cpuSuppressMinPercent": 100,
                     "cpuSuppressPolicy": "cfsQuota"});
    merger.apply(&thresholds(&all));
    let wanted = CpuSuppressPolicy {
        enable: true,
        threshold: Percent(0),
        min: Some(Percent(100)),
        policy: SuppressPolicy::CfsQuota,
    };
    assert_eq!(merger.slo().suppress, wanted);
    // null and absent are the same, an unknown policy acts as cpuset, a dropped section falls to the defaults
    merger.apply(&thresholds(&json!({"enable": null, "cpuSuppressPolicy": "cfsquota"})));
    assert_eq!(merger.slo().suppress, CpuSuppressPolicy::default());
}

#[test]
fn what_is_mistyped_is_named_and_the_rest_applies() {
    let mut merger = SloMerger::default();
    let typed = json!({"enable": true, "cpuSupressThresholdPercent": 40, "cpuSuppressMinPercent": 5});
    let notices = merger.apply(&thresholds(&typed)).unwrap();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert_eq!(notices[0].field, "spec.resourceUsedThresholdWithBE.cpuSupressThresholdPercent");
    assert_eq!(merger.slo().suppress.min, Some(Percent(5)));
    let typed =
        json!({"enable": true, "cpuSuppressPolicy": "cfsquota", "cpuEvictPolicy": "evictByRealLimit"});
    let notices = merger.apply(&thresholds(&typed)).unwrap();
    assert_eq!(notices.len(), 1, "{notices:?}");
    let text = notices[0].to_string();
    assert!(
        text.contains("cpuSuppressPolicy: \"cfsquota\"") && text.contains("acts as \"cpuset\""),
        "{text}"
    );
    assert!(merger.slo().suppress.enable);
    assert_eq!(merger.apply(&thresholds(&json!({"cpuSuppressPolicy": ""}))), Some(vec![]));
}

#[test]
fn an_equal_spec_changes_nothing() {
    let mut merger = SloMerger::default();
    let policy = thresholds(&json!({"enable": true, "cpuSuppressThresholdPercent": 150}));
    assert_eq!(merger.apply(&policy).map(|notices| notices.len()), Some(1));
    assert_eq!(merger.apply(&policy.clone()), None);
}

#[test]
fn c131_nonsense_keeps_the_last_good_strategy_and_the_rest_applies() {
    let mut merger = SloMerger::default();
    merger.apply(&thresholds(&json!({"enable": true, "cpuSuppressThresholdPercent": 60})));
    let good = merger.slo().suppress.clone();
    for bad in [json!(150), json!(-1), json!("lots"), json!(65.5), json!([65]), json!(true), json!(1e30)] {
        let policy = spec(json!({
            "resourceUsedThresholdWithBE": {"enable": false, "cpuSuppressThresholdPercent": bad},
            "cpuBurstStrategy": {"policy": "auto"},
            "hostApplications": [{"name": "nginx", "qos": "LS"}],
        }));
        let notices = merger.apply(&policy).unwrap();
        assert_eq!(notices.len(), 1, "{notices:?}");
        let text = notices[0].to_string();
        for part in ["resourceUsedThresholdWithBE.cpuSuppressThresholdPercent", &bad.to_string(), "60 %"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(merger.slo().suppress, good);
        assert_eq!(merger.slo().host_applications.len(), 1);
        assert_eq!(merger.slo().burst.policy, BurstPolicy::Auto);
    }
    merger.apply(&thresholds(&json!({"enable": true, "cpuSuppressThresholdPercent": 70})));
    assert_eq!(merger.slo().suppress.threshold, Percent(70));
}

#[test]
fn every_bad_field_is_named_and_a_section_must_be_an_object() {
    let mut merger = SloMerger::default();
    let bad = json!({"enable": "yes", "cpuSuppressMinPercent": 101, "cpuSuppressPolicy": 3});
    assert_eq!(merger.apply(&thresholds(&bad)).unwrap().len(), 3);
    let notices = merger.apply(&thresholds(&json!([1]))).unwrap();
    assert_eq!(notices[0].field, "spec.resourceUsedThresholdWithBE");
    assert_eq!(merger.slo().suppress, CpuSuppressPolicy::default());
}

fn applications(list: &Value) -> NodeSloSpec {
    spec(json!({ "hostApplications": list }))
}

fn names(merger: &SloMerger) -> Vec<&str> {
    merger.slo().host_applications.iter().map(|application| application.name.as_str()).collect()
}

#[test]
fn the_list_of_host_applications_replaces_the_previous_one() {
    let mut merger = SloMerger::default();
    let path = json!({"base": "CgroupRoot", "parentDir": "host/", "relativePath": "redis"});
    merger.apply(&applications(&json!([{"name": "redis", "cgroupPath": path}, {"name": "web"}])));
    assert_eq!(names(&merger), ["redis", "web"]);
    merger.apply(&applications(&json!([{"name": "web", "qos": null}])));
    assert_eq!(names(&merger), ["web"]);
    merger.apply(&applications(&Value::Null));
    assert!(names(&merger).is_empty());
}

#[test]
fn host_applications_cannot_leave_their_directory() {
    let at = |parent: &str, relative: &str| json!({"base": "CgroupRoot", "parentDir": parent, "relativePath": relative});
    for bad in [
        json!({"name": "a", "cgroupPath": at("../kubepods", "x")}),
        json!({"name": "a", "cgroupPath": at("host", "x/../../y")}),
        json!({"name": "a", "cgroupPath": at("/", "./")}),
        json!({"name": "../a"}),
        json!({"name": ""}),
        json!({"name": 3}),
        json!("a"),
    ] {
        let mut merger = SloMerger::default();
        let notices = merger.apply(&applications(&json!([bad, {"name": "good"}]))).unwrap();
        assert_eq!(notices.len(), 1, "{bad}");
        assert!(notices[0].field.starts_with("spec.hostApplications[0]"), "{notices:?}");
        assert_eq!(names(&merger), ["good"], "{bad}");
    }
}

#[test]
fn a_bad_entry_keeps_the_last_good_one_of_its_name() {
    let mut merger = SloMerger::default();
    merger.apply(&applications(&json!([{"name": "a", "qos": "LS"}])));
    let bad =
        json!([{"name": "a", "qos": "BE", "cgroupPath": {"parentDir": ".."}}, {"name": "b"}, {"name": "b"}]);
    let notices = merger.apply(&applications(&bad)).unwrap();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert_eq!(names(&merger), ["a", "b"]);
    assert_eq!(merger.slo().host_applications[0].qos, "LS");
    merger.apply(&applications(&json!({"a": 1})));
    assert_eq!(names(&merger), ["a", "b"]);
}

#[test]
fn an_absent_object_leaves_the_defaults_or_the_last_spec_in_force() {
    let mut merger = SloMerger::default();
    merger.absent();
    assert!(merger.slo().synced && !merger.slo().suppress.enable);
    merger.apply(&thresholds(&json!({"enable": true})));
    merger.absent();
    assert!(merger.slo().suppress.enable);
}

#[test]
fn eviction_burst_and_system_have_the_defaults_of_the_worked_examples() {
    // Vector K1 of qos.md 13.
    let mut merger = SloMerger::default();
    merger.apply(&spec(json!({})));
    let slo = merger.slo();
    let (suppress, evict, burst) = (&slo.suppress, &slo.evict, &slo.burst);
    assert_eq!(
        (suppress.enable, suppress.threshold, suppress.policy),
        (false, Percent(65), SuppressPolicy::Cpuset)
    );
    assert_eq!(
        (evict.enable, evict.memory, evict.cpu_policy),
        (false, Percent(70), CpuEvictPolicy::RealLimit)
    );
    assert_eq!(
        (burst.policy, burst.cpu_burst, burst.cfs_quota_burst),
        (BurstPolicy::None, Percent(1000), Percent(300))
    );
    assert_eq!((burst.cfs_quota_burst_period_seconds, burst.share_pool_threshold), (-1, Percent(50)));
    assert_eq!(slo.system, SystemStrategy::default());
    assert_eq!(*slo, Slo { synced: true, ..Slo::default() });
    merger.apply(&thresholds(&json!({"enable": true, "cpuSuppressThresholdPercent": 80})));
    let slo = merger.slo();
    assert_eq!(
        (slo.suppress.threshold, slo.evict.enable, slo.evict.memory),
        (Percent(80), true, Percent(70))
    );
}

#[test]
fn every_threshold_is_read() {
    let mut merger = SloMerger::default();
    let all = json!({
        "enable": true, "memoryEvictThresholdPercent": 71, "memoryEvictLowerPercent": 61,
        "memoryAllocatableEvictThresholdPercent": 171, "memoryAllocatableEvictLowerPercent": 161,
        "cpuEvictBESatisfactionLowerPercent": -3, "cpuEvictBESatisfactionUpperPercent": 130,
        "cpuEvictBEUsageThresholdPercent": 91, "cpuEvictTimeWindowSeconds": 7, "cpuEvictThresholdPercent": 72,
        "cpuEvictLowerPercent": 62, "cpuAllocatableEvictThresholdPercent": 172, "cpuAllocatableEvictLowerPercent": 162,
        "cpuEvictPolicy": "evictByAllocatable", "evictEnabledPriorityThreshold": 5999,
        "allocatableEvictPriorityThreshold": -1,
    });
    assert_eq!(merger.apply(&thresholds(&all)), Some(vec![]));
    assert_eq!(serde_json::to_value(&merger.slo().evict).unwrap(), all);
    let bad = json!({"memoryEvictThresholdPercent": 101, "cpuAllocatableEvictLowerPercent": -1,
                     "evictEnabledPriorityThreshold": 3_000_000_000i64, "cpuEvictPolicy": "bogus", "enable": false});
    let notices = merger.apply(&thresholds(&bad)).unwrap();
    assert_eq!(notices.len(), 4, "{notices:?}");
    assert!(
        merger.slo().evict.enable && notices[3].applies.contains("CPU suppression and eviction stay"),
        "{notices:?}"
    );
}

#[test]
fn burst_and_system_are_kept_on_their_own() {
    let mut merger = SloMerger::default();
    let system = json!({"minFreeKbytesFactor": 100, "watermarkScaleFactor": 150, "memcgReapBackGround": 1,
        "schedGroupIdentityEnabled": 1, "schedIdleSaverWmark": 5, "schedFeatures": {"A": true, "B": false},
        "pageCacheLimitEnabled": 0, "totalNetworkBandwidth": "10M"});
    let burst = json!({"policy": "cfsQuotaBurstOnly", "cpuBurstPercent": 0, "cfsQuotaBurstPercent": 90,
        "cfsQuotaBurstPeriodSeconds": 60, "sharePoolThresholdPercent": 80});
    let good = spec(json!({"systemStrategy": system, "cpuBurstStrategy": burst}));
    assert_eq!(merger.apply(&good), Some(vec![]));
    assert_eq!(serde_json::to_value(&merger.slo().system).unwrap(), system);
    assert_eq!(serde_json::to_value(&merger.slo().burst).unwrap(), burst);

    let bad = spec(json!({
        "systemStrategy": {"schedFeatures": {"A": 1}, "totalNetworkBandwidth": "lots"},
        "cpuBurstStrategy": {"policy": "always"},
    }));
    let notices = merger.apply(&bad).unwrap();
    let told: Vec<String> = notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            r#"spec.cpuBurstStrategy.policy: "always" is none of "none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"; CPU burst stays as it was"#,
            "spec.systemStrategy.schedFeatures.A: 1 is not true or false; the system strategy stays as it was",
            r#"spec.systemStrategy.totalNetworkBandwidth: "lots" is not a quantity; the system strategy stays as it was"#,
        ]
    );
    assert_eq!(merger.slo().system.total_network_bandwidth, "10M".parse::<Quantity>().unwrap());
    assert_eq!(merger.slo().burst.policy, BurstPolicy::CfsQuotaBurstOnly);
    let worse = spec(json!({"systemStrategy": [], "cpuBurstStrategy": {"cpuBurstPercent": 10_001}}));
    assert_eq!(merger.apply(&worse).unwrap().len(), 2);
    assert_eq!(merger.slo().system.watermark_scale_factor, Some(150));
}

#[test]
fn extensions_are_kept_where_a_default_is_registered() {
    let extended = |extensions: Value| spec(json!({ "extensions": extensions }));
    let given = json!({"mine": {"b": {"c": 3}}, "other": {"a": 1}});
    let mut stock = SloMerger::default();
    assert_eq!(stock.apply(&extended(given.clone())), Some(vec![]));
    assert!(stock.slo().extensions.is_empty());
    let defaults = Extensions::from([("mine".to_owned(), json!({"a": 1, "b": {"c": 2, "d": 4}}))]);
    for wrapped in [given.clone(), json!({ "Object": given })] {
        let mut merger = SloMerger::with_extensions(defaults.clone());
        assert_eq!(merger.slo().extensions, defaults);
        merger.apply(&extended(wrapped));
        assert_eq!(merger.slo().extensions["mine"], json!({"a": 1, "b": {"c": 3, "d": 4}}));
        assert_eq!(merger.apply(&extended(json!({"Object": 1}))).unwrap().len(), 1);
        assert_eq!(merger.slo().extensions["mine"]["b"]["c"], 3);
        merger.apply(&extended(Value::Null));
        assert_eq!(merger.slo().extensions, defaults);
    }
}

#[test]
fn what_is_told_is_bounded() {
    let mut merger = SloMerger::default();
    let unknown: serde_json::Map<String, Value> = (0..500).map(|n| (format!("f{n}"), json!(n))).collect();
    let bad: serde_json::Map<String, Value> = (0..500).map(|n| (format!("f{n}"), json!(n))).collect();
    let policy = spec(json!({"cpuBurstStrategy": unknown, "systemStrategy": {"schedFeatures": bad}}));
    assert_eq!(merger.apply(&policy).unwrap().len(), 8 + 32);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-30i64..120).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["", "auto", "cfsQuota", "10M", "device", "x"]).prop_map(Value::from),
    ];
    let names = vec![
        "enable",
        "policy",
        "policies",
        "lsClass",
        "beClass",
        "cgroupRoot",
        "cpuQOS",
        "memoryQOS",
        "blkioQOS",
        "networkQOS",
        "blocks",
        "ioCfg",
        "type",
        "name",
        "groupIdentity",
        "wmarkRatio",
        "ingressLimit",
        "readBPS",
        "cpuPolicy",
        "schedFeatures",
        "totalNetworkBandwidth",
        "cpuSuppressThresholdPercent",
        "Object",
        "odd",
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        let members = (prop::sample::select(names.clone()), inner.clone());
        prop_oneof![
            1 => prop::collection::vec(inner, 0..3).prop_map(Value::from),
            4 => prop::collection::vec(members, 0..6)
                .prop_map(|all| Value::Object(all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    })
}

fn any_spec() -> impl Strategy<Value = NodeSloSpec> {
    prop::collection::vec(prop::option::of(any_json()), 6).prop_map(|mut parts| NodeSloSpec {
        resource_used_threshold_with_be: parts.pop().flatten(),
        resource_qos_strategy: parts.pop().flatten(),
        cpu_burst_strategy: parts.pop().flatten(),
        system_strategy: parts.pop().flatten(),
        host_applications: parts.pop().flatten(),
        extensions: parts.pop().flatten(),
    })
}

proptest! {
    #[test]
    fn any_spec_is_taken_twice_with_one_result_and_without_refusals_forgets_the_past(
        before in any_spec(), after in any_spec(),
    ) {
        let mut merger = SloMerger::default();
        merger.apply(&before);
        let notices = merger.apply(&after).unwrap_or_default();
        let taken = merger.slo().clone();
        prop_assert_eq!(merger.apply(&after), None);
        merger.apply(&before);
        let again = merger.apply(&after).unwrap_or_default();
        prop_assert_eq!(again.len(), notices.len());
        let mut fresh = SloMerger::default();
        let refused = fresh.apply(&after).unwrap_or_default();
        if refused.iter().all(|notice| notice.applies.starts_with("it ")) {
            prop_assert_eq!(fresh.slo(), &taken);
        }
    }
}
