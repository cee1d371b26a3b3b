//! Switching on, off and over, and what happens while an input is missing.

use super::*;

#[test]
fn h02_without_an_allowed_cpu_the_last_set_stays() {
    let mut world = World::new(2, SuppressPolicy::Cpuset);
    world.set_amount(1000);
    let mut state = cpus_state("0-1");
    let before = world.step(&mut state);
    assert_eq!(be_cpus(&before).unwrap(), "0-1");
    world.pod("lse", Some(QosClass::Lse), KubeQos::Guaranteed, 0.0, "0-1");
    let after = world.step(&mut state);
    assert_eq!(after.claims, before.claims);
    assert_eq!(after.notices, [Condition::NothingAllowed]);

    // Without a last set nothing is claimed, and nothing may be concluded from that.
    let mut fresh = cpus_state("0-1");
    assert_eq!(world.step(&mut fresh).claims, []);
    assert!(!fresh.decided);
}

#[test]
fn switching_off_withdraws_every_claim() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.set_amount(4000);
    let off: [fn(&mut World); 4] = [
        |world| world.policy().enable = false,
        |world| world.settings.enabled = false,
        |world| world.settings.interval = Nanos(0),
        |world| world.settings.be_cpu_manager = true,
    ];
    for off in off {
        let (policy, settings) = (world.policy().clone(), world.settings);
        let mut state = cpus_state("0-15");
        assert!(!world.step(&mut state).claims.is_empty());
        off(&mut world);
        let outcome = world.step(&mut state);
        assert_eq!(outcome.claims, []);
        assert!(state.decided);
        assert_eq!(world.look(&state, 500), None);
        // Switched on again, it starts from what was let go to: the whole pool, no quota.
        assert_eq!(
            (state.cpus.as_ref().map(CpuSet::len), state.quota),
            (Some(16), Some(CfsQuota::Unlimited))
        );
        (*world.policy(), world.settings) = (policy, settings);
    }
}

#[test]
fn q1_the_other_gate_switches_suppression_off_and_says_so_once() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.settings.be_cpu_manager = true;
    let mut state = SuppressState::default();
    let outcome = world.step(&mut state);
    assert_eq!(outcome.notices, [Condition::GateConflict]);
    assert!(Condition::GateConflict.to_string().contains("NOT suppressed"));
    assert_eq!(world.step(&mut state).notices, []);
    assert!(state.conditions.contains(&Condition::GateConflict));
}

#[test]
fn changing_the_policy_replaces_the_claims() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.set_amount(4000);
    let mut state = cpus_state("0-15");
    world.step(&mut state);
    world.policy().policy = SuppressPolicy::CfsQuota;
    let outcome = world.step(&mut state);
    assert_eq!((be_cpus(&outcome), be_quota(&outcome).as_deref()), (None, Some("400000")));
    world.policy().policy = SuppressPolicy::Cpuset;
    let outcome = world.step(&mut state);
    assert_eq!((be_cpus(&outcome).as_deref(), be_quota(&outcome)), (Some("0-1,8-9"), None));
}

/// What takes an input away, and how its absence is named.
type Removal = (Input, fn(&mut World));

#[test]
fn q38_a_missing_input_leaves_the_claims_as_they_are() {
    let removals: [Removal; 7] = [
        (Input::Slo, |world| Arc::make_mut(&mut world.snapshot.slo).synced = false),
        (Input::Node, |world| world.snapshot.node = None),
        (Input::Node, |world| world.snapshot.node = Some(Arc::default())),
        (Input::Pods, |world| Arc::make_mut(&mut world.snapshot.pods).pods.clear()),
        (Input::Usage, |world| world.usage.node_cpu = None),
        (Input::Cpus, |world| world.snapshot.topology = None),
        (Input::Cpus, |world| world.topology().cpus.clear()),
    ];
    for (missing, remove) in removals {
        for policy in [SuppressPolicy::Cpuset, SuppressPolicy::CfsQuota] {
            let mut world = World::new(16, policy);
            world.set_amount(4000);
            let mut state = SuppressState::new(Some(CfsQuota::Unlimited), Some(set("0-15")));
            let before = world.step(&mut state);
            remove(&mut world);
            let after = world.step(&mut state);
            assert_eq!(after.claims, before.claims, "{missing}");
            assert_eq!(after.notices, [Condition::Missing(missing)]);

            let mut fresh = SuppressState::default();
            assert_eq!(world.step(&mut fresh).claims, []);
            assert!(!fresh.decided, "{missing}");
        }
    }
}

#[test]
fn q38_a_stale_sample_is_none_and_a_long_absence_is_reported() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    let mut state = cpus_state("0-15");
    let before = world.step(&mut state);
    let mut reported = Vec::new();
    for miss in 1..=STALE_AFTER {
        let late = world.now + Nanos(SECOND.0 * 2 + u64::from(miss));
        let outcome = step(&world.input(), &state, late);
        state = outcome.state.clone();
        assert_eq!(outcome.claims, before.claims);
        reported.push(outcome.notices);
    }
    assert_eq!(reported.first().unwrap(), &[Condition::Missing(Input::Usage)]);
    assert_eq!(reported.last().unwrap(), &[Condition::Stale]);
    world.step(&mut state);
    assert_eq!((state.misses, state.conditions.len()), (0, 0));
}

#[test]
fn an_unreadable_kubelet_policy_leaves_the_claims_as_they_are() {
    let mut world = World::new(16, SuppressPolicy::Cpuset);
    world.set_amount(4000);
    let mut state = cpus_state("0-15");
    let before = world.step(&mut state);
    world.set_amount(8000);
    world.topology().kubelet_policy = KubeletCpuPolicy::Unknown;
    let after = world.step(&mut state);
    assert_eq!(after.claims, before.claims);
    assert_eq!(after.notices, [Condition::PolicyUnknown]);
}

#[test]
fn the_state_survives_being_written_down() {
    for policy in [SuppressPolicy::Cpuset, SuppressPolicy::CfsQuota] {
        let mut world = World::new(16, policy);
        world.set_amount(4000);
        let mut state = cpus_state("0-15");
        world.step(&mut state);
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<SuppressState>(&text).unwrap(), state);
    }
}
