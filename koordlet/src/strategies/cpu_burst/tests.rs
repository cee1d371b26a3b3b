//! Whole ticks on a made-up node, with the plan that comes of them.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::*;
use crate::api::keys;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Reason};
use crate::claims::plan::Plan;
use crate::claims::target::CgroupTarget;
use crate::claims::testing::{UNBOUNDED, annotated, dir, limits, plan_of, said, table};
use crate::state::pods::PodEntry;
use crate::state::series::settings::SeriesSettings;
use crate::state::slo::Slo;
use crate::state::slo::burst::{BurstPolicy, CpuBurst as Policy};
use crate::state::snapshot::Snapshot;
use crate::state::topology::{CpuInfo, Topology};
use crate::strategies::strategy::RuleClaims;
use crate::units::CfsQuota;

const SECOND: Nanos = Nanos(1_000_000_000);
const POD: &str = "kubepods/burstable/podu";
const SETTINGS: BurstSettings = BurstSettings { interval: SECOND, collect_interval: SECOND, seed: 7 };

/// A node of 32 CPUs with pod `u`, whose container `a` is limited to 2 cores and `b` to 1.5.
struct World {
    snapshot: Snapshot,
    series: SharedSeries,
    rules: Vec<Claim>,
    strategy: CpuBurst,
    now: Nanos,
    /// Use of the node in cores, and share of throttled periods of `a`.
    node: Option<f64>,
    throttled: Option<f64>,
    notices: Vec<StrategyNotice>,
}

impl World {
    fn new(policy: BurstPolicy) -> Self {
        let cpus = (0..32).map(|cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0 }).collect();
        let mut world = Self {
            snapshot: Snapshot {
                topology: Some(Arc::new(Topology { cpus, ..Topology::default() })),
                ..Snapshot::default()
            },
            series: SharedSeries::new(SeriesSettings::default()),
            rules: Vec::new(),
            strategy: CpuBurst::new(SETTINGS, BTreeMap::new()),
            now: Nanos(1000 * SECOND.0),
            node: Some(2.0),
            throttled: Some(0.5),
            notices: Vec::new(),
        };
        world.pods([web("LS", json!({}))]);
        world.policy(Policy { policy, ..Policy::default() });
        world
    }

    fn pods(&mut self, pods: impl IntoIterator<Item = PodEntry>) {
        self.snapshot.pods = Arc::new(table(pods));
    }

    fn policy(&mut self, burst: Policy) {
        self.snapshot.slo = Arc::new(Slo { synced: true, burst, ..Slo::default() });
    }

    /// Scales a quota as a rule would, and has the strategy see it.
    fn rule(&mut self, path: &str, quota: i64, owner: Owner) {
        let reason = Reason { text: "a rule".to_owned(), inputs: BTreeMap::new() };
        let value = Value::Quota(CfsQuota::from_raw(quota));
        self.rules.push(Claim::hold(
            CgroupTarget::new(&dir(path), Resource::CfsQuota),
            value,
            owner,
            Arc::new(reason),
        ));
        self.snapshot.node = Some(Arc::default());
    }

    /// A second goes by. Whether the claims are other ones.
    fn tick(&mut self) -> bool {
        self.now = self.now + SECOND;
        let node = self.node.map(|used| (SeriesKey::node(Metric::NodeCpuUsage), used));
        let id = "containerd://a".into();
        let throttled = |share| (SeriesKey::container(Metric::ContainerCpuThrottled, &id), share);
        self.series.append(self.now, node.into_iter().chain(self.throttled.map(throttled)));
        let rules = Claims { cgroup: self.rules.clone(), ..Claims::default() };
        let input = TickInput {
            snapshot: &self.snapshot,
            series: &self.series,
            rules: &RuleClaims::from(rules),
            now: self.now,
        };
        self.notices.clear();
        self.strategy.tick(&input, &mut self.notices)
    }

    fn plan(&self) -> Plan {
        let claims = self.rules.iter().chain(&self.strategy.claims().cgroup).cloned().collect();
        plan_of(&self.snapshot.pods, None, UNBOUNDED, claims)
    }

    /// Quotas of the pod and of `a`.
    fn quotas(&self) -> [String; 2] {
        let plan = self.plan();
        [POD.to_owned(), format!("{POD}/a")].map(|path| said(&plan, &path, Resource::CfsQuota))
    }

    /// The quota of `a` after each of `ticks`.
    fn run(&mut self, ticks: usize) -> Vec<i64> {
        (0..ticks)
            .map(|_| {
                self.tick();
                self.strategy.state().containers["containerd://a"].quota
            })
            .collect()
    }
}

