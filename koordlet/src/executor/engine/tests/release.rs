//! Letting go: withdrawn claims, restarts, restores.

use super::*;

#[test]
fn a_released_target_gets_its_baseline_once_and_only_if_we_changed_it() {
    let mut rig = Rig::new(&["be/p1", "be/p2"]);
    let released = PlanOf::synced()
        .release("be/p1", Resource::CfsQuota, quota(100_000), Owner::PodSpec)
        .release("be/p2", Resource::CfsQuota, quota(100_000), Owner::PodSpec);
    rig.apply(&released.clone().hold("be/p1", Resource::CfsQuota, quota(66_667)), seconds(1));
    assert_eq!(rig.apply(&released, seconds(2)), ["be/p1 cpu.cfs_quota_us 100000"]);
    assert_eq!(rig.foreign("be/p1", Resource::CfsQuota, "70000", seconds(3)), Vec::<String>::new());
    assert_eq!(rig.tick(seconds(120)), Vec::<String>::new());
    assert_eq!(rig.state("be/p1", Resource::CfsQuota).0, TargetState::Left);
    assert!(rig.engine.ledger().is_empty());
}

#[test]
fn a_target_that_left_the_plan_gets_its_original_and_a_left_one_stays() {
    let mut rig = Rig::new(&["be/p1", "be/p2"]);
    for pod in ["be/p1", "be/p2"] {
        rig.kernel.set(pod, |group| group.shares = 7);
    }
    let plan = PlanOf::synced().hold("be/p1", Resource::CpuShares, shares(512)).hold(
        "be/p2",
        Resource::CpuShares,
        shares(512),
    );
    rig.apply(&plan, seconds(1));
    let left =
        PlanOf::synced().decide("be/p2", Resource::CpuShares, Decision::Leave, Owner::KubeletExclusive);
    assert_eq!(rig.apply(&left, seconds(2)), ["be/p1 cpu.shares 7"]);
    assert_eq!(rig.kernel.group("be/p2").shares, 512);
    assert!(rig.engine.ledger().is_empty());
}

#[test]
fn the_unlimited_baseline_of_be_is_asserted_once_after_suppression_has_spoken() {
    let mut rig = Rig::new(&["be"]);
    rig.kernel.set("be", |group| group.quota = 50_000);
    let early = PlanOf::unsynced().release("be", Resource::CfsQuota, quota(-1), Owner::BeUnlimited);
    assert_eq!(rig.apply(&early, seconds(1)), Vec::<String>::new());
    let mut plan = early;
    plan.0.synced = OWNERS.into_iter().collect();
    assert_eq!(rig.apply(&plan, seconds(2)), ["be cpu.cfs_quota_us -1"]);
    rig.foreign("be", Resource::CfsQuota, "70000", seconds(3));
    let mut again = plan.clone();
    again.0.synced.remove(&Owner::KubeletExclusive);
    assert_eq!(rig.apply(&again, seconds(4)), Vec::<String>::new());
    assert_eq!(rig.tick(seconds(100)), Vec::<String>::new());
}

#[test]
fn after_a_restart_an_entry_is_judged_only_when_its_owner_has_spoken() {
    let mut rig = Rig::new(&["be"]);
    rig.apply(&PlanOf::synced().hold("be", Resource::CfsQuota, quota(50_000)), seconds(1));
    let mut rig = rig.restart();
    assert_eq!(rig.apply(&PlanOf::unsynced(), seconds(2)), Vec::<String>::new());
    let mut others = PlanOf::unsynced();
    others.0.synced.insert(Owner::BatchResource);
    assert_eq!(rig.apply(&others, seconds(3)), Vec::<String>::new());
    let baseline = others.release("be", Resource::CfsQuota, quota(-1), Owner::BeUnlimited);
    assert_eq!(rig.apply(&baseline, seconds(4)), Vec::<String>::new());
    assert_eq!(rig.state("be", Resource::CfsQuota).0, TargetState::Pending);
    assert_eq!(rig.kernel.group("be").quota, 50_000, "an upgrade lets go of nothing");
    assert_eq!(rig.apply(&PlanOf::synced(), seconds(5)), ["be cpu.cfs_quota_us -1"]);
}

