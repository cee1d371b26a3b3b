//! Random sequences of plans, foreign writes and restarts: a right order of writes never meets a refusal, and
//! all ends as wished.

use proptest::prelude::*;

use super::*;
use crate::executor::report::TargetReport;

const PODS: [&str; 3] = ["be/p1", "be/p2", "be/p3"];

/// One plan's figures.
#[derive(Clone, Debug)]
struct Wishes {
    class_quota: Option<i64>,
    be_cpus: Option<Vec<u32>>,
    pods: Vec<PodWishes>,
    foreign: Vec<(usize, u8, i64)>,
    /// Whether systemd then writes all quotas anew, rounded.
    rounds: bool,
    restart: bool,
    /// Whether what is not held is released to what was there at first.
    baselines: bool,
}

#[derive(Clone, Debug)]
struct PodWishes {
    /// Pod's and container's quota, the latter a share of the former; `None` holds neither.
    quota: Option<(i64, i64)>,
    burst: Option<i64>,
    shares: Option<u64>,
    idle: Option<i64>,
    /// Memory, and what swap adds to it.
    memory: Option<(u64, u64)>,
}

/// A step of systemd's rounding.
const STEP: i64 = 1_000;

/// Any, and often two in one step.
fn quota_or_unlimited() -> impl Strategy<Value = i64> {
    prop_oneof![
        Just(-1),
        1_000i64..400_000,
        (118i64..123, prop::sample::select(vec![0i64, 1, 999])).prop_map(|(steps, over)| steps * STEP + over),
    ]
}

prop_compose! {
    fn pod_wishes()(
        quota in prop::option::of((quota_or_unlimited(), prop_oneof![Just(100i64), 0i64..=100])),
        burst in prop::option::of(0i64..300_000),
        shares in prop::option::of(2u64..4096),
        idle in prop::option::of(0i64..=1),
        memory in prop::option::of((1u64..64, 0u64..64)),
    ) -> PodWishes {
        let quota = quota.map(|(pod, percent)| {
            let inside = if pod < 0 { 200_000 } else { pod } * percent / 100;
            (pod, if inside < STEP { -1 } else { inside })
        });
        PodWishes { quota, burst, shares, idle, memory: memory.map(|(m, s)| (m << 20, (m + s) << 20)) }
    }
}

prop_compose! {
    fn wishes()(
        class_quota in prop::option::of(quota_or_unlimited()),
        be_cpus in prop::option::of(prop::collection::btree_set(0u32..8, 1..8)),
        pods in prop::collection::vec(pod_wishes(), PODS.len()),
        foreign in prop::collection::vec((0..4usize, 0u8..5, 1i64..400_000), 0..4),
        rounds in any::<bool>(),
        restart in prop::bool::weighted(0.2),
        baselines in any::<bool>(),
    ) -> Wishes {
        let be_cpus = be_cpus.map(|set| set.into_iter().collect());
        Wishes { class_quota, be_cpus, pods, foreign, rounds, restart, baselines }
    }
}

impl Wishes {
    fn plan(&self) -> PlanOf {
        let mut plan = PlanOf::synced();
        if let Some(raw) = self.class_quota {
            plan = plan.hold("be", Resource::CfsQuota, quota(raw));
        }
        let all = self.be_cpus.clone().map(|cpus| Value::Cpus(cpus.into_iter().collect()));
        if let Some(all) = &all {
            plan = plan.hold("be", Resource::Cpus, all.clone());
        }
        for (path, pod) in PODS.iter().zip(&self.pods) {
            let container = format!("{path}/c");
            if let Some(all) = &all {
                plan = plan.hold(path, Resource::Cpus, all.clone());
                plan = plan.hold(&container, Resource::Cpus, all.clone());
            }
            if let Some((outer, inner)) = pod.quota {
                plan = plan.hold(path, Resource::CfsQuota, quota(outer));
                plan = plan.hold(&container, Resource::CfsQuota, quota(inner));
            }
            if let Some(burst) = pod.burst {
                plan = plan.hold(&container, Resource::CfsBurst, Value::Int(burst));
            }
            if let Some(s) = pod.shares {
                plan = plan.hold(&container, Resource::CpuShares, shares(s));
            }
            if let Some(idle) = pod.idle {
                plan = plan.hold(&container, Resource::CpuIdle, Value::Int(idle));
            }
            if let Some((memory, memsw)) = pod.memory {
                plan = plan.hold(&container, Resource::MemoryLimit, bytes(memory));
                plan = plan.hold(&container, Resource::MemswLimit, bytes(memsw));
            }
        }
        if self.baselines { with_baselines(plan) } else { plan }
    }
}