fn web(class: &str, annotations: Json) -> PodEntry {
    let containers =
        json!([{"name": "a", "resources": limits("2")}, {"name": "b", "resources": limits("1500m")}]);
    annotated("u", class, annotations, json!({ "containers": containers }))
}

const UP: [i64; 7] = [240_000, 288_000, 345_600, 414_720, 497_664, 597_196, 600_000];

#[test]
fn w9_a_throttled_container_goes_up_by_fifths_and_its_pod_with_it() {
    let mut world = World::new(BurstPolicy::CfsQuotaBurstOnly);
    assert_eq!(world.run(1), UP[..1]);
    assert_eq!(world.quotas(), ["hold 390000", "hold 240000"]);
    assert_eq!(world.run(6), UP[1..]);
    assert_eq!(world.quotas(), ["hold 750000", "hold 600000"]);
    assert_eq!(said(&world.plan(), &format!("{POD}/a"), Resource::CfsBurst), "-");
    assert!(!world.tick(), "at the ceiling nothing changes");
    // The node is overloaded: down to the base, and then nothing is claimed.
    world.node = Some(18.0);
    world.now = world.now + Nanos(10 * SECOND.0);
    assert_eq!(world.run(6), [480_000, 384_000, 307_200, 245_760, 200_000, 200_000]);
    assert_eq!(world.quotas(), ["release 350000", "release 200000"]);
    assert_eq!(*world.strategy.claims(), Claims::default());
}

#[test]
fn w9_a_policy_that_is_withdrawn_resets_in_one_step() {
    let mut world = World::new(BurstPolicy::Auto);
    world.run(3);
    assert_eq!(said(&world.plan(), POD, Resource::CfsBurst), "hold 3500000");
    assert_eq!(said(&world.plan(), &format!("{POD}/a"), Resource::CfsBurst), "hold 2000000");
    assert_eq!(world.quotas(), ["hold 495600", "hold 345600"]);
    world.policy(Policy::default());
    assert!(world.tick());
    assert_eq!(world.quotas(), ["release 350000", "release 200000"]);
    assert_eq!(*world.strategy.claims(), Claims::default());
    assert!(world.strategy.state().containers.is_empty() && world.strategy.scaled.is_empty());
}

#[test]
fn c126_near_the_threshold_a_quota_stays() {
    let mut world = World::new(BurstPolicy::CfsQuotaBurstOnly);
    world.run(7);
    world.now = world.now + Nanos(10 * SECOND.0);
    let [busy, near, idle] = [18.0, 15.0, 2.0].map(|used| {
        world.node = Some(used);
        world.now = world.now + Nanos(10 * SECOND.0);
        world.run(1)[0]
    });
    assert_eq!([busy, near, idle], [480_000, 480_000, 576_000]);
}

#[test]
fn without_a_policy_nothing_is_asked_and_nothing_claimed() {
    let mut world = World::new(BurstPolicy::None);
    let asked = || panic!("the rules are asked");
    for is_first in [true, false] {
        let rules = RuleClaims::new(&asked);
        let input =
            TickInput { snapshot: &world.snapshot, series: &world.series, rules: &rules, now: SECOND };
        assert_eq!(world.strategy.tick(&input, &mut world.notices), is_first);
    }
    assert!(world.strategy.has_decided() && world.notices.is_empty());
    assert_eq!(*world.strategy.claims(), Claims::default());
}

#[test]
fn before_pods_and_policy_are_known_nothing_is_decided() {
    let mut world = World::new(BurstPolicy::Auto);
    world.snapshot.slo = Arc::default();
    assert!(!world.tick() && !world.strategy.has_decided());
}

#[test]
fn c206_q20_a_normalized_quota_is_the_base_and_takes_a_burst_along() {
    let mut world = World::new(BurstPolicy::CfsQuotaBurstOnly);
    world.run(1);
    world.rule(&format!("{POD}/a"), 133_334, Owner::CpuNormalization);
    world.rule(POD, 233_334, Owner::CpuNormalization);
    world.throttled = Some(0.0);
    assert_eq!(world.run(2), [160_000, 160_000], "as far above the new base as above the old one");
    assert_eq!(world.quotas(), ["hold 260000", "hold 160000"]);
    // What is not raised is never taken for raised.
    let mut calm = World::new(BurstPolicy::CfsQuotaBurstOnly);
    calm.throttled = Some(0.0);
    calm.tick();
    calm.rule(&format!("{POD}/a"), 133_334, Owner::CpuNormalization);
    assert_eq!(calm.run(3), [133_334; 3]);
    assert_eq!(*calm.strategy.claims(), Claims::default(), "the rule decides alone");
}

