//! The keeper on a folder that stands for procfs.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::claims::claim::{Claim, Reason};
use crate::claims::plan::Subtree;
use crate::executor::keeper_testing::{TestBooks, held};
use crate::executor::observer::WriteObserver;

const OWNER: Owner = Owner::GroupIdentity;

struct Rig {
    folder: tempfile::TempDir,
    keeper: HostFiles,
    books: TestBooks,
    seconds: u64,
}

fn setting() -> HostFile {
    HostFile::sysctl("kernel/x")
}

impl Rig {
    fn new(text: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("sys/kernel")).unwrap();
        let roots = Roots { proc: folder.path().into(), ..Roots::host() };
        let keeper = HostFiles::new(roots);
        let rig = Self { folder, keeper, books: TestBooks::new(), seconds: 0 };
        if let Some(text) = text {
            rig.put(text);
        }
        rig
    }

    fn put(&self, text: &str) {
        let path = self.folder.path().join("sys/kernel/x");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.folder.path().join("sys/kernel/x")).unwrap()
    }

    fn with<T>(&mut self, f: impl FnOnce(&mut HostFiles, &mut Books<'_>) -> T) -> T {
        f(&mut self.keeper, &mut self.books.at(Nanos(self.seconds * 1_000_000_000)))
    }

    fn apply(&mut self, wished: Option<&str>, synced: bool) {
        let mut plan = Plan::default();
        if let Some(text) = wished {
            plan.host_files.insert(setting(), held(setting(), text.to_owned(), OWNER));
        }
        if synced {
            plan.synced.insert(OWNER);
        }
        let plan = Arc::new(plan);
        self.with(|keeper, books| keeper.apply(&plan, books));
    }

    fn tick(&mut self, seconds: u64) {
        self.seconds += seconds;
        self.with(Keeper::tick);
    }

    fn state(&self) -> TargetState {
        self.keeper.explain(&self.books.ledger)[0].state
    }
}

#[test]
fn a_setting_is_held_and_given_back_when_its_owner_has_had_its_say() {
    let mut rig = Rig::new(Some("0\n"));
    rig.apply(Some("1"), true);
    assert_eq!((rig.text().as_str(), rig.state()), ("1\n", TargetState::Held), "the folder keeps the rest");
    assert_eq!(rig.books.ledger.host_file(&setting()).unwrap().original, "0");
    rig.apply(None, false);
    assert_eq!(rig.text(), "1\n", "nobody said that it is withdrawn");
    rig.apply(None, true);
    assert_eq!((rig.text().as_str(), rig.books.ledger.len()), ("0\n", 0));
}

#[test]
fn what_is_there_already_is_not_written_and_not_ours() {
    let mut rig = Rig::new(Some("60\t4\n"));
    rig.apply(Some("60 4"), true);
    assert_eq!((rig.text().as_str(), rig.books.ledger.len()), ("60\t4\n", 0));
}

#[test]
fn foreign_values_are_put_right_within_a_minute_and_told() {
    let mut rig = Rig::new(Some("0\n"));
    rig.apply(Some("1"), true);
    rig.put("5\n");
    rig.tick(59);
    assert_eq!(rig.text(), "5\n");
    rig.tick(2);
    assert_eq!(rig.text(), "1\n");
    assert_eq!(rig.books.notices.len(), 1);
    rig.apply(None, true);
    assert_eq!(rig.text(), "0\n", "the first original, not the foreign value");
}

#[test]
fn a_missing_file_is_looked_for_again_and_a_dry_run_writes_nothing() {
    let mut rig = Rig::new(None);
    rig.apply(Some("1"), true);
    assert_eq!(rig.state(), TargetState::Pending);
    rig.put("0\n");
    rig.books.dry_run = true;
    rig.tick(60);
    assert_eq!((rig.text().as_str(), rig.state()), ("0\n", TargetState::DryRun));
    rig.books.dry_run = false;
    rig.tick(60);
    assert_eq!((rig.text().as_str(), rig.state()), ("1\n", TargetState::Held));
}

#[test]
fn a_refusal_is_told_once_and_tried_again_with_back_off() {
    let mut rig = Rig::new(Some("0\n"));
    rig.books.ledger = Ledger::unwritable().unwrap();
    rig.apply(Some("1"), true);
    rig.tick(1);
    rig.tick(2);
    assert_eq!((rig.text().as_str(), rig.state(), rig.books.notices.len()), ("0\n", TargetState::Refused, 1));
    rig.books.ledger = Ledger::in_memory();
    rig.tick(8);
    assert_eq!(rig.text(), "1\n");
}

#[test]
fn a_restore_without_a_plan_goes_by_the_ledger() {
    let mut rig = Rig::new(Some("1\n"));
    let entry = HostEntry { file: setting(), boot: "b".into(), owner: OWNER, original: "0".into() };
    rig.books.ledger.record_host_file(entry).unwrap();
    let mut report = RestoreReport::default();
    rig.with(|keeper, books| keeper.restore(books, &mut report));
    assert_eq!(report.restored, ["/proc/sys/kernel/x"]);
    assert_eq!((rig.text().as_str(), rig.books.ledger.len()), ("0\n", 0));
}

#[derive(Debug, Default)]
struct Order(std::sync::Mutex<Vec<String>>);

impl WriteObserver for Order {
    fn wrote(&self, record: WriteRecord) {
        let name = record.path.rsplit_once('/').unwrap().1.to_owned();
        self.0.lock().unwrap().push(format!("{name} {}", record.value));
    }
}

/// Group identity and core scheduling exclude each other, whichever way the policy goes.
#[test]
fn what_goes_off_is_written_before_what_goes_on() {
    let mut rig = Rig::new(None);
    let kernel = rig.folder.path().join("sys/kernel");
    for (name, text) in [("sched_a", "0"), ("sched_b", "1")] {
        let mut file = OpenOptions::new().write(true).create_new(true).open(kernel.join(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
    let order = Arc::new(Order::default());
    let observer: Arc<dyn WriteObserver> = order.clone();
    let mut apply = |wished: &[(&str, &str)]| {
        let mut plan = Plan { synced: [OWNER].into(), ..Plan::default() };
        for (name, text) in wished {
            let file = HostFile::sysctl(&format!("kernel/{name}"));
            let reason = Arc::new(Reason { text: "a test wants it".into(), inputs: BTreeMap::new() });
            let claim = Claim::hold(file.clone(), (*text).to_owned(), OWNER, reason);
            plan.host_files.insert(file, Desired::decided_by(claim, Vec::new(), Subtree::Class));
        }
        let plan = Arc::new(plan);
        rig.with(|keeper, books| {
            let Books { ledger, stats, notices, boot, dry_run, now, .. } = books;
            let (stats, boot, dry_run, now) = (*stats, *boot, *dry_run, *now);
            let observer = Some(&observer);
            keeper.apply(&plan, &mut Books { ledger, stats, notices, observer, boot, dry_run, now });
        });
        std::mem::take(&mut *order.0.lock().unwrap())
    };
    assert_eq!(apply(&[("sched_a", "1"), ("sched_b", "0")]), ["sched_b 0", "sched_a 1"]);
    assert_eq!(apply(&[("sched_a", "0"), ("sched_b", "1")]), ["sched_a 0", "sched_b 1"]);
    assert_eq!(apply(&[("sched_a", "1"), ("sched_b", "0")]), ["sched_b 0", "sched_a 1"]);
    assert_eq!(apply(&[]), ["sched_a 0", "sched_b 1"], "also on the way back");
}