/// Releases to what `start` makes, wherever nothing else is decided.
fn with_baselines(mut plan: PlanOf) -> PlanOf {
    let mut release = |path: &str, resource, value| {
        if !plan.0.entries.contains_key(&CgroupTarget::new(&dir(path), resource)) {
            plan = plan.clone().release(path, resource, value, Owner::PodSpec);
        }
    };
    release("be", Resource::Cpus, cpus("0-7"));
    release("be", Resource::CfsQuota, quota(-1));
    for (index, pod) in PODS.iter().enumerate() {
        let container = format!("{pod}/c");
        let (outer, inner, burst) = if index == 0 { (150_000, 120_000, 90_000) } else { (-1, -1, 0) };
        release(pod, Resource::Cpus, cpus("0-7"));
        release(pod, Resource::CfsQuota, quota(outer));
        release(&container, Resource::Cpus, cpus("0-7"));
        release(&container, Resource::CfsQuota, quota(inner));
        release(&container, Resource::CfsBurst, Value::Int(burst));
        release(&container, Resource::CpuShares, shares(if index == 0 { 1024 } else { 2048 }));
        release(&container, Resource::CpuIdle, Value::Int(0));
    }
    plan
}

fn start() -> Rig {
    let kernel = Kernel::new();
    kernel.mkdir("be");
    for (index, pod) in PODS.iter().enumerate() {
        let container = format!("{pod}/c");
        kernel.mkdir(pod);
        kernel.mkdir(&container);
        // The first has a limit of its own, the last a runtime's burst and shares.
        if index == 0 {
            kernel.set(pod, |group| group.quota = 150_000);
            kernel.set(&container, |group| (group.quota, group.burst) = (120_000, 90_000));
        } else {
            kernel.set(&container, |group| (group.shares, group.memory) = (2048, 512 << 20));
        }
    }
    Rig::on(kernel, Arc::new(tempfile::tempdir().unwrap()), "boot", SlowWrites::Inline)
}

/// Held, or waiting for the only thing that may keep a value waiting, or released.
fn as_it_should_be(report: &TargetReport) -> bool {
    let waits = report.detail.as_deref().is_some_and(|why| why.contains("cpu.idle"));
    report.state == TargetState::Held || waits || report.owner == Owner::PodSpec
}

fn foreign_write(rig: &mut Rig, (place, kind, figure): (usize, u8, i64), now: Nanos) {
    let path = if place == 3 { "be".to_owned() } else { format!("{}/c", PODS[place]) };
    let (resource, text) = match kind {
        0 => (Resource::CfsQuota, "-1".to_owned()),
        1 => (Resource::CpuShares, (figure % 4000 + 2).to_string()),
        2 => (Resource::MemoryLimit, ((figure % 64 + 1) << 20).to_string()),
        3 => return round(rig, &path, now),
        _ => (Resource::CfsBurst, (figure % 500).to_string()),
    };
    // One that the kernel refuses is no write.
    rig.kernel.foreign(&path, resource, &text);
    rig.pump(now);
}

/// systemd writes a quota anew, in whole steps rounded up. It counts as ours.
fn round(rig: &mut Rig, path: &str, now: Nanos) {
    let quota = rig.kernel.group(path).quota;
    if quota >= 0 {
        let rounded = (quota + STEP - 1) / STEP * STEP;
        rig.kernel.foreign(path, Resource::CfsQuota, &rounded.to_string());
        rig.pump(now);
    }
}

fn round_all(rig: &mut Rig, now: Nanos) {
    round(rig, "be", now);
    for pod in PODS {
        round(rig, pod, now);
        round(rig, &format!("{pod}/c"), now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_plan_meets_a_refusal_that_a_right_order_avoids(sequence in prop::collection::vec(wishes(), 1..6)) {
        let mut rig = start();
        let before = rig.kernel.groups();
        let mut now = seconds(1000);
        for wishes in &sequence {
            let plan = wishes.plan();
            rig.apply(&plan, now);
            prop_assert_eq!(rig.kernel.take_refusals(), Vec::<String>::new());
            if wishes.restart {
                rig = rig.restart();
                prop_assert_eq!(rig.apply(&plan, now), Vec::<String>::new(), "after a restart");
            }
            prop_assert_eq!(rig.apply(&plan, now), Vec::<String>::new(), "unchanged");
            for report in rig.engine.explain() {
                prop_assert!(as_it_should_be(&report), "{report:?}");
            }
            if wishes.rounds {
                round_all(&mut rig, now);
            }
        }
        now = seconds(2000);
        rig.apply(&PlanOf::synced(), now);
        prop_assert_eq!(rig.kernel.take_refusals(), Vec::<String>::new());
        prop_assert_eq!(rig.kernel.groups(), before);
        prop_assert!(rig.engine.ledger().is_empty());
    }

    #[test]
    fn foreign_writes_are_put_right_whatever_they_are(sequence in prop::collection::vec(wishes(), 1..4)) {
        let mut rig = start();
        let mut now = seconds(1000);
        for wishes in &sequence {
            let plan = wishes.plan();
            rig.apply(&plan, now);
            for foreign in &wishes.foreign {
                foreign_write(&mut rig, *foreign, now);
            }
            for _ in 0..90 {
                now = now + seconds(1);
                rig.tick(now);
            }
            for report in rig.engine.explain() {
                prop_assert!(as_it_should_be(&report), "{report:?}");
            }
            let found = rig.kernel.groups();
            let Some(class) = wishes.class_quota else { continue };
            let held = found[&dir("be")].quota;
            prop_assert!(held == class || held == (class + STEP - 1) / STEP * STEP, "{held} for {class}");
        }
    }
}