#[test]
fn h04_q19_a_lifted_quota_is_left_alone() {
    let mut world = World::new(BurstPolicy::Auto);
    world.rule(&format!("{POD}/a"), -1, Owner::CpuSetAllocator);
    for _ in 0..3 {
        world.tick();
    }
    assert_eq!(world.quotas(), ["release 350000", "hold -1"]);
    assert!(!world.strategy.state().containers.contains_key("containerd://a"));
}

#[test]
fn containers_with_exclusive_cpus_are_the_kubelets() {
    let mut world = World::new(BurstPolicy::CfsQuotaBurstOnly);
    let mut topology = (**world.snapshot.topology.as_ref().unwrap()).clone();
    topology.kubelet_exclusive.insert(("u".into(), "a".to_owned()), "3-4".parse().unwrap());
    world.snapshot.topology = Some(Arc::new(topology));
    world.tick();
    let known: Vec<&String> = world.strategy.state().containers.keys().collect();
    assert_eq!(known, ["containerd://b"]);
}

#[test]
fn pods_of_other_classes_and_ended_ones_do_not_burst() {
    let bursting = |pod: PodEntry| {
        let mut world = World::new(BurstPolicy::Auto);
        world.pods([pod]);
        world.tick();
        !world.strategy.claims().cgroup.is_empty()
    };
    let classes = ["LS", "SYSTEM", "", "BE", "LSR", "LSE"];
    assert_eq!(classes.map(|class| bursting(web(class, json!({})))), [true, true, true, false, false, false]);
    let mut ended = web("LS", json!({}));
    let mut pod = (*ended.pod).clone();
    pod.status.phase = "Succeeded".to_owned();
    ended.pod = Arc::new(pod);
    assert!(!bursting(ended));
}

#[test]
fn a_container_that_does_not_run_stays_where_it_is() {
    let mut world = World::new(BurstPolicy::CfsQuotaBurstOnly);
    world.run(1);
    let mut entry = web("LS", json!({}));
    let mut pod = (*entry.pod).clone();
    for status in &mut pod.status.container_statuses {
        status.state = serde_json::from_value(json!({"terminated": {"exitCode": 1}})).unwrap();
    }
    entry.pod = Arc::new(pod);
    world.pods([entry]);
    assert_eq!(world.run(2), [240_000; 2]);
}

