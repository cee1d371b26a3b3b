use std::collections::HashMap;

use serde_json::json;
use tokio::time::sleep;

use super::super::testing::Rig;
use super::*;
use crate::api::kubelet_config::KubeletConfig;
use crate::kube::testing::{Answer, Log, object, refusal, scripted};
use crate::kube::update::{Slot, channel};
use crate::state::nrt::merge_patch::apply;

const PACE: Duration = Duration::from_millis(2);

struct Scene {
    rig: Rig,
    log: Log,
    object: Slot<Option<Arc<Value>>>,
    _configz: watch::Sender<KnownConfig>,
    task: tokio::task::JoinHandle<()>,
}

fn scene(answers: Vec<Answer>, configz: KnownConfig) -> Scene {
    let rig = Rig::new(&[]);
    rig.around.metrics.add_reports(Arc::clone(&rig.stats));
    let (client, log) = scripted(answers);
    let writer = TopologyWriter::new(client, "n1", Arc::default());
    let (configz, kubelet) = watch::channel(configz);
    let (slots, updates) = channel();
    let publisher =
        TopologyPublisher::new(&rig.config, &rig.around, kubelet, Some(writer), Arc::clone(&rig.stats));
    let task = tokio::spawn(publisher.run(PACE, updates.topology()));
    Scene { rig, log, object: slots.topology, _configz: configz, task }
}

fn none_policy() -> Arc<KubeletConfig> {
    Arc::new(KubeletConfig { cpu_manager_policy: "none".to_owned(), ..KubeletConfig::default() })
}

impl Scene {
    /// Waits for so many requests, and long enough to see one too many.
    async fn asks(&self, requests: usize) {
        while self.log.lock().unwrap().len() < requests {
            sleep(PACE).await;
        }
        sleep(PACE * 20).await;
        assert_eq!(self.log.lock().unwrap().len(), requests);
    }

    fn body(&self, request: usize) -> Value {
        self.log.lock().unwrap()[request].body.clone()
    }
}

#[tokio::test]
async fn one_is_made_and_changed_only_when_something_of_ours_differs() {
    let answers = vec![Answer::Json(201, object("n1", 1)), Answer::Json(200, object("n1", 2))];
    let scene = scene(answers, Some(none_policy()));
    scene.rig.fill();
    // Whether there is one is not known.
    scene.asks(0).await;
    scene.object.set(None);
    // Once only, though the watch is slow.
    scene.asks(1).await;
    let mut there = scene.body(0);
    assert_eq!(there["zones"].as_array().unwrap().len(), 2);
    assert_eq!(there["metadata"]["ownerReferences"][0]["uid"], "u-node");

    there["metadata"]["resourceVersion"] = json!("1");
    there["metadata"]["annotations"]["of.others/key"] = json!("x");
    scene.object.set(Some(Arc::new(there.clone())));
    scene.asks(1).await;
    scene.rig.node(&json!({"node.koordinator.sh/reservation": r#"{"reservedCPUs": "0-1"}"#}));
    scene.asks(2).await;
    let patch = scene.body(1);
    assert!(patch["metadata"]["annotations"]["node.koordinator.sh/reservation"].is_string(), "{patch}");
    assert!(patch["metadata"]["annotations"].get("of.others/key").is_none() && patch.get("zones").is_none());
    apply(&mut there, &patch);
    scene.object.set(Some(Arc::new(there)));
    scene.asks(2).await;
    assert!(
        scene
            .rig
            .shows(r#"koordlet_reports_total{node="n1",object="noderesourcetopology",result="written"} 2"#)
    );
    scene.task.abort();
}

#[tokio::test]
async fn without_the_kubelets_configuration_nothing_is_replaced_by_less() {
    let scene = scene(vec![], None);
    scene.rig.fill();
    scene.object.set(None);
    scene.asks(0).await;
    scene.task.abort();
}

#[tokio::test]
async fn after_failures_it_tries_again_later_and_later() {
    let mut answers: Vec<Answer> = (0..5).map(|_| refusal(500)).collect();
    answers.push(Answer::Json(201, object("n1", 1)));
    let scene = scene(answers, Some(none_policy()));
    scene.rig.fill();
    scene.object.set(None);
    scene.asks(6).await;
    scene.task.abort();
}

#[test]
fn pauses_double_from_the_pace_up_to_a_minute() {
    let pace = Duration::from_secs(3);
    for (random, wanted) in [(0.0, [3, 6, 12, 24, 30, 30]), (1.0, [6, 12, 24, 48, 60, 60])] {
        let mut retry = after_failures(pace);
        let waits: Vec<u64> = wanted.iter().map(|_| retry.next(random).as_secs()).collect();
        assert_eq!(waits, wanted);
    }
    let slow = Duration::from_mins(5);
    assert_eq!(after_failures(slow).next(0.0), slow, "never sooner than the pace");
}

#[test]
fn c142_ten_thousand_agents_that_fail_together_do_not_come_back_together() {
    const AGENTS: usize = 10_000;
    let mut tries = vec![HashMap::<u64, usize>::new(); 5];
    for _ in 0..AGENTS {
        let (mut retry, mut at) = (after_failures(Duration::from_secs(3)), Duration::ZERO);
        for in_second in &mut tries {
            at += retry.next(random());
            *in_second.entry(at.as_secs()).or_default() += 1;
        }
    }
    let busiest: Vec<_> = tries.iter().map(|in_second| in_second.values().max().copied().unwrap()).collect();
    // At best a third of them in each of the first three seconds; then thinner from try to try.
    assert!(busiest[0] < AGENTS * 2 / 5, "{busiest:?}");
    assert!(busiest.is_sorted_by(|before, after| before > after), "{busiest:?}");
    assert!(busiest[4] < AGENTS / 20, "{busiest:?}");
}
