//! What others write into files that we hold.

use super::*;
use crate::executor::report::NoticeKind;

fn held(value: i64) -> (Rig, PlanOf) {
    let mut rig = Rig::new(&["be"]);
    let plan = PlanOf::synced().hold("be", Resource::CfsQuota, quota(value));
    rig.apply(&plan, seconds(1));
    (rig, plan)
}

#[test]
fn c001_a_quota_that_was_set_back_is_repaired_in_one_write_and_counted_once() {
    let (mut rig, plan) = held(320_000);
    let writes = rig.foreign("be", Resource::CfsQuota, "-1", seconds(5));
    assert_eq!(writes, ["be cpu.cfs_quota_us 320000"]);
    assert_eq!((rig.figure("foreign"), rig.figure("repaired")), (1, 1));
    assert_eq!(rig.apply(&plan, seconds(6)), Vec::<String>::new());
}

#[test]
fn c021_a_writer_once_a_minute_is_repaired_each_time_with_a_line_a_minute() {
    let (mut rig, _) = held(800_000);
    for minute in 1..=5 {
        let writes = rig.foreign("be", Resource::CfsQuota, "-1", seconds(60 * minute));
        assert_eq!(writes, ["be cpu.cfs_quota_us 800000"]);
    }
    assert_eq!(rig.figure("foreign"), 5);
    let notices = rig.engine.take_notices();
    assert_eq!(notices.len(), 5);
    assert!(notices.iter().all(|notice| notice.kind == NoticeKind::ForeignWrite));
}

#[test]
fn the_third_write_within_a_minute_is_repaired_after_ten_seconds_and_reported() {
    let (mut rig, _) = held(50_000);
    for s in [10, 11] {
        assert_eq!(rig.foreign("be", Resource::CfsQuota, "-1", seconds(s)).len(), 1);
    }
    assert_eq!(rig.foreign("be", Resource::CfsQuota, "-1", seconds(12)), Vec::<String>::new());
    assert_eq!(rig.state("be", Resource::CfsQuota).0, TargetState::Pending);
    rig.kernel.take_reads();
    for s in 13..20 {
        assert_eq!(
            rig.foreign("be", Resource::CfsQuota, &format!("{s}0000"), seconds(s)),
            Vec::<String>::new()
        );
    }
    assert_eq!(rig.kernel.take_reads(), 0, "a storm of writes costs nothing");
    assert_eq!(rig.tick(seconds(22)), ["be cpu.cfs_quota_us 50000"]);
    let kinds: Vec<_> = rig.engine.take_notices().into_iter().map(|notice| notice.kind).collect();
    assert_eq!(kinds, [NoticeKind::ForeignWrite, NoticeKind::Contended]);
    assert_eq!(rig.foreign("be", Resource::CfsQuota, "-1", seconds(100)).len(), 1, "a quiet minute later");
}

#[test]
fn the_echo_of_a_refused_write_does_not_try_it_again() {
    let mut rig = Rig::new(&["be"]);
    rig.kernel.fail("be", Resource::CfsQuota, Some(Errno::EINVAL));
    let plan = PlanOf::synced().hold("be", Resource::CfsQuota, quota(50_000));
    rig.apply(&plan, seconds(1));
    // Its own pace: 2 s, 4 s, 8 s.
    rig.tick(seconds(2));
    rig.tick(seconds(4));
    assert_eq!(rig.figure("refused"), 3);
    let write = |rig: &mut Rig, text: &str, now| {
        rig.kernel.fail("be", Resource::CfsQuota, None);
        assert!(rig.kernel.foreign("be", Resource::CfsQuota, text));
        rig.kernel.fail("be", Resource::CfsQuota, Some(Errno::EINVAL));
        rig.pump(now);
        rig.tick(now);
    };
    write(&mut rig, "-1", seconds(6));
    assert_eq!(rig.figure("refused"), 3, "the file is as we saw it");
    write(&mut rig, "70000", seconds(7));
    assert_eq!(rig.figure("refused"), 4, "another value may let ours in");
}

#[test]
fn a_period_that_somebody_changes_scales_the_quota_and_stays() {
    let (mut rig, _) = held(50_000);
    let writes = rig.foreign("be", Resource::CfsPeriod, "50000", seconds(5));
    assert_eq!(writes, ["be cpu.cfs_quota_us 25000"]);
    assert_eq!(rig.kernel.group("be").period, 50_000);
    assert_eq!(rig.tick(seconds(70)), Vec::<String>::new());
    rig.no_refusal();
}