#[test]
fn a_claim_that_comes_back_after_a_restart_keeps_the_first_original() {
    let mut rig = Rig::new(&["be"]);
    let plan = PlanOf::synced().hold("be", Resource::CfsQuota, quota(50_000));
    rig.apply(&plan, seconds(1));
    let mut rig = rig.restart();
    assert_eq!(rig.apply(&plan, seconds(2)), Vec::<String>::new());
    rig.apply(&plan.hold("be", Resource::CfsQuota, quota(60_000)), seconds(3));
    assert_eq!(rig.apply(&PlanOf::synced(), seconds(4)), ["be cpu.cfs_quota_us -1"]);
}

#[test]
fn entries_of_another_boot_or_another_directory_are_dropped_at_start() {
    let mut rig = Rig::new(&["be", "ls"]);
    let plan = PlanOf::synced().hold("be", Resource::CfsQuota, quota(50_000)).hold(
        "ls",
        Resource::CfsQuota,
        quota(50_000),
    );
    rig.apply(&plan, seconds(1));
    rig.kernel.rmdir("be");
    rig.kernel.take_events();
    rig.kernel.mkdir("be");
    rig.kernel.set("be", |group| group.quota = 77_000);
    let mut rig = rig.restart();
    assert_eq!(rig.engine.ledger().len(), 1);
    assert_eq!(rig.apply(&PlanOf::synced(), seconds(2)), ["ls cpu.cfs_quota_us -1"]);
    let mut rig = Rig::on(rig.kernel, rig.run_dir, "boot", SlowWrites::Inline);
    rig.apply(&plan, seconds(3));
    let rebooted = Rig::on(rig.kernel.clone(), Arc::clone(&rig.run_dir), "another boot", SlowWrites::Inline);
    assert!(rebooted.engine.ledger().is_empty());
}

#[test]
fn the_owner_in_the_ledger_is_the_last_one() {
    let mut rig = Rig::new(&["be/p1"]);
    let hold = |owner, raw| {
        let decision = Decision::Hold(quota(raw));
        PlanOf::synced().decide("be/p1", Resource::CfsQuota, decision, owner)
    };
    rig.apply(&hold(Owner::CpuNormalization, 50_000), seconds(1));
    rig.apply(&hold(Owner::BatchResource, 50_000), seconds(2));
    assert_eq!(rig.engine.ledger().iter().next().unwrap().owner, Owner::BatchResource);
    let rig = rig.restart();
    assert_eq!(rig.engine.ledger().iter().next().unwrap().owner, Owner::BatchResource);
}

#[test]
fn restore_all_puts_everything_back_in_order_and_enforces_nothing_more() {
    let mut rig = Rig::new(&["be", "be/p1", "be/p1/c"]);
    rig.kernel.set("be/p1", |group| group.quota = 90_000);
    let before = rig.kernel.groups();
    let plan = PlanOf::synced()
        .hold("be", Resource::CfsQuota, quota(50_000))
        .hold("be", Resource::Cpus, cpus("0-1"))
        .hold("be/p1", Resource::Cpus, cpus("0-1"))
        .hold("be/p1/c", Resource::Cpus, cpus("1"))
        .hold("be/p1/c", Resource::MemoryLimit, bytes(1 << 20));
    rig.apply(&plan, seconds(1));
    let report = rig.engine.restore_all(seconds(2));
    assert_eq!((report.failed.len(), report.gone.len(), report.restored.len()), (0, 0, 6));
    assert_eq!(rig.kernel.groups(), before);
    rig.kernel.take_writes();
    rig.apply(&plan.clone().hold("be", Resource::CfsQuota, quota(60_000)), seconds(3));
    rig.foreign("be", Resource::CfsQuota, "170000", seconds(4));
    assert_eq!(rig.tick(seconds(100)), Vec::<String>::new());
    assert_eq!(rig.state("be", Resource::Cpus).0, TargetState::Left);
    let quota_file =
        rig.engine.explain().into_iter().find(|shown| shown.path.ends_with("be/cpu.cfs_quota_us"));
    assert_eq!(quota_file.unwrap().value.as_deref(), Some("170000"), "what is there, not what was wished");
    rig.no_refusal();
}

