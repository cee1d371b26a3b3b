//! Looks between full steps.

use super::*;

#[test]
fn a_fast_look_lowers_a_quota_and_never_raises_it() {
    let mut world = World::new(16, SuppressPolicy::CfsQuota);
    world.set_amount(8000);
    let mut state = quota_state(-1);
    world.step(&mut state);
    // LS goes from 8 to 10 cores; the node's own use is not looked at.
    world.usage.node_cpu = None;
    world.set_usage("ls", 8.15);
    assert_eq!(world.look(&state, 100), None); // less than the smallest step
    world.set_usage("ls", 10.0);
    let outcome = world.look(&state, 100).unwrap();
    assert_eq!(be_quota(&outcome).unwrap(), "600000");
    state = outcome.state;
    world.set_usage("ls", 12.0);
    assert_eq!(world.look(&state, 299), None); // once in 200 ms
    let outcome = world.look(&state, 300).unwrap();
    assert_eq!(be_quota(&outcome).unwrap(), "400000");
    state = outcome.state;
    world.set_usage("ls", 1.0);
    assert_eq!(world.look(&state, 900), None);
    // The full step goes up again, slowly.
    world.set_amount(15_000);
    assert_eq!(be_quota(&world.step(&mut state)).unwrap(), "560000");
}

#[test]
fn a_fast_look_takes_cpus_away_and_replaces_lost_ones() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.set_amount(6000);
    let mut state = cpus_state("0-15");
    assert_eq!(be_cpus(&world.step(&mut state)).unwrap(), "0-3,8-9");
    assert_eq!(world.look(&state, 100), None);
    world.set_usage("ls", 10.5);
    assert_eq!(world.look(&state, 100), None); // 5.5 cores are 6 CPUs still
    world.set_usage("ls", 12.0);
    let outcome = world.look(&state, 100).unwrap();
    assert_eq!(be_cpus(&outcome).unwrap(), "0-1,8-9");
    state = outcome.state;

    // CPU 0 goes offline while there is much to give: as many others, not more.
    world.set_usage("ls", 0.0);
    let without: Vec<CpuInfo> = world.topology().cpus.iter().skip(1).copied().collect();
    world.set_cpus(without);
    let outcome = world.look(&state, 300).unwrap();
    assert_eq!(be_cpus(&outcome).unwrap(), "2-3,8-9");
}

#[test]
fn a_fast_look_needs_a_full_step_of_the_same_policy() {
    let mut world = World::new(16, SuppressPolicy::CfsQuota);
    world.set_amount(8000);
    assert_eq!(world.look(&quota_state(-1), 100), None);
    let mut state = quota_state(-1);
    world.step(&mut state);
    world.set_usage("ls", 12.0);
    assert!(world.look(&state, 100).is_some());
    world.policy().policy = SuppressPolicy::Cpuset;
    assert_eq!(world.look(&state, 100), None);
    world.policy().policy = SuppressPolicy::CfsQuota;
    world.settings.interval = Nanos(0);
    assert_eq!(world.look(&state, 100), None);
}
