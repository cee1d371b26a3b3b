//! The keeper on a folder of its own.

use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::claims::claim::Owner;
use crate::executor::keeper_testing::{TestBooks, held};

struct Rig {
    folder: tempfile::TempDir,
    keeper: OwnFiles,
    books: TestBooks,
    seconds: u64,
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keeper = OwnFiles::new(folder.path().join("terway/qos"));
        Self { folder, keeper, books: TestBooks::new(), seconds: 0 }
    }

    fn with<T>(&mut self, f: impl FnOnce(&mut OwnFiles, &mut Books<'_>) -> T) -> T {
        f(&mut self.keeper, &mut self.books.at(Nanos(self.seconds * 1_000_000_000)))
    }

    /// A plan with this content of the pods' file, or without any; its owner has had its say.
    fn apply(&mut self, content: Option<OwnContent>) {
        let owner = Owner::TerwayQos;
        let mut plan = Plan { synced: [owner].into(), ..Plan::default() };
        if let Some(content) = content {
            plan.own_files.insert(OwnFile::TerwayPods, held(OwnFile::TerwayPods, content, owner));
        }
        self.with(|keeper, books| keeper.apply(&Arc::new(plan), books));
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("terway/qos/pod.json")
    }

    fn text(&self) -> Option<String> {
        fs::read_to_string(self.path()).ok()
    }

    fn put(&self, text: &str) {
        fs::create_dir_all(self.path().parent().unwrap()).unwrap();
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).open(self.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
}

fn text(text: &str) -> OwnContent {
    OwnContent::Text(text.into())
}

#[test]
fn a_file_is_made_replaced_whole_and_removed() {
    let mut rig = Rig::new();
    rig.apply(Some(text("one")));
    assert_eq!(rig.text().as_deref(), Some("one"));
    let inode = fs::metadata(rig.path()).unwrap().ino();
    let written = rig.books.stats.written.load(std::sync::atomic::Ordering::Relaxed);
    rig.apply(Some(text("one")));
    rig.seconds = 61;
    rig.with(OwnFiles::tick);
    assert_eq!(fs::metadata(rig.path()).unwrap().ino(), inode, "equal: not touched");
    assert_eq!(rig.books.stats.written.load(std::sync::atomic::Ordering::Relaxed), written);
    rig.apply(Some(text("two")));
    assert_eq!(rig.text().as_deref(), Some("two"));
    assert_ne!(fs::metadata(rig.path()).unwrap().ino(), inode, "in place by a rename");
    rig.apply(None);
    assert_eq!((rig.text(), rig.books.ledger.len()), (None, 0));
    assert_eq!(fs::read_dir(rig.path().parent().unwrap()).unwrap().count(), 0, "nothing is left beside it");
}

#[test]
fn anothers_change_is_put_right_and_told() {
    let mut rig = Rig::new();
    rig.apply(Some(text("one")));
    rig.put("theirs");
    rig.seconds = 61;
    rig.with(OwnFiles::tick);
    assert_eq!(rig.text().as_deref(), Some("one"));
    assert_eq!(rig.books.notices.len(), 1);
}

#[test]
fn another_policy_removes_also_a_file_that_somebody_else_left() {
    let mut rig = Rig::new();
    rig.put("of an agent before us");
    rig.apply(Some(OwnContent::Absent));
    assert_eq!(rig.text(), None);
}

#[test]
fn a_file_that_nobody_claimed_is_not_looked_at() {
    let mut rig = Rig::new();
    rig.put("theirs");
    rig.apply(None);
    assert_eq!(rig.text().as_deref(), Some("theirs"));
}

/// An agent that was killed made it, and its policy is gone.
#[test]
fn a_file_from_before_goes_only_once_its_owner_has_had_its_say() {
    let mut rig = Rig::new();
    rig.apply(Some(text("one")));
    rig.keeper = OwnFiles::new(rig.folder.path().join("terway/qos"));
    rig.with(|keeper, books| keeper.apply(&Arc::new(Plan::default()), books));
    assert_eq!(rig.text().as_deref(), Some("one"), "nobody said that it is withdrawn");
    rig.apply(None);
    assert_eq!((rig.text(), rig.books.ledger.len()), (None, 0));
}

#[test]
fn a_restore_removes_what_we_made_and_a_dry_run_makes_nothing() {
    let mut rig = Rig::new();
    rig.books.dry_run = true;
    rig.apply(Some(text("one")));
    assert_eq!((rig.text(), rig.books.ledger.len()), (None, 0));
    let reports = rig.keeper.explain(&rig.books.ledger);
    assert_eq!(reports[0].state, TargetState::DryRun);
    let mut rig = Rig::new();
    rig.apply(Some(text("one")));
    let mut report = RestoreReport::default();
    rig.with(|keeper, books| keeper.restore(books, &mut report));
    assert_eq!((rig.text(), rig.books.ledger.len(), report.restored.len()), (None, 0, 1));
    rig.apply(Some(text("two")));
    assert_eq!(rig.text(), None, "nothing is enforced from then on");
}

#[test]
fn a_folder_that_cannot_be_made_is_told_once() {
    let mut rig = Rig::new();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).open(rig.folder.path().join("terway")).unwrap();
    rig.apply(Some(text("one")));
    rig.seconds = 2;
    rig.with(OwnFiles::tick);
    assert_eq!(rig.books.notices.len(), 1, "{:?}", rig.books.notices);
    assert_eq!(rig.keeper.explain(&rig.books.ledger)[0].state, TargetState::Refused);
    fs::remove_file(rig.folder.path().join("terway")).unwrap();
    rig.seconds = 10;
    rig.with(OwnFiles::tick);
    assert_eq!(rig.text().as_deref(), Some("one"));
}
