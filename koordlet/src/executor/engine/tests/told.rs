//! What the observer hears: each write that the kernel took, and nothing else.

use std::sync::Mutex;

use super::*;
use crate::executor::observer::{WriteObserver, WriteRecord};

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<WriteRecord>>);

impl WriteObserver for Heard {
    fn wrote(&self, record: WriteRecord) {
        self.0.lock().unwrap().push(record);
    }
}

impl Heard {
    fn take(&self) -> Vec<WriteRecord> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// `dir file text` of each, as the emulated kernel writes them down.
    fn lines(&self) -> Vec<String> {
        let line = |record: WriteRecord| {
            let mut parts = record.path.rsplit('/');
            let file = parts.next().unwrap().to_owned();
            let dir = record.subject.dir().unwrap();
            format!("{dir} {file} {}", record.value)
        };
        self.take().into_iter().map(line).collect()
    }
}

fn rig(paths: &[&str]) -> (Rig, Arc<Heard>) {
    let mut rig = Rig::new(paths);
    let heard = Arc::new(Heard::default());
    rig.engine.observe(Some(Arc::clone(&heard) as Arc<dyn WriteObserver>));
    (rig, heard)
}

#[test]
fn a_write_is_told_with_owner_reason_and_what_was_there() {
    let (mut rig, heard) = rig(&["be"]);
    let plan = PlanOf::synced().hold("be", Resource::CfsQuota, quota(50_000));
    rig.apply(&plan, seconds(1));
    let record = heard.take().remove(0);
    assert_eq!((record.value.as_str(), record.was.as_str()), ("50000", "-1"));
    assert_eq!((record.owner, record.why.as_str()), (Some(Owner::CpuSuppress), "a test wants it"));
    assert!(record.path.starts_with('/') && record.path.ends_with("/cpu/be/cpu.cfs_quota_us"));
    // Nothing changes, nothing is told.
    rig.apply(&plan.clone(), seconds(2));
    rig.tick(seconds(100));
    assert_eq!(heard.take(), []);
    rig.foreign("be", Resource::CfsQuota, "-1", seconds(200));
    assert!(heard.take()[0].why.contains("put right"));
    rig.apply(&PlanOf::synced(), seconds(300));
    let back = heard.take().remove(0);
    assert_eq!((back.value.as_str(), back.owner), ("-1", Some(Owner::CpuSuppress)));
    assert!(back.why.contains("no longer claimed"), "{}", back.why);
}

#[test]
fn what_is_refused_gone_or_there_already_is_not_told() {
    let (mut rig, heard) = rig(&["be"]);
    rig.kernel.fail("be", Resource::CfsQuota, Some(Errno::EINVAL));
    let plan = PlanOf::synced()
        .hold("be", Resource::CfsQuota, quota(50_000))
        .hold("be", Resource::CpuShares, shares(1024))
        .hold("absent", Resource::CpuShares, shares(512));
    rig.apply(&plan, seconds(1));
    assert_eq!(heard.take(), []);
    rig.kernel.fail("be", Resource::CfsQuota, None);
    rig.tick(seconds(1000));
    assert_eq!(heard.lines(), ["be cpu.cfs_quota_us 50000"]);
}

#[test]
fn each_step_of_an_ordered_change_is_told_as_it_was_written() {
    let (mut rig, heard) = rig(&["be", "be/p1", "be/p1/c"]);
    let hold = |list| {
        PlanOf::synced()
            .hold("be", Resource::Cpus, cpus(list))
            .hold("be/p1", Resource::Cpus, cpus(list))
            .hold("be/p1/c", Resource::Cpus, cpus(list))
    };
    for list in ["0-1", "2-3"] {
        let written = rig.apply(&hold(list), seconds(1));
        assert!(!written.is_empty());
        assert_eq!(heard.lines(), written);
    }
}
