use proptest::prelude::*;

use super::*;
use crate::api::qos::PriorityClass;
use crate::state::predict::training::PodSample;

const MINUTE: i64 = 60;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_704_067_200 + seconds).unwrap()
}

fn pod(uid: &str, class: PriorityClass, cores: f64) -> PodSample {
    PodSample { uid: uid.into(), class, cores, bytes: cores * 1e9 }
}

fn round(pods: &[(&str, f64)], node: Option<f64>) -> TrainingRound {
    let pods = pods.iter().map(|(uid, cores)| pod(uid, PriorityClass::Prod, *cores)).collect();
    TrainingRound { pods, node: node.map(|cores| (cores, cores * 1e9)) }
}

fn models() -> Models {
    Models::new(ModelSettings::default())
}

fn cpu(models: &Models, key: &str) -> Option<i64> {
    models.peak(&ModelKey::from_text(key).unwrap()).map(|peak| peak.cpu.0)
}

#[test]
fn a_round_teaches_pods_classes_node_and_system() {
    let mut models = models();
    let mut learnt = round(&[("u1", 0.3)], Some(3.0));
    learnt.pods.push(pod("u2", PriorityClass::Batch, 0.7));
    models.learn(&learnt, at(0));
    // 0.3 and 0.7 of 3 cores leave 2; the class of none has no pod and learns 0.
    let peaks = [
        "u1",
        "u2",
        "__node-koord-prod__",
        "__node-koord-batch__",
        "__node-sys__",
        "__node-__",
        "__node-koord-mid__",
    ];
    assert_eq!(peaks.map(|key| cpu(&models, key).unwrap()), [314, 703, 314, 703, 2001, 25, 25]);
    assert_eq!(models.len(), 9);
}

#[test]
fn c20_without_the_nodes_use_nothing_is_learnt_of_node_and_system() {
    let mut models = models();
    models.learn(&round(&[("u1", 0.3)], None), at(0));
    assert_eq!((cpu(&models, "__node__"), cpu(&models, "__node-sys__")), (None, None));
    assert_eq!(cpu(&models, "u1"), Some(314));
    models.learn(&round(&[("u1", 0.3)], Some(2.3)), at(MINUTE));
    models.learn(&round(&[("u1", 0.3)], None), at(2 * MINUTE));
    let system = models.get(&ModelKey::System).unwrap();
    assert_eq!((cpu(&models, "__node-sys__"), system.updated), (Some(2001), at(MINUTE)));
}

#[test]
fn models_without_samples_go() {
    let mut models = models();
    models.learn(&round(&[("u1", 1.0), ("u2", 1.0)], Some(2.0)), at(0));
    models.learn(&round(&[("u2", 1.0)], Some(2.0)), at(30 * MINUTE));
    assert!(models.expire(at(30 * MINUTE)).is_empty(), "not before more than half an hour");
    assert_eq!(models.expire(at(30 * MINUTE + 1)), [ModelKey::Pod("u1".into())]);
    // A clock set back by a day: what lives is learnt of again, the rest goes.
    models.learn(&round(&[], Some(2.0)), at(-24 * 60 * MINUTE));
    assert_eq!(models.expire(at(-24 * 60 * MINUTE)), [ModelKey::Pod("u2".into())]);
}

#[test]
fn the_least_recently_kept_come_first_and_not_all_at_once() {
    let mut models = models();
    let uids: Vec<String> = (0..13).map(|i| format!("u{i:02}")).collect();
    let pods: Vec<(&str, f64)> = uids.iter().map(|uid| (uid.as_str(), 1.0)).collect();
    models.learn(&round(&pods, Some(20.0)), at(0));
    let mut kept = Vec::new();
    for (step, expected) in [(0, 12), (1, 8), (2, 0)] {
        let due = models.due(at(step * MINUTE));
        assert_eq!(due.len(), expected);
        for (key, checkpoint) in due {
            assert_eq!(
                (checkpoint.uid.as_str(), checkpoint.last_updated),
                (key.to_string().as_str(), Some(at(step * MINUTE)))
            );
            models.saved(&key, at(step * MINUTE));
            kept.push(key);
        }
    }
    assert_eq!(kept.iter().collect::<std::collections::BTreeSet<_>>().len(), models.len());
    let due = models.due(at(10 * MINUTE));
    assert_eq!(due.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), kept[..12]);
    assert_eq!(models.due(at(-60 * MINUTE)).len(), 12, "a clock set back keeps nothing from being kept");
}

#[test]
fn c104_a_new_uid_has_no_history_of_an_old_one() {
    let mut old = models();
    old.learn(&round(&[("old-1", 4.0)], Some(4.0)), at(0));
    let kept = old.due(at(0));
    let mut new = models();
    for (key, checkpoint) in &kept {
        new.load(key.clone(), checkpoint);
    }
    // The same pod by name, made anew.
    new.learn(&round(&[("new-1", 0.3)], Some(4.0)), at(MINUTE));
    assert_eq!((cpu(&new, "new-1"), cpu(&new, "old-1")), (Some(314), Some(4217)));
    assert_eq!(new.expire(at(31 * MINUTE)), [ModelKey::Pod("old-1".into())]);
}

#[test]
fn what_was_learnt_since_the_start_is_not_overwritten_by_a_checkpoint() {
    let mut models = models();
    models.learn(&round(&[("u", 0.3)], None), at(0));
    let mut other = Models::new(ModelSettings::default());
    other.learn(&round(&[("u", 4.0)], None), at(0));
    let (key, checkpoint) =
        other.due(at(0)).into_iter().find(|(key, _)| matches!(key, ModelKey::Pod(_))).unwrap();
    models.load(key, &checkpoint);
    assert_eq!(cpu(&models, "u"), Some(314));
}

proptest! {
    #[test]
    fn there_are_never_more_models_than_things_of_the_last_half_hour(
        rounds in prop::collection::vec(prop::collection::vec(0..40_u32, 0..10), 1..60),
    ) {
        let mut models = models();
        for (minute, uids) in (0..).zip(&rounds) {
            let names: Vec<String> = uids.iter().map(|uid| format!("u{uid}")).collect();
            let pods: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
            models.learn(&round(&pods, Some(9.0)), at(minute * MINUTE));
            models.expire(at(minute * MINUTE));
            let window = usize::try_from(minute + 1).unwrap().saturating_sub(31);
            let alive: std::collections::BTreeSet<_> = rounds[window..=usize::try_from(minute).unwrap()].iter().flatten().collect();
            prop_assert_eq!(models.len(), alive.len() + 7);
        }
    }
}
