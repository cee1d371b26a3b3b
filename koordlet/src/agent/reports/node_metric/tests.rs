use serde_json::{Value, json};

use super::super::testing::Rig;
use super::*;
use crate::kube::testing::{Answer, object, scripted};
use crate::kube::update::channel;

fn reporter(rig: &Rig, writer: Option<NodeMetricWriter>) -> NodeMetricReporter {
    let models = SharedModels::new(&rig.config.predict);
    let reporter = NodeMetricReporter::new(&rig.config, &rig.around, models, writer, Arc::clone(&rig.stats));
    // As if it had been waiting for long.
    NodeMetricReporter { pace: ReportPace::starting(Nanos(0)), ..reporter }
}

fn metric(policy: &Value) -> Arc<NodeMetric> {
    let object = json!({"metadata": {"name": "n1"}, "spec": {"metricCollectPolicy": policy}});
    Arc::new(serde_json::from_value(object).unwrap())
}

async fn until(done: impl Fn() -> bool) {
    while !done() {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn reports_begin_with_the_object_and_end_with_it() {
    let rig = Rig::new(&[]);
    rig.around.metrics.add_reports(Arc::clone(&rig.stats));
    let answer = |version| Answer::Json(200, object("n1", version));
    let (client, log) = scripted(vec![answer(1), answer(2)]);
    let writer = NodeMetricWriter::new(client, "n1", Arc::default());
    let (slots, updates) = channel();
    let task = tokio::spawn(reporter(&rig, Some(writer)).run(updates.node_metric()));
    sleep(Duration::from_millis(50)).await;
    assert!(log.lock().unwrap().is_empty(), "there is no object");

    slots.node_metric.set(Some(metric(&json!({"nodeMemoryCollectPolicy": "usageWithPageCache"}))));
    until(|| rig.around.facts.page_cache_asked.is_on()).await;
    assert!(log.lock().unwrap().is_empty(), "neither pods nor use are known");
    slots.node_metric.set(Some(metric(&json!({}))));
    rig.fill();
    until(|| log.lock().unwrap().len() >= 2).await;
    let sent = log.lock().unwrap()[1].body["status"].clone();
    assert_eq!(sent["nodeMetric"]["nodeUsage"]["resources"]["cpu"], "2");
    assert_eq!(sent["podsMetric"][0]["podUsage"]["resources"]["cpu"], "500m");
    assert_eq!(sent["prodReclaimableMetric"], json!({"resource": {}}), "nothing was learnt yet");
    assert!(!rig.around.facts.page_cache_asked.is_on());

    slots.node_metric.set(None);
    until(|| rig.around.facts.report.get().is_some()).await;
    let asked = log.lock().unwrap().len();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(log.lock().unwrap().len(), asked, "the object is gone");
    assert!(rig.shows(r#"koordlet_reports_total{node="n1",object="nodemetric",result="written"} 1"#));
    task.abort();
}

#[tokio::test]
async fn a_dry_run_makes_reports_and_sends_none() {
    let rig = Rig::new(&["-dry-run"]);
    rig.fill();
    let (slots, updates) = channel();
    slots.node_metric.set(Some(metric(&json!({"reportIntervalSeconds": 30}))));
    let task = tokio::spawn(reporter(&rig, None).run(updates.node_metric()));
    until(|| rig.around.facts.report.get().is_some()).await;
    task.abort();
}

#[test]
fn what_the_object_asks_for_counts_at_once() {
    let rig = Rig::new(&[]);
    let mut reporter = reporter(&rig, None);
    let object = metric(&json!({"reportIntervalSeconds": 45, "nodeMemoryCollectPolicy": "all"}));
    reporter.take(Some(&object));
    assert_eq!(reporter.policy.as_ref().unwrap().interval, Duration::from_secs(45));
    reporter.take(Some(&NodeMetric::default()));
    assert_eq!(reporter.policy, Some(ReportPolicy::default()));
    reporter.take(None);
    assert_eq!(reporter.policy, None);
}
