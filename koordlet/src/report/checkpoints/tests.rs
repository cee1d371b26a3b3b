use std::os::unix::fs::symlink;

use jiff::Timestamp;

use super::*;
use crate::state::predict::models::Models;
use crate::state::predict::settings::ModelSettings;
use crate::state::predict::training::{PodSample, TrainingRound};

fn at() -> Timestamp {
    "2024-01-01T00:00:00Z".parse().unwrap()
}

fn key(text: &str) -> ModelKey {
    ModelKey::from_text(text).unwrap()
}

/// Models of the node and of these pods.
fn models(uids: &[&str]) -> Models {
    let pod = |uid: &&str| PodSample {
        uid: (*uid).into(),
        class: crate::api::qos::PriorityClass::Prod,
        cores: 0.3,
        bytes: 1e8,
    };
    let mut models = Models::new(ModelSettings { checkpoints_per_step: 100, ..ModelSettings::default() });
    models.learn(&TrainingRound { pods: uids.iter().map(pod).collect(), node: Some((4.0, 1e10)) }, at());
    models
}

fn save_all(dir: &CheckpointDir, models: &Models) {
    for (key, checkpoint) in models.due(at()) {
        dir.save(&key, &checkpoint).unwrap();
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn what_is_saved_is_loaded_and_what_is_gone_goes() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("not/there/yet");
    let dir = CheckpointDir::new(&path);
    assert!(dir.load(|_| true).unwrap().checkpoints.is_empty(), "no directory, nothing to load");
    let old = models(&["u1", "gone"]);
    save_all(&dir, &old);
    assert_eq!(names(&path).len(), 9);

    let wanted = |key: &ModelKey| *key != ModelKey::Pod("gone".into());
    let loaded = dir.load(wanted).unwrap();
    assert_eq!((loaded.checkpoints.len(), loaded.removed), (8, 1));
    assert!(loaded.damaged.is_empty() && loaded.errors.is_empty(), "{loaded:?}");
    let mut new = Models::new(ModelSettings::default());
    for (key, checkpoint) in &loaded.checkpoints {
        new.load(key.clone(), checkpoint);
    }
    for text in ["u1", "__node__", "__node-sys__", "__node-__"] {
        assert_eq!(new.peak(&key(text)), old.peak(&key(text)), "{text}");
    }
    assert!(!names(&path).contains(&"gone".to_owned()));
    dir.remove(&key("u1")).unwrap();
    dir.remove(&key("u1")).unwrap();
    assert_eq!(names(&path).len(), 7);
}

/// A kill at any moment leaves the checkpoint before it, and beside it a part of the new one.
#[test]
fn what_a_killed_agent_left_is_cleared_away() {
    let above = tempfile::tempdir().unwrap();
    let dir = CheckpointDir::new(above.path());
    save_all(&dir, &models(&["u1"]));
    let whole = fs::read(above.path().join("u1")).unwrap();
    for length in [0, 1, 5, 7, whole.len() / 2, whole.len()] {
        put(&above.path().join("u1.tmp"), &whole[..length]);
        let loaded = dir.load(|_| true).unwrap();
        assert_eq!((loaded.checkpoints.len(), loaded.removed), (8, 1), "{length} bytes");
        assert!(loaded.damaged.is_empty());
    }
    // One that stays is written over.
    put(&above.path().join("u1.tmp"), &vec![b'x'; 100_000]);
    save_all(&dir, &models(&["u1"]));
    assert_eq!(fs::read(above.path().join("u1")).unwrap(), whole);
    assert_eq!(names(above.path()).len(), 8);
}

#[test]
fn damaged_files_are_set_aside_told_and_bounded() {
    let above = tempfile::tempdir().unwrap();
    let dir = CheckpointDir::new(above.path());
    save_all(&dir, &models(&["u1", "u2", "u3"]));
    let whole = fs::read(above.path().join("u1")).unwrap();
    put(&above.path().join("u1"), &whole[..whole.len() - 3]);
    put(&above.path().join("__node__"), b"");
    put(&above.path().join("u2"), &vec![b' '; 1 << 20]);
    // C104: a file that was renamed must not give one pod the history of another.
    fs::rename(above.path().join("u3"), above.path().join("u4")).unwrap();
    let loaded = dir.load(|_| true).unwrap();
    assert_eq!((loaded.checkpoints.len(), loaded.damaged.len()), (6, 4), "{loaded:?}");
    assert!(loaded.damaged.iter().any(|(path, why)| path.ends_with("u4.damaged") && why.contains("u3")));
    assert!(dir.load(|_| true).unwrap().damaged.is_empty(), "told once");

    for i in 0..40 {
        put(&above.path().join(format!("p{i}")), b"{");
    }
    let loaded = dir.load(|_| true).unwrap();
    assert_eq!((loaded.damaged.len(), loaded.removed), (12, 28));
    assert_eq!(names(above.path()).iter().filter(|name| name.ends_with(DAMAGED)).count(), MAX_DAMAGED);
}

#[test]
fn files_of_others_stay_as_they_are() {
    let above = tempfile::tempdir().unwrap();
    let path = |name: &str| above.path().join(name);
    put(&path("passwd"), b"root:x:0:0::/root:/bin/sh\n");
    put(&path("hosts.tmp"), b"127.0.0.1 localhost\n");
    put(&path("my.conf"), b"");
    put(&path("elsewhere"), br#"{"UID":"elsewhere"}"#);
    fs::create_dir(path("folder")).unwrap();
    symlink(path("elsewhere"), path("link")).unwrap();
    let before = names(above.path());
    let loaded = CheckpointDir::new(above.path()).load(|key| key.to_string().starts_with("link")).unwrap();
    assert!(loaded.checkpoints.is_empty(), "{loaded:?}");
    assert_eq!(
        (loaded.removed, names(above.path()).len()),
        (1, before.len() - 1),
        "only a checkpoint of what is gone"
    );
    assert_eq!(loaded.errors.len(), 2, "the folder and the link: {loaded:?}");
}

#[test]
fn a_directory_that_is_none_is_told_and_a_save_leaves_nothing_half_done() {
    let above = tempfile::tempdir().unwrap();
    let file = above.path().join("file");
    put(&file, b"");
    let dir = CheckpointDir::new(&file);
    let models = models(&["u1"]);
    let (first, checkpoint) = models.due(at()).remove(0);
    assert!(matches!(dir.load(|_| true), Err(CheckpointError::Dir { what: "list", .. })));
    let error = dir.save(&first, &checkpoint).unwrap_err();
    assert!(matches!(&error, CheckpointError::Dir { what: "make", .. }), "{error}");

    // A folder in the place of a checkpoint cannot be replaced by one.
    let dir = CheckpointDir::new(above.path());
    fs::create_dir_all(above.path().join(first.to_string()).join("inner")).unwrap();
    assert!(matches!(dir.save(&first, &checkpoint), Err(CheckpointError::File { what: "write", .. })));
    assert_eq!(names(above.path()).len(), 2, "no leftover");
}

/// A link that leads to itself, which not even root can list.
#[test]
fn a_directory_that_cannot_be_read_is_an_error_and_stays_one() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("loop");
    symlink("loop", &path).unwrap();
    let dir = CheckpointDir::new(&path);
    let (key, checkpoint) = models(&["u1"]).due(at()).remove(0);
    let error = dir.load(|_| true).unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    assert!(dir.save(&key, &checkpoint).is_err() && dir.remove(&key).is_err());
    assert_eq!(names(above.path()), ["loop"]);
}

#[test]
fn the_longest_key_has_a_checkpoint_and_one_that_is_no_name_has_none() {
    let above = tempfile::tempdir().unwrap();
    let dir = CheckpointDir::new(above.path().join("d"));
    let longest = "a".repeat(128);
    for uid in [longest.as_str(), "../../etc/passwd", "a.tmp", "", &"b".repeat(4096)] {
        let models = models(&[uid]);
        save_all(&dir, &models);
    }
    let held = names(&above.path().join("d"));
    assert_eq!(held.len(), 8, "{held:?}");
    assert_eq!(names(above.path()), ["d"]);
    put(&above.path().join("d").join(&longest), b"{");
    let loaded = dir.load(|_| true).unwrap();
    assert_eq!((loaded.damaged.len(), loaded.errors.len()), (1, 0), "{loaded:?}");
}