#[test]
fn restore_all_prefers_the_plans_baseline_and_reports_what_failed_or_is_gone() {
    let mut rig = Rig::new(&["be/p1", "be/p2", "be/p3"]);
    let mut plan = PlanOf::synced();
    for pod in ["be/p1", "be/p2", "be/p3"] {
        plan = plan.hold(pod, Resource::CpuShares, shares(512));
    }
    let target = CgroupTarget::new(&dir("be/p1"), Resource::CpuShares);
    let desired = Arc::make_mut(plan.0.entries.get_mut(&target).unwrap());
    let baseline = Claim { wish: Wish::Hold(shares(99)), owner: Owner::PodSpec, ..desired.claims[0].clone() };
    desired.claims.push(baseline);
    rig.apply(&plan, seconds(1));
    rig.kernel.fail("be/p2", Resource::CpuShares, Some(Errno::EPERM));
    rig.kernel.rmdir("be/p3");
    let report = rig.engine.restore_all(seconds(2));
    assert_eq!(rig.kernel.group("be/p1").shares, 99);
    assert_eq!((report.restored.len(), report.gone.len()), (1, 1));
    assert!(report.failed[0].0.contains("be/p2") && report.failed[0].1.contains("EPERM"));
    assert_eq!(rig.engine.ledger().len(), 1, "what failed can be tried again");
}

#[test]
fn c009_a_restore_gives_quota_and_period_back_as_a_pair() {
    let mut rig = Rig::new(&["be", "be/p1"]);
    rig.kernel.set("be", |group| group.quota = 50_000);
    rig.kernel.set("be/p1", |group| (group.quota, group.period) = (25_000, 50_000));
    rig.apply(&PlanOf::synced().hold("be/p1", Resource::CfsQuota, quota(20_000)), seconds(1));
    assert_eq!(rig.kernel.group("be/p1").quota, 10_000);
    rig.foreign("be/p1", Resource::CfsPeriod, "100000", seconds(2));
    assert_eq!(rig.kernel.group("be/p1").quota, 20_000);
    let writes = rig.apply(&PlanOf::synced(), seconds(3));
    assert_eq!(writes, ["be/p1 cpu.cfs_quota_us 25000", "be/p1 cpu.cfs_period_us 50000"]);
    rig.no_refusal();
}

#[test]
fn c026_an_empty_original_comes_back_as_the_parents_list() {
    let mut rig = Rig::new(&["be", "be/p1"]);
    rig.kernel.set("be/p1", |group| group.cpus = "".parse().unwrap());
    rig.apply(&PlanOf::synced().hold("be/p1", Resource::Cpus, cpus("0-1")), seconds(1));
    rig.kernel.set("be/p1", |group| group.tasks = true);
    assert_eq!(rig.apply(&PlanOf::synced(), seconds(2)), ["be/p1 cpuset.cpus 0-7"]);
    rig.no_refusal();
}

/// The directories above went to a smaller pool and were let go there: what they have is what a container can get back.
#[test]
fn an_original_list_beyond_its_parents_present_one_comes_back_as_far_as_the_parent_has_it() {
    for has_left_the_plan in [false, true] {
        let mut rig = Rig::new(&["be", "be/p1", "be/p1/c"]);
        let narrow = |plan: PlanOf| {
            let plan =
                plan.hold("be", Resource::Cpus, cpus("0-1")).hold("be/p1", Resource::Cpus, cpus("0-1"));
            plan.hold("be/p1/c", Resource::Cpus, cpus("1"))
        };
        rig.apply(&narrow(PlanOf::synced()), seconds(1));
        let pool = |plan: PlanOf| {
            let plan = plan.release("be", Resource::Cpus, cpus("1-3"), Owner::BePool);
            plan.release("be/p1", Resource::Cpus, cpus("1-3"), Owner::BePool)
        };
        rig.apply(&pool(PlanOf::synced()).hold("be/p1/c", Resource::Cpus, cpus("1")), seconds(2));
        if has_left_the_plan {
            rig.apply(&PlanOf::synced(), seconds(3));
        } else {
            rig = rig.restart();
            let report = rig.engine.restore_all(seconds(3));
            assert_eq!((report.restored.len(), report.failed), (1, Vec::new()));
        }
        assert_eq!(rig.kernel.group("be/p1/c").cpus.to_string(), "1-3", "it was 0-7");
        assert!(rig.engine.ledger().is_empty());
        rig.no_refusal();
    }
}
