//! Orders of writes that the kernel takes.

use super::*;

#[test]
fn c006_quotas_shrink_child_first_and_grow_parent_first() {
    let mut rig = Rig::new(&["be", "be/p1", "be/p1/c"]);
    let both = |raw| {
        PlanOf::synced().hold("be/p1", Resource::CfsQuota, quota(raw)).hold(
            "be/p1/c",
            Resource::CfsQuota,
            quota(raw),
        )
    };
    rig.apply(&both(400_000), seconds(1));
    let shrunk = rig.apply(&both(200_000), seconds(2));
    assert_eq!(shrunk, ["be/p1/c cpu.cfs_quota_us 200000", "be/p1 cpu.cfs_quota_us 200000"]);
    let grown = rig.apply(&both(400_000), seconds(3));
    assert_eq!(grown, ["be/p1 cpu.cfs_quota_us 400000", "be/p1/c cpu.cfs_quota_us 400000"]);
    rig.no_refusal();
}

#[test]
fn c007_an_unclaimed_burst_goes_down_with_its_quota_and_comes_back() {
    let mut rig = Rig::new(&["be"]);
    rig.kernel.set("be", |group| (group.quota, group.burst) = (200_000, 200_000));
    let writes = rig.apply(&PlanOf::synced().hold("be", Resource::CfsQuota, quota(150_000)), seconds(1));
    assert_eq!(writes, ["be cpu.cfs_burst_us 150000", "be cpu.cfs_quota_us 150000"]);
    let writes = rig.apply(&PlanOf::synced(), seconds(2));
    assert_eq!(writes, ["be cpu.cfs_quota_us 200000", "be cpu.cfs_burst_us 200000"]);
    assert!(rig.engine.ledger().is_empty());
    rig.no_refusal();
}

#[test]
fn c215_q16_a_burst_above_the_quota_is_cut_to_it_once_and_explained() {
    let mut rig = Rig::new(&["be/p1"]);
    rig.kernel.set("be/p1", |group| group.quota = 100_000);
    let plan = PlanOf::synced().hold("be/p1", Resource::CfsBurst, Value::Int(1_000_000));
    assert_eq!(rig.apply(&plan, seconds(1)), ["be/p1 cpu.cfs_burst_us 100000"]);
    let (state, detail) = rig.state("be/p1", Resource::CfsBurst);
    assert_eq!(state, TargetState::Held);
    assert!(detail.contains("100000"), "{detail}");
    for s in 2..300 {
        assert_eq!(rig.tick(seconds(s)), Vec::<String>::new());
    }
    rig.no_refusal();
}

#[test]
fn c017_a_burst_of_zero_is_written() {
    let mut rig = Rig::new(&["be/p1"]);
    rig.kernel.set("be/p1", |group| group.burst = 50_000);
    let plan = PlanOf::synced().hold("be/p1", Resource::CfsBurst, Value::Int(0));
    assert_eq!(rig.apply(&plan, seconds(1)), ["be/p1 cpu.cfs_burst_us 0"]);
}

#[test]
fn finite_quotas_beneath_a_class_directory_are_lifted_before_it_is_narrowed_and_come_back_after_it() {
    let mut rig = Rig::new(&["be", "be/p1", "be/p1/c", "be/p2"]);
    rig.kernel.set("be/p1", |group| group.quota = 100_000);
    rig.kernel.set("be/p1/c", |group| group.quota = 30_000);
    let pods = PlanOf::synced().hold("be/p2", Resource::CfsQuota, quota(80_000));
    rig.apply(&pods, seconds(1));
    let narrowed = pods.clone().hold("be", Resource::CfsQuota, quota(50_000));
    let writes = rig.apply(&narrowed, seconds(2));
    assert_eq!(
        writes,
        ["be/p1 cpu.cfs_quota_us -1", "be/p2 cpu.cfs_quota_us -1", "be cpu.cfs_quota_us 50000"]
    );
    let (state, detail) = rig.state("be/p2", Resource::CfsQuota);
    assert_eq!(state, TargetState::Held);
    assert!(detail.contains("unlimited while be is limited to 50000"), "{detail}");
    assert_eq!(
        rig.apply(&narrowed.clone().hold("be", Resource::CfsQuota, quota(40_000)), seconds(3)).len(),
        1
    );
    let released = pods.clone().release("be", Resource::CfsQuota, quota(-1), Owner::BeUnlimited);
    let writes = rig.apply(&released, seconds(4));
    assert_eq!(
        writes,
        ["be cpu.cfs_quota_us -1", "be/p1 cpu.cfs_quota_us 100000", "be/p2 cpu.cfs_quota_us 80000"]
    );
    rig.no_refusal();
    assert_eq!(rig.engine.ledger().len(), 1, "only p2's is held");
}

