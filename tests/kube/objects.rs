//! Objects as they come and what the agent writes, with no more rights than the project ships.

use anyhow::Result;
use kit::need;
use koordlet::kube::event_series::{Happening, Severity, Subject};
use koordlet::kube::kind::Kind;
use koordlet::kube::publish::Published;
use koordlet::kube::reason::Reason;
use koordlet::kube::stats::Verb;
use koordlet::kube::{KubeSources, KubeUpdate, KubeUpdates};
use serde_json::{Value, json};

use crate::api_server::offers;
use crate::scene::{CONFIG_MAPS, METRICS, NODE, NODES, SLOS, Scene, TOPOLOGIES, wait_for};

#[tokio::test]
async fn objects_come_and_writes_go_with_the_rights_that_are_shipped() -> Result<()> {
    need!(offers());
    let scene = Scene::new(true).await?;
    let (sources, mut updates) = scene.sources().await?;
    policy_comes_and_goes(&scene, &mut updates).await?;
    node_changes_come(&scene, &mut updates).await?;
    config_comes(&scene, &mut updates).await?;
    c137_the_start_asks_little(&sources);
    reports_go(&scene, &sources, &mut updates).await?;
    topology_goes(&scene, &sources, &mut updates).await?;
    events_go(&scene, &sources).await?;
    nothing_else_is_allowed(&sources).await;
    for kind in [Kind::Node, Kind::NodeSlo, Kind::Topology, Kind::ConfigMap, Kind::Event] {
        assert_eq!(sources.stats().trouble(kind), None, "{kind:?}");
    }
    // Left by the writer whose budget was spent on purpose.
    let trouble = sources.stats().trouble(Kind::NodeMetric).unwrap_or_default();
    assert!(trouble.starts_with("cannot report: too many reports at once"), "{trouble}");
    Ok(())
}

/// The burst strategy of a NodeSLO; `null` where there is no NodeSLO.
fn slo(update: KubeUpdate) -> Option<Value> {
    let KubeUpdate::NodeSlo(slo) = update else { return None };
    Some(slo.and_then(|slo| slo.spec.cpu_burst_strategy.clone()).unwrap_or_default())
}

async fn policy_comes_and_goes(scene: &Scene, updates: &mut KubeUpdates) -> Result<()> {
    let seen = wait_for(updates, "answer that there is no NodeSLO", slo).await?;
    assert_eq!(seen, Value::Null, "absent, and told so");
    let burst = |policy: &str| json!({"policy": policy});
    let object = json!({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": NODE},
                        "spec": {"cpuBurstStrategy": burst("auto")}});
    let mut other = object.clone();
    other["metadata"]["name"] = "node-2".into();
    scene.create(SLOS, &other).await?;
    scene.create(SLOS, &object).await?;
    assert_eq!(wait_for(updates, "NodeSLO", slo).await?, burst("auto"));
    let patch = json!({"spec": {"cpuBurstStrategy": {"policy": "none"}}});
    scene.patch(&format!("{SLOS}/{NODE}"), &patch).await?;
    assert_eq!(wait_for(updates, "changed NodeSLO", slo).await?, burst("none"));
    scene.delete(&format!("{SLOS}/{NODE}")).await?;
    assert_eq!(wait_for(updates, "deletion of the NodeSLO", slo).await?, Value::Null);
    Ok(())
}

async fn node_changes_come(scene: &Scene, updates: &mut KubeUpdates) -> Result<()> {
    let ratio = "node.koordinator.sh/cpu-normalization-ratio";
    for value in [json!("1.2"), Value::Null] {
        scene
            .patch(&format!("{NODES}/{NODE}"), &json!({"metadata": {"annotations": {ratio: value}}}))
            .await?;
        wait_for(updates, "annotation of the Node", |update| {
            let KubeUpdate::Node(Some(node)) = update else { return None };
            (node.metadata.annotations.get(ratio).map(String::as_str) == value.as_str()).then_some(())
        })
        .await?;
    }
    Ok(())
}

async fn config_comes(scene: &Scene, updates: &mut KubeUpdates) -> Result<()> {
    let config = |name: &str| json!({"metadata": {"name": name}, "data": {"cpu-burst-config": "{}"}});
    scene.create(CONFIG_MAPS, &config("another")).await?;
    scene.create(CONFIG_MAPS, &config("slo-controller-config")).await?;
    let data = wait_for(updates, "ConfigMap", |update| match update {
        KubeUpdate::SloConfig(data) => data,
        _ => None,
    });
    assert_eq!(data.await?.keys().collect::<Vec<_>>(), ["cpu-burst-config"]);
    Ok(())
}

/// Under 20 requests for all objects; what is here is a little more than a start.
fn c137_the_start_asks_little(sources: &KubeSources) {
    let requests = sources.stats().all_requests();
    kit::skip::note(format_args!("requests at the start: {requests}"));
    assert!(requests < 20, "{requests}");
}

