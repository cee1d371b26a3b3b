//! Directories that are being made, and made again.

use super::*;

const RUNTIME_FILES: [Resource; 2] = [Resource::CpuShares, Resource::CfsQuota];

fn plan() -> PlanOf {
    PlanOf::synced()
        .hold("be/p1", Resource::CpuShares, shares(512))
        .hold("be/p1", Resource::CfsQuota, quota(50_000))
        .hold("be/p1", Resource::CpuIdle, Value::Int(0))
        .hold("be/p1", Resource::CfsBurst, Value::Int(10_000))
}

#[test]
fn at_mkdir_only_what_runtimes_never_set_is_written() {
    let mut rig = Rig::new(&["be"]);
    rig.apply(&plan(), seconds(1));
    let writes = rig.born("be/p1", Controller::Cpu, seconds(2));
    assert_eq!(writes, ["be/p1 cpu.cfs_burst_us 10000"]);
    assert_eq!(rig.engine.next_deadline(), Some(Nanos(2 * SECOND + 10 * MS)));
    let writes = rig.tick(Nanos(2 * SECOND + 10 * MS));
    assert_eq!(writes, ["be/p1 cpu.shares 512", "be/p1 cpu.cfs_quota_us 50000"]);
    for resource in RUNTIME_FILES {
        assert_eq!(rig.state("be/p1", resource).0, TargetState::Held);
    }
}

#[test]
fn c202_what_the_runtime_writes_is_put_right_when_it_is_seen() {
    let mut rig = Rig::new(&["be"]);
    rig.apply(&plan(), seconds(1));
    rig.born("be/p1", Controller::Cpu, seconds(2));
    let at = |ms| Nanos(2 * SECOND + ms * MS);
    assert_eq!(rig.foreign("be/p1", Resource::CpuShares, "2", at(3)), ["be/p1 cpu.shares 512"]);
    assert_eq!(rig.foreign("be/p1", Resource::CfsPeriod, "100000", at(4)), Vec::<String>::new());
    assert_eq!(rig.foreign("be/p1", Resource::CfsQuota, "200000", at(5)), ["be/p1 cpu.cfs_quota_us 50000"]);
    assert_eq!(rig.foreign("be/p1", Resource::CfsQuota, "200000", at(900)), ["be/p1 cpu.cfs_quota_us 50000"]);
    assert_eq!((rig.figure("foreign"), rig.figure("birth")), (0, 1));
    assert!(rig.engine.take_notices().is_empty());
    rig.foreign("be/p1", Resource::CfsQuota, "200000", at(2100));
    assert_eq!(rig.figure("foreign"), 1);
}

/// An idle group refuses the shares that a runtime is about to write, and the pod would not start.
#[test]
fn a_group_becomes_idle_only_once_its_birth_is_over() {
    let mut rig = Rig::new(&["be"]);
    let plan = PlanOf::synced().hold("be/p1", Resource::CpuIdle, Value::Int(1));
    rig.apply(&plan, seconds(1));
    assert_eq!(rig.born("be/p1", Controller::Cpu, seconds(2)), Vec::<String>::new());
    assert_eq!(rig.tick(Nanos(2 * SECOND + 500 * MS)), Vec::<String>::new());
    rig.foreign("be/p1", Resource::CpuShares, "512", Nanos(2 * SECOND + 600 * MS));
    assert_eq!(rig.kernel.group("be/p1").shares, 512, "the runtime's write is taken");
    assert_eq!(rig.state("be/p1", Resource::CpuIdle).0, TargetState::Pending);
    assert_eq!(rig.tick(seconds(4)), ["be/p1 cpu.idle 1"]);
    rig.no_refusal();
}

#[test]
fn a_birth_is_remembered_for_a_plan_that_comes_later() {
    let mut rig = Rig::new(&["be"]);
    rig.born("be/p1", Controller::Cpu, seconds(2));
    let writes = rig.apply(&plan(), Nanos(2 * SECOND + 4 * MS));
    assert_eq!(writes, ["be/p1 cpu.cfs_burst_us 10000"]);
    assert_eq!(rig.tick(Nanos(2 * SECOND + 10 * MS)).len(), 2);
    let mut late = Rig::new(&["be"]);
    late.born("be/p1", Controller::Cpu, seconds(2));
    assert_eq!(late.apply(&plan(), seconds(3)).len(), 3);
}

#[test]
fn c203_a_hierarchy_that_is_not_there_yet_is_written_at_its_own_birth() {
    let mut rig = Rig::new(&["be"]);
    let plan = PlanOf::synced().hold("be/p1", Resource::CfsBurst, Value::Int(5)).hold(
        "be/p1",
        Resource::MemoryLimit,
        bytes(1 << 20),
    );
    rig.apply(&plan, seconds(1));
    rig.born("be/p1", Controller::Memory, seconds(2));
    assert_eq!(rig.state("be/p1", Resource::CfsBurst).0, TargetState::Pending);
    assert_eq!(rig.born("be/p1", Controller::Cpu, Nanos(2 * SECOND + MS)), ["be/p1 cpu.cfs_burst_us 5"]);
    assert_eq!(rig.tick(seconds(3)), ["be/p1 memory.limit_in_bytes 1048576"]);
    assert_eq!(rig.figure("refused"), 0);
    assert!(rig.engine.take_notices().is_empty());
}

#[test]
fn another_directory_under_the_same_path_starts_anew() {
    let mut rig = Rig::new(&["be", "be/p1"]);
    let plan = PlanOf::synced().hold("be/p1", Resource::CfsBurst, Value::Int(5));
    rig.apply(&plan, seconds(1));
    let old = rig.engine.ledger().iter().next().unwrap().id;
    rig.kernel.rmdir("be/p1");
    assert_eq!(rig.born("be/p1", Controller::Cpu, seconds(9)), ["be/p1 cpu.cfs_burst_us 5"]);
    let entry = rig.engine.ledger().iter().next().unwrap().clone();
    assert_ne!(entry.id, old);
    assert_eq!(entry.original.value, "0");
}

#[test]
fn a_directory_that_came_back_without_any_event_is_found_by_the_re_check() {
    let mut rig = Rig::new(&["be"]);
    let plan = PlanOf::synced().hold("be/p1", Resource::CfsBurst, Value::Int(5)).hold(
        "be",
        Resource::CfsBurst,
        Value::Int(5),
    );
    rig.apply(&plan, seconds(0));
    rig.kernel.mkdir("be/p1");
    let writes: Vec<_> = (1..=12).flat_map(|slice| rig.tick(seconds(5 * slice))).collect();
    assert_eq!(writes, ["be/p1 cpu.cfs_burst_us 5"]);
}

#[test]
fn a_death_drops_what_was_held() {
    let mut rig = Rig::new(&["be", "be/p1"]);
    let plan = PlanOf::synced().hold("be/p1", Resource::CfsBurst, Value::Int(5));
    rig.apply(&plan, seconds(1));
    let id = rig.kernel.group("be/p1").id;
    rig.kernel.rmdir("be/p1");
    let event = CgroupEvent::Died { controllers: vec![Controller::Cpu], id, dir: dir("be/p1") };
    rig.engine.cgroup_event(&event, seconds(2));
    rig.pump(seconds(2));
    assert!(rig.engine.ledger().is_empty());
    assert_eq!(rig.state("be/p1", Resource::CfsBurst).0, TargetState::Pending);
    rig.apply(&PlanOf::synced(), seconds(3));
    assert!(rig.engine.explain().is_empty());
}