#[test]
fn files_that_are_not_held_are_nobodys_business() {
    let mut rig = Rig::new(&["be"]);
    let plan = PlanOf::synced().hold("be", Resource::CfsQuota, quota(50_000)).decide(
        "be",
        Resource::CpuShares,
        Decision::Leave,
        Owner::KubeletExclusive,
    );
    rig.apply(&plan, seconds(1));
    assert_eq!(rig.foreign("be", Resource::CpuShares, "2", seconds(2)), Vec::<String>::new());
    assert_eq!(rig.foreign("be", Resource::CfsBurst, "1", seconds(2)), Vec::<String>::new());
    assert_eq!(rig.figure("foreign"), 0);
    assert_eq!(rig.state("be", Resource::CpuShares).0, TargetState::Left);
}

#[test]
fn without_watches_the_re_check_repairs_within_a_minute() {
    let mut rig = Rig::new(&["be", "be/p1", "be/p2"]);
    rig.kernel.limit_watches(0);
    let plan = PlanOf::synced()
        .hold("be", Resource::CfsQuota, quota(50_000))
        .hold("be/p1", Resource::CpuShares, shares(2))
        .hold("be/p2", Resource::CpuShares, shares(2));
    rig.apply(&plan, seconds(0));
    assert!(rig.figure("unwatched") > 0);
    let notices = rig.engine.take_notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].text.contains("fs.inotify.max_user_watches"));
    rig.foreign("be", Resource::CfsQuota, "-1", seconds(1));
    rig.foreign("be/p2", Resource::CpuShares, "99", seconds(1));
    let writes: BTreeSet<_> = (1..=12).flat_map(|slice| rig.tick(seconds(5 * slice))).collect();
    let expected = ["be cpu.cfs_quota_us 50000", "be/p2 cpu.shares 2"].map(str::to_owned);
    assert_eq!(writes, BTreeSet::from(expected));
}

#[test]
fn after_an_overflow_everything_is_looked_at() {
    let (mut rig, _) = held(50_000);
    rig.kernel.set("be", |group| group.quota = -1);
    rig.engine.file_event(&crate::executor::watch::FileEvent::Overflow, seconds(3));
    assert_eq!(rig.pump(seconds(3)), ["be cpu.cfs_quota_us 50000"]);
    rig.kernel.set("be", |group| group.quota = -1);
    rig.engine.cgroup_event(&CgroupEvent::Lost { count: 7 }, seconds(4));
    assert_eq!(rig.pump(seconds(4)), ["be cpu.cfs_quota_us 50000"]);
}

#[test]
fn the_re_check_reads_each_target_about_once_a_minute() {
    let paths: Vec<String> = (0..50).map(|n| format!("be/p{n}")).collect();
    let kernel = Kernel::new();
    kernel.mkdir("be");
    let mut plan = PlanOf::synced();
    for path in &paths {
        kernel.mkdir(path);
        plan = plan.hold(path, Resource::CpuShares, shares(2));
    }
    let mut rig = Rig::on(kernel, Arc::new(tempfile::tempdir().unwrap()), "b", SlowWrites::Inline);
    rig.apply(&plan, seconds(0));
    rig.kernel.take_reads();
    let mut wakes = 0;
    while let Some(next) = rig.engine.next_deadline().filter(|next| *next <= seconds(600)) {
        rig.tick(next);
        wakes += 1;
    }
    let reads = rig.kernel.take_reads();
    assert!((450..=650).contains(&reads), "{reads} reads of 50 targets in 10 minutes");
    assert!(wakes <= 121, "{wakes} wake-ups in 10 minutes");
}

#[test]
fn a_ledger_that_takes_nothing_is_said_once_and_nothing_new_is_written() {
    let mut rig = Rig::new(&["be", "be/p1", "be/p2"]);
    let working = std::mem::replace(rig.engine.ledger_mut(), Ledger::unwritable().unwrap());
    let plan = ["be", "be/p1", "be/p2"]
        .iter()
        .fold(PlanOf::synced(), |plan, path| plan.hold(path, Resource::CpuShares, shares(2)));
    assert_eq!(rig.apply(&plan, seconds(1)), Vec::<String>::new());
    assert_eq!(rig.figure("refused"), 3);
    let notices = rig.engine.take_notices();
    assert_eq!(notices.iter().map(|notice| notice.kind).collect::<Vec<_>>(), [NoticeKind::LedgerUnwritable]);
    *rig.engine.ledger_mut() = working;
    rig.engine.tick(seconds(3));
    assert_eq!(rig.figure("written"), 3, "all of them once there is room again");
}
