use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::json;

use super::super::list_splitter::{MAX_ITEM_BYTES, MAX_LIST_BYTES};
use super::*;

fn read(text: &[u8], chunk: usize, known: &PodMap) -> Result<PodList, ListError> {
    let mut reader = PodListReader::new(known);
    for part in text.chunks(chunk.max(1)) {
        reader.feed(part)?;
    }
    reader.finish()
}

fn whole(text: &str) -> Result<PodList, ListError> {
    read(text.as_bytes(), text.len(), &PodMap::new())
}

fn uids(list: &PodList) -> Vec<&str> {
    list.pods.keys().map(String::as_str).collect()
}

/// A list as the kubelet writes it, with much that the slim pod leaves out.
fn kubelet_text(pods: usize, containers: usize) -> String {
    let mut text = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":["#.to_owned();
    for pod in 0..pods {
        let each = |f: &dyn Fn(usize) -> serde_json::Value| (0..containers).map(f).collect::<Vec<_>>();
        let item = json!({
            "metadata": {
                "name": format!("web-{pod}"), "namespace": "shop", "uid": format!("0000-{pod:06}"),
                "labels": {"app": "web", "koordinator.sh/qosClass": "LS"},
                "annotations": {"kubernetes.io/config.source": "api", "kubernetes.io/config.seen": "2024-01-01T00:00:00Z"},
                "managedFields": (0..4).map(|field| json!({
                    "manager": format!("controller-{field}"), "operation": "Update", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:a": {}}}, "f:spec": {"f:containers": {
                        "k:{\"name\":\"app\"}": {".": {}, "f:image": {}, "f:resources": {"f:limits": {}}}}}},
                })).collect::<Vec<_>>(),
            },
            "spec": {
                "nodeName": "n1", "priority": 9000, "schedulerName": "default-scheduler",
                "volumes": [{"name": "kube-api-access", "projected": {"sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}],
                "containers": each(&|c| json!({
                    "name": format!("app-{c}"), "image": "registry.example/shop/web:1.2.3", "command": ["/bin/web"],
                    "env": (0..20).map(|e| json!({"name": format!("SETTING_{e}"), "value": "some text \u{e9}\n"}))
                        .collect::<Vec<_>>(),
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                    "volumeMounts": [{"name": "kube-api-access", "mountPath": "/var/run/secrets", "readOnly": true}],
                })),
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            },
            "status": {
                "phase": "Running", "qosClass": "Burstable",
                "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}],
                "containerStatuses": each(&|c| json!({
                    "name": format!("app-{c}"), "ready": true, "restartCount": 0, "image": "registry.example/shop/web",
                    "containerID": format!("containerd://{pod:08x}{c:056x}"),
                    "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}},
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
                })),
            },
        });
        if pod > 0 {
            text.push(',');
        }
        write!(text, "{item}").unwrap();
    }
    text + "]}\n"
}

#[test]
fn a_list_as_the_kubelet_writes_it_is_read() {
    let list = whole(&kubelet_text(3, 2)).unwrap();
    assert_eq!(uids(&list), ["0000-000000", "0000-000001", "0000-000002"]);
    let pod = &list.pods["0000-000001"];
    assert_eq!(pod.metadata.name, "web-1");
    assert_eq!(pod.spec.containers[1].resources.limits["cpu"].milli(), 1000);
    assert!(pod.status.container_statuses[1].container_id.starts_with("containerd://00000001"));
    assert_eq!((list.refused_count, list.bytes), (0, kubelet_text(3, 2).len()));
}

