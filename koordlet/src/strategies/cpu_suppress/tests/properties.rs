//! What holds for every load.

use proptest::prelude::*;

use super::*;

fn any_policy() -> impl Strategy<Value = SuppressPolicy> {
    prop_oneof![Just(SuppressPolicy::Cpuset), Just(SuppressPolicy::CfsQuota)]
}

proptest! {
    #[test]
    fn any_sequence_of_loads_keeps_the_limits_sane(
        policy in any_policy(),
        cpus in 1u32..32,
        lse in "[0-9]{1}",
        amounts in prop::collection::vec(-20_000i64..40_000, 1..12),
    ) {
        let mut world = World::new(cpus, policy);
        world.pod("lse", Some(QosClass::Lse), KubeQos::Guaranteed, 0.0, &lse);
        let pool = world.topology().be_pool.clone();
        let mut state = SuppressState::default();
        let step_cpus = (cpus as usize).div_ceil(10);
        let mut before: Option<MilliCpu> = None;
        for amount in amounts {
            world.set_amount(amount);
            let outcome = world.step(&mut state);
            let Some(held) = &state.held else {
                prop_assert!(pool.is_empty());
                continue;
            };
            let limit = held.limit.cpu().unwrap();
            if let Limit::Cpus { choice, .. } = &held.limit {
                prop_assert!(!choice.cpus.is_empty() && choice.cpus.is_subset(&pool));
                let most = before.map_or(usize::MAX, |b| (amount::ceil_cores(b) + step_cpus).max(2));
                prop_assert!(choice.cpus.len() <= most);
                let least = choose::wanted_cpus(MilliCpu(amount)).min(pool.len());
                prop_assert!(choice.cpus.len() <= least);
            } else {
                let step_m = i64::from(cpus) * 100;
                prop_assert!(before.is_none_or(|before| limit.0 <= before.0 + step_m));
                // A fall is followed at once, but for less than a hundredth of the node.
                prop_assert!(limit.0 < amount.max(20) + i64::from(cpus) * 10);
            }
            before = Some(limit);

            let reached = world.step(&mut state.clone());
            if reached.state.held.as_ref().map(|held| held.limit.cpu()) == Some(Some(limit)) {
                prop_assert_eq!(&reached.claims, &outcome.claims);
            }
        }
    }
}