async fn reports_go(scene: &Scene, sources: &KubeSources, updates: &mut KubeUpdates) -> Result<()> {
    let mut writer = sources.node_metric_writer();
    let status = |time: &str, cpu: &str| {
        json!({"updateTime": time, "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}},
               "podsMetric": [{"name": "a", "namespace": "b", "podUsage": {"resources": {}}}]})
    };
    assert_eq!(
        writer.report(&status("2026-01-01T00:00:00Z", "1")).await?,
        Published::Absent,
        "never created here"
    );
    let object = json!({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": NODE},
                        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}}});
    scene.create(METRICS, &object).await?;
    let interval = |update| {
        let KubeUpdate::NodeMetric(Some(metric)) = update else { return None };
        metric.spec.collect_policy.as_ref()?.report_interval_seconds
    };
    assert_eq!(wait_for(updates, "NodeMetric", interval).await?, 60);
    let first = status("2026-01-01T00:00:00Z", "1");
    assert_eq!(writer.report(&first).await?, Published::Written);
    assert_eq!(writer.report(&first).await?, Published::Unchanged);
    assert_eq!(scene.get(&format!("{METRICS}/{NODE}")).await?["status"], first);
    // The control plane changes the object in between: the report after it meets a conflict, and the budget.
    let patch = json!({"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 30}}});
    scene.patch(&format!("{METRICS}/{NODE}"), &patch).await?;
    assert_eq!(wait_for(updates, "changed NodeMetric", interval).await?, 30);
    let mut writer = sources.node_metric_writer();
    let mut last = status("2026-01-01T00:01:00Z", "2");
    assert_eq!(writer.report(&last).await?, Published::Written);
    let stored = scene.get(&format!("{METRICS}/{NODE}")).await?;
    assert_eq!((&stored["status"], &stored["spec"]), (&last, &patch["spec"]));
    last.as_object_mut().unwrap().remove("podsMetric");
    scene.patch(&format!("{METRICS}/{NODE}"), &json!({"metadata": {"labels": {"by": "others"}}})).await?;
    let conflict = writer.report(&last).await;
    assert!(conflict.is_err(), "a budget of two: the first report and the refused one, {conflict:?}");
    assert_eq!(sources.stats().errors(Kind::NodeMetric, Reason::Conflict), 1);
    assert_eq!(sources.node_metric_writer().report(&last).await?, Published::Written);
    assert_eq!(scene.get(&format!("{METRICS}/{NODE}")).await?["status"], last, "what is gone is taken away");
    Ok(())
}

async fn topology_goes(scene: &Scene, sources: &KubeSources, updates: &mut KubeUpdates) -> Result<()> {
    let mut writer = sources.topology_writer();
    let zone = |cpus: &str| {
        let cpu = json!({"name": "cpu", "capacity": cpus, "allocatable": cpus, "available": cpus});
        json!({"name": "node-0", "type": "Node", "resources": [cpu]})
    };
    let object = json!({"apiVersion": "topology.node.k8s.io/v1alpha1", "kind": "NodeResourceTopology",
                        "metadata": {"name": NODE}, "topologyPolicies": ["None"], "zones": [zone("2")]});
    assert_eq!(writer.create(&object).await?, Published::Written);
    assert_eq!(writer.create(&object).await?, Published::Exists);
    let path = format!("{TOPOLOGIES}/{NODE}");
    scene
        .patch(&path, &json!({"metadata": {"annotations": {"others": "stay"}}, "newer": {"field": 1}}))
        .await?;
    let seen = wait_for(updates, "topology with what others wrote", |update| {
        let KubeUpdate::Topology(Some(object)) = update else { return None };
        object.pointer("/metadata/annotations/others").is_some().then_some(object)
    });
    let seen = seen.await?;
    let patch = json!({"metadata": {"resourceVersion": seen["metadata"]["resourceVersion"],
                                    "annotations": {"ours": "{}"}}, "zones": [zone("4")]});
    assert_eq!(writer.patch(&patch).await?, Published::Written);
    assert!(writer.patch(&patch).await.is_err(), "of a version that is no longer the last");
    let stored = scene.get(&path).await?;
    assert_eq!(stored["metadata"]["annotations"], json!({"others": "stay", "ours": "{}"}));
    assert_eq!(stored["zones"], json!([zone("4")]));
    Ok(())
}

async fn events_go(scene: &Scene, sources: &KubeSources) -> Result<()> {
    let happening = |note: &str| Happening {
        subject: Subject {
            api_version: "slo.koordinator.sh/v1alpha1".to_owned(),
            kind: "NodeSLO".to_owned(),
            namespace: String::new(),
            name: NODE.to_owned(),
            uid: "0a-1b".to_owned(),
        },
        severity: Severity::Warning,
        component: "koordlet",
        reason: "FieldRefused",
        note: note.to_owned(),
    };
    for _ in 0..1000 {
        sources.events().record(happening("spec.cpuBurstStrategy.policy: wrong"));
    }
    sources.events().record(happening("another"));
    let path = "/api/v1/namespaces/default/events";
    let mut events = scene.get(path).await?;
    for _ in 0..600 {
        if events["items"].as_array().is_some_and(|items| items.len() >= 2) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        events = scene.get(path).await?;
    }
    let mut notes: Vec<_> =
        events["items"].as_array().unwrap().iter().map(|event| &event["message"]).collect();
    notes.sort_by_key(ToString::to_string);
    assert_eq!(notes, ["another", "spec.cpuBurstStrategy.policy: wrong"], "equal ones are one");
    assert_eq!(events["items"][0]["involvedObject"]["kind"], "NodeSLO");
    assert_eq!(sources.stats().requests(Kind::Event, Verb::Create), 2);
    Ok(())
}

async fn nothing_else_is_allowed(sources: &KubeSources) {
    for path in ["/api/v1/secrets", "/api/v1/namespaces/koordinator-system/configmaps", "/api/v1/pods"] {
        let request = hyper::Request::get(path).body(Vec::new()).unwrap();
        let error = sources.client().request::<Value>(request).await.unwrap_err();
        assert_eq!(Reason::of(&error), Reason::Forbidden, "{path}: {error}");
    }
}
