use std::fs;

use tokio::time::sleep;

use super::super::testing::Rig;
use super::*;
use crate::state::predict::checkpoint::Checkpoint;

fn learner(rig: &Rig) -> Learner {
    let models = SharedModels::new(&rig.config.predict);
    Learner::new(&rig.config, &rig.around, models, Arc::clone(&rig.stats))
}

fn names(dir: &tempfile::TempDir) -> Vec<String> {
    let names = fs::read_dir(dir.path()).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Lets the task and the threads that it uses go on until `done`.
async fn until(done: impl Fn() -> bool) {
    while !done() {
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn it_learns_once_all_pods_are_known_and_keeps_what_it_learnt() {
    let dir = tempfile::tempdir().unwrap();
    let flag = format!("-prediction-checkpoint-filepath={}", dir.path().display());
    let rig = Rig::new(&[&flag]);
    let gone = CheckpointDir::new(dir.path());
    let key = ModelKey::Pod("gone".into());
    gone.save(&key, &Checkpoint { uid: "gone".into(), ..Checkpoint::default() }).unwrap();
    let learner = learner(&rig);
    let models = learner.round.models.clone();
    let task = tokio::spawn(learner.run());
    tokio::task::yield_now().await;
    assert_eq!(names(&dir), ["gone"], "perhaps its pod is not known yet");
    rig.fill();
    until(|| names(&dir).len() == 8).await;
    task.abort();
    assert!(!names(&dir).contains(&"gone".to_owned()) && names(&dir).contains(&"u1".to_owned()));
    let peak = models.lock().peak(&ModelKey::Pod("u1".into())).unwrap();
    assert!((500..550).contains(&peak.cpu.0), "{peak:?}");

    let learner = self::learner(&rig);
    let models = learner.round.models.clone();
    let mut round = learner.round;
    round.load(&rig.around.readers.pods.borrow());
    assert_eq!(models.lock().peak(&ModelKey::Pod("u1".into())).unwrap().cpu, peak.cpu, "after a restart");
}

#[tokio::test]
async fn a_dry_run_learns_and_leaves_all_files_alone() {
    let dir = tempfile::tempdir().unwrap();
    let flag = format!("-prediction-checkpoint-filepath={}", dir.path().display());
    let rig = Rig::new(&[&flag, "-dry-run"]);
    let key = ModelKey::Pod("gone".into());
    let saved = Checkpoint { uid: "gone".into(), ..Checkpoint::default() };
    CheckpointDir::new(dir.path()).save(&key, &saved).unwrap();
    rig.fill();
    let learner = learner(&rig);
    let (models, mut round) = (learner.round.models.clone(), learner.round);
    let pods = rig.around.readers.pods.borrow().clone();
    round.load(&pods);
    round.learn(&pods);
    round.tidy();
    assert!(models.lock().peak(&ModelKey::Node).is_some());
    assert_eq!(names(&dir), ["gone"]);
}

#[test]
fn trouble_with_the_files_is_told_once_and_stops_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let flag = format!("-prediction-checkpoint-filepath={}", file.path().display());
    let rig = Rig::new(&[&flag]);
    rig.fill();
    rig.around.metrics.add_reports(Arc::clone(&rig.stats));
    let mut round = learner(&rig).round;
    let pods = rig.around.readers.pods.borrow().clone();
    round.load(&pods);
    round.learn(&pods);
    round.tidy();
    assert!(round.told.is_some());
    assert!(rig.shows(r#"koordlet_prediction_checkpoints_total{node="n1",result="saved"} 0"#));
    assert!(rig.shows(r#"koordlet_prediction_models{node="n1"} 8"#));
}
