use serde_json::json;

use super::*;

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
        assert_eq!(merger.slo().spec.cpu_burst_strategy, Some(json!({"policy": "auto"})));
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
