//! Periods that others chose: whatever they are, the kernel takes each quota, and takes it once.

use proptest::prelude::*;

use super::*;

const DIRS: [&str; 4] = ["be", "be/p1", "be/p1/c1", "be/p1/c2"];

/// Quotas per 100 ms, none above the one of the directory above.
fn wishes() -> impl Strategy<Value = [i64; 4]> {
    let part = || prop_oneof![Just(100_i64), 60_i64..=100];
    (200_000_i64..2_000_000, part(), part(), part()).prop_map(|(class, pod, first, second)| {
        let of = |whole: i64, part: i64| whole * part / 100;
        let pod = of(class, pod);
        [class, pod, of(pod, first), of(pod, second)]
    })
}

proptest! {
    #[test]
    fn any_period_is_fine(
        periods in prop::array::uniform4(prop_oneof![Just(100_000_i64), 10_000_i64..=1_000_000]),
        steps in prop::collection::vec(wishes(), 1..4),
    ) {
        let mut rig = Rig::new(&DIRS);
        for (dir, period) in DIRS.iter().zip(periods) {
            rig.kernel.set(dir, |group| group.period = period);
        }
        for (step, wishes) in (1..).zip(steps) {
            let hold = |plan: PlanOf, (dir, us): (&&str, i64)| plan.hold(dir, Resource::CfsQuota, quota(us));
            let plan = DIRS.iter().zip(wishes).fold(PlanOf::synced(), hold);
            rig.apply(&plan, seconds(100 * step));
            prop_assert_eq!(rig.kernel.take_refusals(), Vec::<String>::new());
            // Nothing to write again, also for the re-check of a minute.
            let again: Vec<String> = (0..14).flat_map(|slice| rig.tick(seconds(100 * step + 5 * slice))).collect();
            prop_assert_eq!(again, Vec::<String>::new());
            for (dir, us) in DIRS.iter().zip(wishes) {
                let group = rig.kernel.group(dir);
                let held = group.quota * 100_000 / group.period;
                prop_assert!((held - us).abs() <= 60, "{dir} holds {held}, not {us}: {group:?}");
            }
        }
    }
}
