use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::agent::joined::Present;
use crate::agent::policy_events::REASON;
use crate::kube::KubeUpdate;
use crate::kube::event_series::Severity;
use crate::state::slo::SuppressPolicy;

const NOW: Nanos = Nanos(0);

struct Rig {
    joined: Joined,
    intake: PolicyIntake,
}

fn rig() -> Rig {
    let present = Present { server: true, ..Present::default() };
    let mut joined = Joined::new(present, NOW);
    let node = json!({"metadata": {"name": "n1", "uid": "u-node", "labels": {"pool": "big"}}});
    joined.take_server(KubeUpdate::Node(Some(Arc::new(serde_json::from_value(node).unwrap()))));
    Rig { joined, intake: PolicyIntake::new(PolicyEvents::default()) }
}

impl Rig {
    fn slo(&mut self, thresholds: Option<Value>) -> Taken {
        let slo = thresholds.map(|thresholds| {
            let slo = json!({"metadata": {"name": "n1", "uid": "u-slo"},
                             "spec": {"resourceUsedThresholdWithBE": thresholds}});
            Arc::new(serde_json::from_value(slo).unwrap())
        });
        self.joined.take_server(KubeUpdate::NodeSlo(slo));
        self.intake.take(&self.joined, NOW)
    }

    fn config(&mut self, text: &str) -> Taken {
        let data = BTreeMap::from([("resource-threshold-config".to_owned(), text.to_owned())]);
        self.joined.take_server(KubeUpdate::SloConfig(Some(Arc::new(data))));
        self.intake.take(&self.joined, NOW)
    }

    fn threshold(&self) -> i64 {
        self.intake.slo().suppress.threshold.0
    }
}

#[test]
fn c24_a_nodeslo_that_is_deleted_leaves_the_config_map_and_then_defaults() {
    let mut rig = rig();
    assert!(rig.slo(Some(json!({"enable": true, "cpuSuppressThresholdPercent": 40}))).changed);
    let config = r#"{"clusterStrategy": {"enable": true, "cpuSuppressThresholdPercent": 50}, "nodeStrategies":
        [{"nodeSelector": {"matchLabels": {"pool": "big"}}, "cpuSuppressThresholdPercent": 75}]}"#;
    assert!(!rig.config(config).changed, "there is a NodeSLO");
    assert_eq!(rig.threshold(), 40);
    assert!(rig.slo(None).changed);
    assert_eq!((rig.threshold(), rig.intake.slo().suppress.enable), (75, true));
    rig.joined.take_server(KubeUpdate::SloConfig(None));
    assert!(rig.intake.take(&rig.joined, NOW).changed);
    assert_eq!((rig.threshold(), rig.intake.slo().suppress.enable), (65, false));
    assert!(rig.intake.slo().synced);
}

#[test]
fn before_anybody_has_answered_defaults_apply_and_nothing_is_final() {
    let mut rig = rig();
    assert_eq!(rig.intake.take(&rig.joined, NOW), Taken::default());
    assert!(!rig.intake.slo().synced);
    assert_eq!(rig.intake.slo().suppress.policy, SuppressPolicy::Cpuset);
}

#[test]
fn a_refused_field_is_an_event_of_its_nodeslo_until_it_is_put_right() {
    let mut rig = rig();
    rig.slo(Some(json!({"enable": true, "cpuSuppressThresholdPercent": 40})));
    let taken = rig.slo(Some(json!({"enable": true, "cpuSuppressThresholdPercent": 150})));
    assert_eq!((taken.refused, rig.threshold()), (1, 40));
    let [event] = rig.intake.events.current() else { panic!("one event") };
    assert_eq!((event.subject.kind.as_str(), event.subject.uid.as_str()), ("NodeSLO", "u-slo"));
    assert_eq!((event.severity, event.reason), (Severity::Warning, REASON));
    for part in ["NodeSLO n1", "cpuSuppressThresholdPercent", "150", "threshold 40 %"] {
        assert!(event.note.contains(part), "{part}: {}", event.note);
    }
    assert_eq!(rig.intake.take(&rig.joined, NOW), Taken::default(), "told once");
    assert_eq!(rig.intake.events.current().len(), 1);
    rig.slo(Some(json!({"enable": true, "cpuSuppressThresholdPercent": 45})));
    assert!(rig.intake.events.current().is_empty());
}

#[test]
fn what_is_wrong_with_the_config_map_is_an_event_of_the_node() {
    let mut rig = rig();
    rig.slo(None);
    assert_eq!(rig.config(r#"{"clusterStrategy": {"cpuSuppressThresholdPercent": 50}}"#).refused, 0);
    assert_eq!(rig.config("{").refused, 1);
    assert_eq!(rig.threshold(), 50, "what it said last stays");
    let [event] = rig.intake.events.current() else { panic!("one event") };
    assert_eq!((event.subject.kind.as_str(), event.subject.uid.as_str()), ("Node", "u-node"));
    assert!(event.note.contains("resource-threshold-config"), "{}", event.note);
    rig.config(r#"{"clusterStrategy": {"cpuSuppressThresholdPercent": 50}}"#);
    assert!(rig.intake.events.current().is_empty());
}
