use std::fs;
use std::path::Path;
use std::time::Instant;

use super::*;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::claims::claim::Owner;
use crate::claims::target::CgroupTarget;
use crate::executor::observer::WriteSubject;

fn settings(dir: &Path) -> AuditSettings {
    AuditSettings {
        enabled: true,
        http: false,
        dir: dir.to_owned(),
        verbose: 3,
        max_disk_mib: 16,
        max_readers: 4,
        max_events: 2048,
    }
}

fn start(dir: &Path) -> AuditWriter {
    AuditWriter::start(&settings(dir), watch::channel(Arc::default()).1).unwrap()
}

fn event(n: usize) -> Event {
    Event::of_node("Test", n.to_string())
}

fn messages(dir: &Path) -> Vec<String> {
    let text = fs::read_to_string(dir.join(file_name::CURRENT)).unwrap_or_default();
    let of = |line: &str| serde_json::from_str::<Event>(line).unwrap().message.into_owned();
    text.lines().map(of).collect()
}

fn figure(writer: &AuditWriter, name: &str) -> u64 {
    writer.log().stats().figures().into_iter().find(|(of, _)| *of == name).unwrap().1
}

fn eventually(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_mins(1), "it never comes");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_event_is_written_though_no_other_one_comes_and_the_rest_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let writer = start(dir.path());
    writer.log().record(Level::WRITE, event(0));
    writer.log().record(Level::TASK, event(99));
    eventually(|| messages(dir.path()) == ["0"]);
    writer.log().record(Level::WRITE, event(1));
    drop(writer);
    assert_eq!(messages(dir.path()), ["0", "1"]);
}

#[test]
fn a_write_of_the_executor_becomes_lines_and_a_flush_waits_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let writer = start(dir.path());
    let besteffort = CgroupDir::new("kubepods/besteffort").unwrap();
    writer.log().wrote(WriteRecord {
        subject: WriteSubject::Cgroup(CgroupTarget::new(&besteffort, Resource::CfsQuota)),
        path: "/sys/fs/cgroup/cpu/kubepods/besteffort/cpu.cfs_quota_us".into(),
        value: "50000".into(),
        was: "-1".into(),
        owner: Some(Owner::CpuSuppress),
        why: "w".into(),
    });
    assert!(writer.log().flush(Duration::from_mins(1)));
    let update = "update /sys/fs/cgroup/cpu/kubepods/besteffort/cpu.cfs_quota_us to 50000";
    assert_eq!(messages(dir.path()), ["update BE group to cfs_quota: 50000", update]);
    assert_eq!((figure(&writer, "events"), figure(&writer, "written")), (2, 2));
}

#[test]
fn trouble_with_the_directory_is_survived_and_what_waits_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("log");
    let other = tempfile::NamedTempFile::new_in(dir.path()).unwrap();
    fs::rename(other.path(), &place).unwrap();
    let writer = start(&place);
    for n in 0..3 * queue::MAX_WAITING {
        writer.log().record(Level::WRITE, event(n));
        if n == 0 {
            assert!(writer.log().flush(Duration::from_mins(1)), "the attempt was made");
        }
    }
    assert!(figure(&writer, "failed_writes") > 0 && figure(&writer, "dropped") > 0);
    assert!(figure(&writer, "events") <= 1 + queue::MAX_WAITING as u64);
    fs::remove_file(&place).unwrap();
    eventually(|| {
        writer.log().flush(Duration::from_secs(10));
        messages(&place).iter().any(|message| message.contains("events were lost"))
    });
    let kept = messages(&place);
    assert_eq!(kept[..3], ["0", "1", "2"], "the oldest ones are kept");
    let told: u64 =
        kept.iter().filter_map(|m| m.split(" events were lost").next()?.parse().ok()).max().unwrap();
    assert!(told >= figure(&writer, "dropped"));
    drop(writer);
}

#[test]
fn a_log_that_cannot_be_written_at_all_ends_all_the_same() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = start(file.path());
    writer.log().record(Level::WRITE, event(0));
    let stats = writer.log().stats();
    drop(writer);
    assert!(stats.figures().contains(&("dropped", 1)));
}