/// What of a pod's life comes through: static, terminating, restarted, being resized.
#[test]
fn what_pods_go_through_is_told() {
    let text = json!({"kind": "PodList", "items": [
        {"metadata": {"uid": "static", "annotations": {"kubernetes.io/config.source": "file",
            "kubernetes.io/config.hash": "static"}}},
        {"metadata": {"uid": "going", "deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}},
        {"metadata": {"uid": "restarted"}, "status": {"containerStatuses": [{"name": "a", "restartCount": 1,
            "containerID": "containerd://new",
            "lastState": {"terminated": {"containerID": "containerd://old", "exitCode": 1}}}]}},
        {"metadata": {"uid": "resized"}, "spec": {"containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}]},
            "status": {"resize": "InProgress", "containerStatuses": [{"name": "a",
                "allocatedResources": {"cpu": "1"}, "resources": {"limits": {"cpu": "1"}}}]}},
        {"metadata": {"uid": "side"}, "spec": {"initContainers": [{"name": "s", "restartPolicy": "Always"}]},
            "status": {"initContainerStatuses": [{"name": "s", "containerID": "containerd://s"}]}},
    ]});
    let list = whole(&text.to_string()).unwrap();
    assert_eq!(list.refused_count, 0);
    assert_eq!(list.pods["static"].metadata.uid, "static");
    assert_eq!(list.pods["going"].metadata.deletion_timestamp.as_deref(), Some("2024-01-01T00:00:00Z"));
    assert_eq!(list.pods["restarted"].status.container_statuses[0].container_id, "containerd://new");
    let resized = &list.pods["resized"];
    let applied = resized.status.container_statuses[0].resources.as_ref().unwrap();
    assert_eq!(applied.limits["cpu"].milli(), 1000);
    assert_eq!(resized.spec.containers[0].resources.limits["cpu"].milli(), 2000);
    assert!(list.pods["side"].spec.init_containers[0].is_restartable());
    assert_eq!(list.pods["side"].status.init_container_statuses[0].container_id, "containerd://s");
}

#[test]
fn unchanged_pods_share_what_is_known() {
    let first = whole(&kubelet_text(3, 1)).unwrap();
    let same = read(kubelet_text(3, 1).as_bytes(), 7, &first.pods).unwrap();
    assert!(same.is_same(&first.pods));
    let text = kubelet_text(3, 1).replace("web-1\"", "web-9\"");
    let changed = read(text.as_bytes(), 7, &first.pods).unwrap();
    assert!(!changed.is_same(&first.pods));
    let shared: Vec<_> = first.pods.iter().map(|(uid, pod)| Arc::ptr_eq(pod, &changed.pods[uid])).collect();
    assert_eq!(shared, [true, false, true]);
}

#[test]
fn lists_without_pods_are_lists() {
    for text in [
        r#"{"kind":"PodList","items":[]}"#,
        r#"{"kind":"PodList","items":null}"#,
        "\t{ \"items\" : [ ] , \"metadata\" : {\"a\":[1,{\"b\":\"]}\"}]} } \r\n",
        r#"{"\u0069tems":[]}"#,
    ] {
        assert!(whole(text).unwrap().pods.is_empty(), "{text}");
    }
}

#[test]
fn what_is_no_list_is_refused() {
    for (text, what) in [
        ("", "in the middle"),
        ("{}", "\"items\""),
        ("[]", "the list's {"),
        (r#"{"kind":"Status","status":"Failure"}"#, "kind Status"),
        (r#"{"kind":7,"items":[]}"#, "JSON"),
        (r#"{"items":{}}"#, "an array of items"),
        (r#"{"items":"x"}"#, "an array of items"),
        (r#"{"items":[]"#, "in the middle"),
        (r#"{"items":[{"metadata":{"uid":"a"}},]}"#, "an item's {"),
        (r#"{"items":[7]}"#, "an item's {"),
        (r#"{"items":[{"metadata":{"uid":"a"}} {"metadata":{"uid":"b"}}]}"#, "a , or ]"),
        (r#"{"items":[],"items":[]}"#, "two members items"),
        (r#"{"items":[]}{"#, "the end"),
        (r#"{"items":[],}"#, "a member"),
        (r#"{"items":[] "a":1}"#, "a , or"),
        (r#"{"items" []}"#, "a :"),
        (r#"{"items":[],"a":nul}"#, "JSON"),
        (r#"{"items":[],"a":{]}"#, "JSON"),
        (r#"{"items":[{"metadata":{"uid":"a"},"x":[}]}]}"#, "JSON"),
        ("{\"items\":[],\"a\u{c}\":1\u{c}}", "JSON"),
    ] {
        let error = crate::error_chain::chain(&whole(text).unwrap_err());
        assert!(error.contains(what), "{text}: {error}");
    }
}

#[test]
fn hostile_texts_cost_little() {
    let deep = format!(r#"{{"items":[{{"x":{}"#, "[".repeat(1_000_000));
    assert!(matches!(whole(&deep), Err(ListError::TooDeep(_))));
    let long = format!(r#"{{"items":[{{"x":"{}"#, "a".repeat(MAX_ITEM_BYTES + 1));
    assert!(matches!(whole(&long), Err(ListError::ItemTooLong)));
    let key = format!(r#"{{"{}":1"#, "k".repeat(10_000));
    assert!(matches!(whole(&key), Err(ListError::ItemTooLong)));
    let many = format!(r#"{{"items":[{}{{}}]}}"#, "{},".repeat(MAX_PODS));
    assert!(matches!(whole(&many), Err(ListError::TooManyItems(MAX_PODS))));
    let (nobody, blanks) = (PodMap::new(), vec![b' '; 1 << 20]);
    let mut reader = PodListReader::new(&nobody);
    let endless = (0..=MAX_LIST_BYTES >> 20).try_for_each(|_| reader.feed(&blanks));
    assert!(matches!(endless, Err(ListError::ListTooLong)));
}

/// One pod that cannot be read hides no other, and what was known of it stays.
#[test]
fn a_bad_pod_is_left_out_alone() {
    let known = whole(r#"{"items":[{"metadata":{"uid":"b","name":"known"}}]}"#).unwrap().pods;
    for bad in [
        r#"{"metadata":{"uid":"b","name":"p","namespace":"n"},"spec":{"priority":"high"}}"#,
        r#"{"metadata":{"uid":"b","name":"p","namespace":"n"},"metadata":{"uid":"b"}}"#,
        r#"{"metadata":{"uid":"b","name":"p","namespace":"n"},"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}"#,
    ] {
        let text =
            format!(r#"{{"items":[{{"metadata":{{"uid":"a"}}}},{bad},{{"metadata":{{"uid":"c"}}}}]}}"#);
        let list = read(text.as_bytes(), 5, &known).unwrap();
        assert_eq!(uids(&list)[0], "a", "{bad}");
        assert_eq!(list.refused_count, 1, "{bad}");
        if list.refused[0].is_kept {
            assert!(Arc::ptr_eq(&list.pods["b"], &known["b"]));
            assert!(list.refused[0].to_string().starts_with("n/p: "), "{}", list.refused[0]);
        }
        let unknown = read(text.as_bytes(), 5, &PodMap::new()).unwrap();
        assert_eq!(uids(&unknown), ["a", "c"], "{bad}");
    }
    let nameless = whole(r#"{"items":[{},{"metadata":{"uid":"c"}}]}"#).unwrap();
    assert_eq!((uids(&nameless), nameless.refused_count), (vec!["c"], 1));
}

#[test]
fn text_that_is_not_utf8_is_refused_or_not_kept() {
    let good = br#"{"items":[{"metadata":{"uid":"a","name":"_"}}]}"#;
    let at = good.iter().position(|byte| *byte == b'_').unwrap();
    let mut bad = good.to_vec();
    bad[at] = 0xff;
    assert!(matches!(read(&bad, 3, &PodMap::new()), Err(ListError::Json { .. })));
}

/// Memory for a node of 1,000 containers, in figures; the text would be several times that.
#[test]
fn memory_for_a_thousand_containers_stays_small() {
    let text = kubelet_text(200, 5);
    let mut known = PodMap::new();
    let first =
        allocation_counter::measure(|| known = read(text.as_bytes(), 64 << 10, &PodMap::new()).unwrap().pods);
    let again = allocation_counter::measure(|| {
        assert!(read(text.as_bytes(), 64 << 10, &known).unwrap().is_same(&known));
    });
    println!(
        "200 pods of 5 containers: text {} KiB; kept {} KiB, at most {} KiB while reading; read again, unchanged: at \
         most {} KiB more",
        text.len() >> 10,
        first.bytes_current >> 10,
        first.bytes_max >> 10,
        again.bytes_max >> 10,
    );
    assert!(first.bytes_max - first.bytes_current.unsigned_abs() < 256 << 10, "{first:?}");
    assert!(again.bytes_max < 256 << 10, "{again:?}");
    assert!(first.bytes_max < 4 << 20, "{first:?}");
}

/// JSON values of any kind, as members that nobody knows.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        "\\PC{0,12}|[\\[\\]{}\",:\\\\ \n]{0,12}".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_list() -> impl Strategy<Value = (Vec<String>, String, bool)> {
    let pod = ("[a-z]{1,8}", "\\PC{0,12}", any_json());
    (prop::collection::vec(pod, 0..5), any_json(), any::<bool>()).prop_map(|(pods, other, pretty)| {
        let items: Vec<_> = pods
            .iter()
            .map(|(uid, name, other)| json!({"metadata": {"uid": uid, "name": name}, "zz": other}))
            .collect();
        let list = json!({"aa": other, "items": items, "kind": "PodList", "zz": other});
        let text = if pretty { serde_json::to_string_pretty(&list).unwrap() } else { list.to_string() };
        let mut uids: Vec<_> = pods.into_iter().map(|(uid, ..)| uid).collect();
        uids.sort();
        uids.dedup();
        (uids, text, pretty)
    })
}

proptest! {
    #[test]
    fn any_cut_into_chunks_gives_the_same((expected, text, _) in any_list(), chunk in 1usize..40) {
        let list = read(text.as_bytes(), chunk, &PodMap::new()).unwrap();
        prop_assert_eq!(uids(&list), expected);
        let in_one = whole(&text).unwrap();
        prop_assert!(list.pods == in_one.pods);
        prop_assert_eq!(list.refused_count, 0);
    }

    #[test]
    fn half_a_list_is_an_error((_, text, _) in any_list(), at in any::<prop::sample::Index>(), chunk in 1usize..40) {
        let cut = at.index(text.len());
        prop_assert!(read(&text.as_bytes()[..cut], chunk, &PodMap::new()).is_err());
    }

    /// Damaged text never panics, and whatever is accepted is JSON for a parser of whole texts, too.
    #[test]
    fn what_is_accepted_is_json((_, text, _) in any_list(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut damaged = text.into_bytes();
        let place = at.index(damaged.len());
        damaged[place] = byte;
        if let Ok(list) = read(&damaged, 16, &PodMap::new())
            && let Ok(text) = std::str::from_utf8(&damaged)
        {
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok(), "{} pods: {text}", list.pods.len());
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200), brackets in "[\\[\\]{}\",:a ]{0,60}") {
        let _: Option<PodList> = read(&bytes, 9, &PodMap::new()).ok();
        let _: Option<PodList> = read(brackets.as_bytes(), 3, &PodMap::new()).ok();
    }
}
