use super::*;
use crate::kube::testing::{Answer, Log, refusal, scripted};

fn metric(version: u32, status: &Value) -> Answer {
    let mut object = crate::kube::testing::object("n1", version);
    object["status"] = status.clone();
    Answer::Json(200, object)
}

fn writer(answers: Vec<Answer>) -> (NodeMetricWriter, Log) {
    let (client, log) = scripted(answers);
    (NodeMetricWriter::new(client, "n1", Arc::default()), log)
}

fn asked(log: &Log) -> Vec<String> {
    log.lock().unwrap().iter().map(|asked| asked.what.clone()).collect()
}

#[tokio::test]
async fn only_what_changed_is_sent_and_what_is_gone_is_taken_away() {
    let first = json!({"updateTime": "1", "nodeMetric": {"nodeUsage": {"resources": {"cpu": "1"}}}, "prodPeakMetric": {}});
    let second = json!({"updateTime": "2", "nodeMetric": {"nodeUsage": {"resources": {"cpu": "1"}}}});
    let (mut writer, log) = writer(vec![metric(1, &first), metric(2, &second)]);
    assert_eq!(writer.report(&second).await.unwrap(), Published::Written);
    assert_eq!(writer.report(&second).await.unwrap(), Published::Unchanged);
    assert_eq!(asked(&log), ["get", "patch_status"]);
    let patch =
        json!({"metadata": {"resourceVersion": "1"}, "status": {"updateTime": "2", "prodPeakMetric": null}});
    assert_eq!(log.lock().unwrap()[1].body, patch);
}

/// collection.md 9.2: a conflict is tried again, within the budget of two requests at once.
#[tokio::test]
async fn a_conflict_is_answered_with_the_objects_new_version_and_the_budget_ends_it() {
    let old = json!({"updateTime": "0"});
    let new = json!({"updateTime": "1"});
    let (mut writer, log) =
        writer(vec![metric(1, &old), refusal(409), metric(5, &old), refusal(409), metric(6, &old)]);
    assert!(matches!(writer.report(&new).await, Err(PublishError::Budget)));
    assert_eq!(asked(&log), ["get", "patch_status", "get", "patch_status", "get"]);
    assert_eq!(log.lock().unwrap()[3].body["metadata"]["resourceVersion"], "5");
}

#[tokio::test]
async fn without_the_object_nothing_is_written_and_the_next_report_looks_again() {
    let status = json!({"updateTime": "1"});
    let (mut writer, log) = writer(vec![refusal(404), metric(1, &Value::Null), metric(2, &status)]);
    assert_eq!(writer.report(&status).await.unwrap(), Published::Absent);
    assert_eq!(writer.report(&status).await.unwrap(), Published::Written);
    assert_eq!(asked(&log), ["get", "get", "patch_status"]);
    assert_eq!(log.lock().unwrap()[2].body["status"], status);
}

#[tokio::test]
async fn after_a_failure_the_object_is_read_again() {
    let (old, new) = (json!({"updateTime": "0"}), json!({"updateTime": "1"}));
    let (mut writer, log) = writer(vec![metric(1, &old), refusal(500), metric(1, &old), metric(2, &new)]);
    assert!(matches!(writer.report(&new).await, Err(PublishError::Server(_))));
    assert_eq!(writer.report(&new).await.unwrap(), Published::Written);
    assert_eq!(asked(&log), ["get", "patch_status", "get", "patch_status"]);
}

#[tokio::test]
async fn a_topology_is_created_and_patched_and_a_conflict_is_left_to_the_next_round() {
    let created = crate::kube::testing::object("n1", 1);
    let answers = vec![
        Answer::Json(201, created.clone()),
        refusal(409),
        refusal(429),
        Answer::Json(200, created.clone()),
        refusal(409),
        refusal(404),
    ];
    let (client, log) = scripted(answers);
    let mut writer = TopologyWriter::new(client, "n1", Arc::default());
    assert_eq!(writer.create(&created).await.unwrap(), Published::Written);
    assert_eq!(writer.create(&created).await.unwrap(), Published::Exists);
    let patch = json!({"metadata": {"resourceVersion": "1", "labels": {"a": null}}});
    assert_eq!(writer.patch(&patch).await.unwrap(), Published::Written, "after one refusal for want of time");
    assert!(matches!(writer.patch(&patch).await, Err(PublishError::Conflict)));
    assert_eq!(writer.patch(&patch).await.unwrap(), Published::Absent);
    assert_eq!(log.lock().unwrap()[2].body, patch);
}
