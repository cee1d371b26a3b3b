//! Tests of the ledger: what a reopened one says, and what damage costs.

use super::*;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::claims::own_file::OwnFile;

fn entry(dir: &str, value: &str) -> Entry {
    Entry {
        target: CgroupTarget::new(&CgroupDir::new(dir).unwrap(), Resource::CfsQuota),
        id: 42,
        boot: "b".into(),
        owner: Owner::CpuSuppress,
        original: Original { value: value.into(), period: Some(50_000) },
        cause: None,
    }
}

#[test]
fn a_reopened_ledger_has_the_last_word_on_each_target() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, damage) = Ledger::open(dir.path()).unwrap();
    assert_eq!(damage, None);
    ledger.record(entry("a", "1")).unwrap();
    ledger.record(entry("b", "2")).unwrap();
    ledger.record(Entry { owner: Owner::BatchResource, ..entry("a", "1") }).unwrap();
    ledger.forget(&entry("b", "").target).unwrap();
    drop(ledger);
    let (ledger, damage) = Ledger::open(dir.path()).unwrap();
    assert_eq!(damage, None);
    assert_eq!(ledger.len(), 1);
    let expected = Entry { owner: Owner::BatchResource, ..entry("a", "1") };
    assert_eq!(ledger.get(&expected.target), Some(&expected));
}

#[test]
fn c207_a_damaged_ledger_is_set_aside_and_the_rest_counts() {
    let good = line::record(&entry("a", "1"));
    let torn = &line::record(&entry("b", "2"))[..20];
    for (bytes, survivors) in [
        (b"\xff\xfe\0garbage".to_vec(), 0),
        (b"{}\n[]\nnull\n".to_vec(), 0),
        (format!("{good}{torn}").into_bytes(), 1),
        (format!("what\n{good}").into_bytes(), 1),
        (vec![0; 4096], 0),
    ] {
        let dir = tempfile::tempdir().unwrap();
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(dir.path().join(FILE))
            .unwrap()
            .write_all(&bytes)
            .unwrap();
        let (ledger, damage) = Ledger::open(dir.path()).unwrap();
        assert_eq!(ledger.len(), survivors);
        let kept = damage.unwrap().kept_as.unwrap();
        assert!(!fs::read(kept).unwrap().is_empty());
        let (again, damage) = Ledger::open(dir.path()).unwrap();
        assert_eq!((again.len(), damage), (survivors, None));
    }
}

#[test]
fn dead_lines_are_dropped_and_a_half_written_new_file_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, _) = Ledger::open(dir.path()).unwrap();
    for round in 0..600 {
        ledger.record(entry("a", &round.to_string())).unwrap();
    }
    let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
    assert!(text.lines().count() <= DEAD_LINES + 2);
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(dir.path().join("ledger.new"))
        .unwrap()
        .write_all(b"half a li")
        .unwrap();
    let (ledger, damage) = Ledger::open(dir.path()).unwrap();
    assert_eq!(damage, None);
    assert_eq!(ledger.get(&entry("a", "").target).unwrap().original.value, "599");
}

#[test]
fn a_ledger_that_was_removed_comes_back_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, _) = Ledger::open(dir.path()).unwrap();
    ledger.record(entry("a", "1")).unwrap();
    assert!(ledger.is_in_place());
    fs::remove_file(dir.path().join(FILE)).unwrap();
    assert!(!ledger.is_in_place());
    ledger.put_in_place().unwrap();
    ledger.record(entry("b", "2")).unwrap();
    assert!(ledger.is_in_place());
    assert_eq!(Ledger::open(dir.path()).unwrap().0.len(), 2);
}

#[test]
fn an_empty_or_missing_ledger_is_a_fresh_one() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Ledger::open(dir.path()).unwrap().0.is_empty());
    assert!(Ledger::open(dir.path()).unwrap().0.is_empty());
    assert!(Ledger::open(&dir.path().join("no/such")).is_err());
}

#[test]
fn things_that_we_made_are_known_again_and_files_outlive_a_boot() {
    let dir = tempfile::tempdir().unwrap();
    let made = [Made::Qdisc("eth0".into()), Made::PacketTable, Made::File(OwnFile::TerwayPods)];
    let (mut ledger, _) = Ledger::open(dir.path()).unwrap();
    for made in made.clone() {
        let was = "noqueue".to_owned();
        ledger.record_made(MadeEntry { made, boot: "b".into(), owner: Owner::TcNetworkQos, was }).unwrap();
    }
    ledger.forget_made(&Made::PacketTable).unwrap();
    drop(ledger);
    let (mut ledger, damage) = Ledger::open(dir.path()).unwrap();
    assert_eq!((damage, ledger.len()), (None, 2));
    assert_eq!(ledger.made(&made[0]).unwrap().was, "noqueue");
    ledger.retain("another boot", |_| true).unwrap();
    assert_eq!(ledger.all_made().map(|entry| &entry.made).collect::<Vec<_>>(), [&made[2]]);
    assert_eq!(Ledger::open(dir.path()).unwrap().0.len(), 1);
}