#[test]
fn an_unknown_quota_beneath_is_found_when_the_kernel_refuses() {
    let mut rig = Rig::new(&["be", "be/p1"]);
    rig.apply(&PlanOf::synced().hold("be", Resource::CfsQuota, quota(200_000)), seconds(1));
    rig.kernel.set("be/p1", |group| group.quota = 150_000);
    let writes = rig.apply(&PlanOf::synced().hold("be", Resource::CfsQuota, quota(50_000)), seconds(2));
    assert_eq!(writes, ["be/p1 cpu.cfs_quota_us -1", "be cpu.cfs_quota_us 50000"]);
    assert_eq!(rig.kernel.take_refusals().len(), 1);
    assert_eq!(rig.state("be", Resource::CfsQuota).0, TargetState::Held);
}

#[test]
fn c027_row_29_cpusets_move_through_the_union_and_end_narrow() {
    let mut rig = Rig::new(&["be", "be/p1", "be/p1/c"]);
    let all = |list: &str| {
        PlanOf::synced()
            .hold("be", Resource::Cpus, cpus(list))
            .hold("be/p1", Resource::Cpus, cpus(list))
            .hold("be/p1/c", Resource::Cpus, cpus(list))
    };
    rig.apply(&all("0-1"), seconds(1));
    let writes = rig.apply(&all("2-3"), seconds(2));
    let expected = ["be 0-3", "be/p1 0-3", "be/p1/c 2-3", "be/p1 2-3", "be 2-3"]
        .map(|w| w.replace(' ', " cpuset.cpus "));
    assert_eq!(writes, expected);
    rig.no_refusal();
}

#[test]
fn c026_an_empty_list_is_never_written_and_not_spoken_of() {
    let mut rig = Rig::new(&["be/p1"]);
    rig.kernel.set("be/p1", |group| group.tasks = true);
    let plan = PlanOf::synced().hold("be/p1", Resource::Cpus, cpus(""));
    for s in 1..100 {
        rig.apply(&plan, seconds(s));
        assert_eq!(rig.tick(seconds(s)), Vec::<String>::new());
    }
    assert_eq!(rig.state("be/p1", Resource::Cpus).0, TargetState::Left);
    assert!(rig.engine.take_notices().is_empty());
    rig.no_refusal();
}

#[test]
fn a_failed_widening_stops_the_narrowing_beneath_and_all_goes_on_together() {
    let mut rig = Rig::new(&["be", "be/p1"]);
    let all = |list: &str| {
        PlanOf::synced().hold("be", Resource::Cpus, cpus(list)).hold("be/p1", Resource::Cpus, cpus(list))
    };
    rig.apply(&all("0-1"), seconds(1));
    rig.kernel.fail("be", Resource::Cpus, Some(Errno::EBUSY));
    assert_eq!(rig.apply(&all("2-3"), seconds(2)), Vec::<String>::new());
    assert_eq!(rig.kernel.take_refusals(), ["be cpuset.cpus 0-3: EBUSY"]);
    assert!(rig.state("be/p1", Resource::Cpus).1.contains("waits for"));
    rig.kernel.fail("be", Resource::Cpus, None);
    assert_eq!(rig.tick(seconds(3)).len(), 3);
    assert_eq!(rig.kernel.group("be/p1").cpus, "2-3".parse().unwrap());
    rig.no_refusal();
}

#[test]
fn a_parent_that_was_held_up_by_a_child_is_tried_again_when_the_child_has_moved() {
    let mut rig = Rig::new(&["be", "be/p1"]);
    let be = PlanOf::synced().hold("be", Resource::Cpus, cpus("0-1"));
    rig.apply(&be, seconds(1));
    assert_eq!(rig.kernel.take_refusals(), ["be cpuset.cpus 0-1: EBUSY"], "p1 has all CPUs");
    let both = be.hold("be/p1", Resource::Cpus, cpus("0-1"));
    assert_eq!(rig.apply(&both, Nanos(SECOND + MS)), ["be/p1 cpuset.cpus 0-1", "be cpuset.cpus 0-1"]);
}

#[test]
fn c011_c012_idle_keeps_shares_waiting_and_brings_them_back() {
    let mut rig = Rig::new(&["be/p1", "be/p2"]);
    rig.kernel.set("be/p1", |group| group.shares = 2048);
    let idle = |on| {
        PlanOf::synced()
            .hold("be/p1", Resource::CpuIdle, Value::Int(on))
            .hold("be/p2", Resource::CpuIdle, Value::Int(on))
            .hold("be/p2", Resource::CpuShares, shares(512))
    };
    let writes = rig.apply(&idle(1), seconds(1));
    assert_eq!(writes, ["be/p1 cpu.idle 1", "be/p2 cpu.idle 1"]);
    assert!(rig.state("be/p2", Resource::CpuShares).1.contains("cpu.idle"));
    rig.apply(&idle(0), seconds(2));
    assert_eq!((rig.kernel.group("be/p1").shares, rig.kernel.group("be/p2").shares), (2048, 512));
    rig.no_refusal();
}