#[test]
fn an_annotation_counts_before_the_nodes_policy() {
    let quota = |annotation: &str| {
        let mut world = World::new(BurstPolicy::CfsQuotaBurstOnly);
        world.pods([web("LS", json!({keys::CPU_BURST: annotation}))]);
        for _ in 0..3 {
            world.tick();
        }
        (world.quotas()[1].clone(), world.notices.len())
    };
    let row = |quota: &str, notices| (quota.to_owned(), notices);
    assert_eq!(quota("{}"), row("hold 345600", 0));
    assert_eq!(quota(r#"{"policy": "none"}"#), row("release 200000", 0));
    assert_eq!(quota(r#"{"policy": "unheard of"}"#), row("release 200000", 0));
    assert_eq!(quota(r#"{"cfsQuotaBurstPercent": 130, "policy": null}"#), row("hold 260000", 0));
    assert_eq!(quota(r#"{"cfsQuotaBurstPeriodSeconds": 0}"#), row("release 200000", 0));
    for refused in ["{bad", "[]", r#"{"cpuBurstPercent": -1}"#, r#"{"cpuBurstPercent": "1"}"#] {
        assert_eq!(quota(refused), row("hold 345600", 1), "{refused}");
    }
}

#[test]
fn without_figures_a_quota_stays_for_a_while_and_then_goes_down_and_says_so() {
    for what in ["node", "container"] {
        let mut world = World::new(BurstPolicy::CfsQuotaBurstOnly);
        world.run(UP.len());
        // So that samples of before are too old from the first tick on.
        world.now = world.now + Nanos(20 * SECOND.0);
        match what {
            "node" => world.node = None,
            _ => world.throttled = None,
        }
        let kept = world.run(usize::try_from(BLIND_TICKS - 1).unwrap());
        assert!(kept.iter().all(|quota| *quota == 600_000), "{what}: {kept:?}");
        assert_eq!(world.notices, [], "{what}");
        assert_eq!(world.run(6), [480_000, 384_000, 307_200, 245_760, 200_000, 200_000], "{what}");
        assert_eq!(world.notices.len(), 1, "{what}");
        assert!(world.notices[0].text.contains("base"), "{}", world.notices[0].text);
        assert_eq!(world.quotas(), ["release 350000", "release 200000"]);
        (world.node, world.throttled) = (Some(2.0), Some(0.5));
        assert_eq!(world.run(1), [240_000], "{what}: and it sees again");
        assert_eq!(world.notices, [], "{what}");
    }
}

#[test]
fn a_burst_that_the_kernel_holds_at_start_goes_on() {
    let start = |quota: i64| {
        let mut world = World::new(BurstPolicy::CfsQuotaBurstOnly);
        world.throttled = Some(0.0);
        let present = [(dir(&format!("{POD}/a")), quota)].into();
        world.strategy = CpuBurst::new(SETTINGS, present);
        world.run(1)[0]
    };
    assert_eq!([start(345_600), start(200_000), start(1000)], [345_600, 200_000, 200_000]);
    assert_eq!(start(9_000_000), 600_000, "no higher than the policy allows");
}

#[test]
fn a_limited_container_bursts_for_as_long_as_its_tokens_last() {
    let mut world = World::new(BurstPolicy::CfsQuotaBurstOnly);
    world.policy(Policy {
        policy: BurstPolicy::CfsQuotaBurstOnly,
        cfs_quota_burst_period_seconds: 10,
        ..Policy::default()
    });
    let mut state = ContainerState::new(600_000, 200_000);
    state.bucket = Some(limiter::Bucket::new(2000, 600, world.now));
    let state = BurstState { containers: [("containerd://a".to_owned(), state)].into(), blind: 0 };
    world.strategy = CpuBurst::new(SETTINGS, BTreeMap::new()).with_state(state);
    let used = [(SeriesKey::container(Metric::ContainerCpuUsage, &"containerd://a".into()), 6.0)];
    for _ in 0..4 {
        world.series.append(world.now + SECOND, used.clone());
        world.tick();
    }
    let left = &world.strategy.state().containers["containerd://a"];
    assert_eq!(left.bucket.as_ref().unwrap().tokens(), -200);
    assert_eq!(left.quota, 384_000, "three seconds at 200 % above the limit, then down twice");
}

#[test]
fn q21_figures_stay_between_changes_and_end_with_their_pod() {
    let mut world = World::new(BurstPolicy::Auto);
    world.run(UP.len() + 2);
    let figures = |world: &World| -> Vec<(String, Option<i64>, Option<i64>)> {
        let scaled = world.strategy.scaled().unwrap();
        scaled.iter().map(|one| (one.container.clone(), one.quota_us, one.burst_us)).collect()
    };
    let row = |name: &str, quota, burst| (name.to_owned(), Some(quota), Some(burst));
    assert_eq!(figures(&world), [row("a", 600_000, 2_000_000), row("b", 150_000, 1_500_000)]);
    world.pods([]);
    world.tick();
    assert_eq!(figures(&world), []);
}

#[test]
fn what_is_remembered_can_be_recorded_and_replayed() {
    let mut world = World::new(BurstPolicy::Auto);
    world.run(3);
    let text = serde_json::to_string(world.strategy.state()).unwrap();
    let state: BurstState = serde_json::from_str(&text).unwrap();
    assert_eq!(state, *world.strategy.state());
    let ids: BTreeSet<&String> = state.containers.keys().collect();
    assert_eq!(ids.len(), 2);
    world.strategy = CpuBurst::new(SETTINGS, BTreeMap::new()).with_state(state);
    assert_eq!(world.run(1), [414_720]);
}

#[test]
fn c017_a_budget_of_zero_is_a_budget() {
    let mut world = World::new(BurstPolicy::CpuBurstOnly);
    world.pods([web("LS", json!({keys::CPU_BURST: r#"{"cpuBurstPercent": 0}"#}))]);
    world.tick();
    let bursts =
        [POD.to_owned(), format!("{POD}/a")].map(|path| said(&world.plan(), &path, Resource::CfsBurst));
    assert_eq!(bursts, ["hold 0", "hold 0"]);
    assert_eq!(world.quotas(), ["release 350000", "release 200000"]);
}