#[test]
fn memory_and_swap_follow_each_other_in_both_directions() {
    let mut rig = Rig::new(&["be/p1"]);
    let both = |b| {
        PlanOf::synced().hold("be/p1", Resource::MemoryLimit, bytes(b)).hold(
            "be/p1",
            Resource::MemswLimit,
            bytes(b),
        )
    };
    for size in [8 << 20, 2 << 20, 16 << 20] {
        assert_eq!(rig.apply(&both(size), seconds(1)).len(), 2);
    }
    rig.no_refusal();
}

#[test]
fn a_child_above_its_parent_is_tried_again_when_somebody_raises_the_parent() {
    let mut rig = Rig::new(&["be/p1/c"]);
    rig.kernel.set("be/p1", |group| group.quota = 100_000);
    let plan = PlanOf::synced().hold("be/p1", Resource::CpuShares, shares(512)).hold(
        "be/p1/c",
        Resource::CfsQuota,
        quota(200_000),
    );
    rig.apply(&plan, seconds(1));
    for s in 2..40 {
        rig.tick(seconds(s));
    }
    assert!(rig.state("be/p1/c", Resource::CfsQuota).1.contains("EINVAL"));
    rig.kernel.take_refusals();
    rig.foreign("be/p1", Resource::CfsQuota, "200000", seconds(41));
    assert_eq!(rig.kernel.group("be/p1/c").quota, 200_000, "at once, not when the back-off ends");
    rig.no_refusal();
}

#[test]
fn a_rounded_quota_is_written_out_when_its_parent_is_narrowed_beneath_it() {
    let mut rig = Rig::new(&["be", "be/p1", "be/p1/c", "be/p2"]);
    let container = PlanOf::synced().hold("be/p1/c", Resource::CfsQuota, quota(119_001));
    rig.kernel.set("be/p1/c", |group| group.quota = 120_000);
    assert_eq!(rig.apply(&container, seconds(1)), Vec::<String>::new(), "systemd's rounding is as good");
    let pod = container.clone().hold("be/p1", Resource::CfsQuota, quota(119_001));
    let writes = rig.apply(&pod, seconds(2));
    assert_eq!(writes, ["be/p1/c cpu.cfs_quota_us 119001", "be/p1 cpu.cfs_quota_us 119001"]);
    let wider = container.clone().hold("be/p1", Resource::CfsQuota, quota(150_000));
    assert_eq!(
        rig.apply(&wider, seconds(3)),
        ["be/p1 cpu.cfs_quota_us 150000"],
        "a widening asks for nothing"
    );
    rig.foreign("be/p1/c", Resource::CfsQuota, "120000", seconds(3));
    let class = wider.release("be/p1", Resource::CfsQuota, quota(-1), Owner::PodSpec).hold(
        "be",
        Resource::CfsQuota,
        quota(119_500),
    );
    let writes = rig.apply(&class, seconds(4));
    assert_eq!(
        writes,
        ["be/p1 cpu.cfs_quota_us -1", "be/p1/c cpu.cfs_quota_us 119001", "be cpu.cfs_quota_us 119500"]
    );
    rig.no_refusal();
    rig.apply(&PlanOf::synced(), seconds(5));
    assert_eq!(rig.kernel.group("be/p1/c").quota, 120_000, "what was there is there again");
}

#[test]
fn an_original_comes_back_to_the_letter_where_its_rounding_is_there() {
    let mut rig = Rig::new(&["be", "be/p1"]);
    rig.kernel.set("be/p1", |group| group.quota = 119_001);
    rig.apply(&PlanOf::synced().hold("be/p1", Resource::CfsQuota, quota(120_000)), seconds(1));
    assert_eq!(rig.apply(&PlanOf::synced(), seconds(2)), ["be/p1 cpu.cfs_quota_us 119001"]);
}

#[test]
fn shares_that_an_idle_group_happens_to_have_are_written_when_idle_is_cleared() {
    let mut rig = Rig::new(&["be/p1"]);
    let idle = PlanOf::synced().hold("be/p1", Resource::CpuIdle, Value::Int(1));
    rig.apply(&idle, seconds(1));
    let plan = PlanOf::synced().hold("be/p1", Resource::CpuShares, shares(3));
    assert_eq!(rig.apply(&plan, seconds(2)), ["be/p1 cpu.idle 0", "be/p1 cpu.shares 3"]);
    rig.no_refusal();
}
