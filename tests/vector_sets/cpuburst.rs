//! CPU burst, qos.md 5.4: budgets, verdicts on the shared CPUs, the limiter, and whole ticks of one pod.
//!
//! A tick is run as the agent runs it: the strategy's claims are combined with what rules and the pod's spec say. Each
//! container starts from the quota of its row. A pod's own quota is what its row leaves without the bursts of its
//! containers. A container that holds -1 beside a limit is one whose quota a rule lifted (Q19).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::Resource;
use koordlet::cgroup::value::Value as KernelValue;
use koordlet::claims::claim::{Claim, Claims, Owner, Reason};
use koordlet::claims::combine::{PlanInput, plan};
use koordlet::claims::plan::{Decision, Plan};
use koordlet::claims::target::CgroupTarget;
use koordlet::state::pods::{PodEntry, PodTable};
use koordlet::state::series::key::SeriesKey;
use koordlet::state::series::metric::Metric;
use koordlet::state::series::settings::SeriesSettings;
use koordlet::state::series::shared::SharedSeries;
use koordlet::state::slo::Slo;
use koordlet::state::slo::burst::{BurstPolicy, CpuBurst as Policy};
use koordlet::state::snapshot::Snapshot;
use koordlet::state::topology::{CpuInfo, Topology};
use koordlet::strategies::cpu_burst::limiter::{Bucket, capacity};
use koordlet::strategies::cpu_burst::node_state::{NodeState, SharePool};
use koordlet::strategies::cpu_burst::quota::{ContainerState, Seen};
use koordlet::strategies::cpu_burst::static_burst::budget_us;
use koordlet::strategies::cpu_burst::{BurstSettings, BurstState, CpuBurst};
use koordlet::strategies::strategy::{RuleClaims, Strategy as _, TickInput};
use koordlet::units::{CfsQuota, MilliCpu, Nanos, Percent};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::set::{self, Row, Verdict};

const SECOND: u64 = 1_000_000_000;
const NOW: Nanos = Nanos(1000 * SECOND);
const CPUS: u32 = 100;

#[test]
fn vectors_of_cpu_burst() {
    set::check(
        "cpuburst",
        &[
            ("burst_tick", 61, burst_tick),
            ("limiter", 25, limiter),
            ("node_state", 30, node_state),
            ("static_burst", 66, static_burst),
        ],
    );
}

fn verdict(row: &Row, got: Value) -> Verdict {
    row.compare(Ok::<_, String>(got))
}

fn static_burst(row: &Row) -> Verdict {
    let limit = MilliCpu(row.int("limit_m").unwrap_or(0));
    let percent = Percent(row.int("cpuBurstPercent").unwrap_or(0));
    let policy = BurstPolicy::of_word(row.text("policy"));
    let budget = if policy.has_budget() { budget_us(limit, percent) } else { 0 };
    verdict(row, json!({ "burst_us": budget }))
}

fn limiter(row: &Row) -> Verdict {
    let percent = Percent(row.int("cfsQuotaBurstPercent").unwrap_or(0));
    let most = capacity(row.int("periodSeconds").unwrap(), percent);
    let first = row.int("tokens").unwrap();
    let mut bucket = Bucket::new(most, first, NOW);
    // Tokens by the definition, every millisecond counted (Q18).
    let mut exact = first as f64;
    let (mut now, mut got, mut want) = (NOW, Vec::new(), Vec::new());
    for step in row.input["steps"].as_array().unwrap() {
        let (elapsed, used) = (step["elapsed_ms"].as_u64().unwrap(), step["usagePercent"].as_i64().unwrap());
        now = now + Nanos(elapsed * 1_000_000);
        let allowed = bucket.count(used, now);
        got.push(json!({"allowed": allowed, "tokens": bucket.tokens()}));
        let rate = if (60..100).contains(&used) { 0 } else { 100 - used };
        exact = (exact + rate as f64 * elapsed as f64 / 1000.0).clamp(-most as f64, most as f64);
        // Sums of thousandths in doubles are off by less than this.
        let whole = (exact + exact.signum() * 1e-6).trunc();
        want.push(json!({"allowed": exact > 1e-6, "tokens": whole}));
    }
    match row.defect.as_deref() {
        Some("Q18") => row.compare_with(&want.into(), &got.into()),
        _ => verdict(row, got.into()),
    }
}

fn node_state(row: &Row) -> Verdict {
    let pods = row.input["pods"].as_array().unwrap();
    let of = |classes: &'static [&'static str]| {
        pods.iter().filter(move |pod| classes.contains(&pod["qosLabel"].as_str().unwrap_or("")))
    };
    let request = |pod: &Value| pod["cpuRequest"].as_str().filter(|text| !text.is_empty()).map(milli);
    let samples = row.input["nodeUsageSamples"].as_array().unwrap();
    let values = samples.iter().map(|sample| sample[1].as_f64().unwrap());
    let knows_cpus = row.input["cpuInfoKnown"].as_bool().unwrap();
    let pool = SharePool {
        cpus: knows_cpus.then(|| usize::try_from(row.int("cpus").unwrap()).unwrap()),
        requests_apart: MilliCpu(of(&["LSE", "LSR"]).filter_map(request).sum()),
        node_use: (!samples.is_empty()).then(|| values.sum::<f64>() / samples.len() as f64),
        use_apart: of(&["LSE", "LSR", "BE"]).filter_map(|pod| pod["usage"].as_f64()).sum(),
        threshold: Percent(row.int("sharePoolThresholdPercent").unwrap()),
    };
    verdict(row, json!({ "state": name(pool.state()) }))
}

fn milli(quantity: &str) -> i64 {
    quantity.parse::<koordlet::api::quantity::Quantity>().unwrap().milli_cpu().0
}

fn name(state: NodeState) -> &'static str {
    match state {
        NodeState::Idle => "idle",
        NodeState::Cooling => "cooling",
        NodeState::Overload => "overload",
        NodeState::Unknown => "unknown",
    }
}

/// A container of a tick.
#[derive(Deserialize)]
struct Container {
    name: String,
    limit_m: i64,
    quota: i64,
    running: bool,
    throttled: Option<f64>,
    usage: Option<f64>,
    limiter: Option<Limiter>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Limiter {
    elapsed_whole_seconds: u64,
    tokens: i64,
}

impl Container {
    fn base(&self) -> i64 {
        (self.limit_m * 100).max(1000)
    }

    /// Whether its quota is the strategy's.
    fn has_base(&self) -> bool {
        self.limit_m > 0 && self.quota >= 0
    }

    fn id(&self) -> String {
        format!("containerd://{}", self.name)
    }

    /// By how much its quota counts in its pod's. What does not run stays as it is.
    fn above_base(&self) -> i64 {
        let above = self.quota - self.base();
        if self.has_base() && (self.running || above > 0) { above } else { 0 }
    }

    fn state(&self, policy: &Policy) -> ContainerState {
        let bucket = self.limiter.as_ref().map(|limiter| {
            let most = capacity(policy.cfs_quota_burst_period_seconds, policy.cfs_quota_burst);
            let counted = Nanos(NOW.0 - limiter.elapsed_whole_seconds * SECOND);
            Bucket::new(most, limiter.tokens, counted)
        });
        ContainerState { bucket, ..ContainerState::new(self.quota, self.base()) }
    }
}

fn burst_tick(row: &Row) -> Verdict {
    let containers: Vec<Container> = serde_json::from_value(row.input["containers"].clone()).unwrap();
    let policy = policy(&row.input["nodeConfig"]);
    let pod = pod(row, &containers);
    let snapshot = snapshot(&pod, policy.clone());
    let rules = rule_claims(&pod, &containers, row.int("podQuota").unwrap());
    let states = containers.iter().filter(|c| c.has_base()).map(|c| (c.id(), c.state(&policy)));
    let settings = BurstSettings { interval: Nanos(SECOND), collect_interval: Nanos(SECOND), seed: 1 };
    let state = BurstState { containers: states.collect(), blind: 0 };
    let mut strategy = CpuBurst::new(settings, BTreeMap::new()).with_state(state);
    let input = TickInput {
        snapshot: &snapshot,
        series: &series(row.text("nodeState"), &containers),
        rules: &RuleClaims::from(rules.clone()),
        now: NOW,
    };
    let mut notices = Vec::new();
    strategy.tick(&input, &mut notices);
    let mut claims = rules;
    claims.append(strategy.claims().clone());
    let plan = plan(PlanInput {
        pods: &snapshot.pods,
        topology: snapshot.topology.as_deref(),
        tree: &snapshot.tree,
        // What v1 refuses beside that is another room's matter.
        semantics: set::layout("v2").semantics(),
        claims,
        synced: BTreeSet::new(),
    });
    let is_v2 = row.text("cgroup") == "v2";
    let mut files = Map::new();
    for (container, entry) in containers.iter().zip(&pod.containers) {
        let dir = entry.dir.as_ref().unwrap();
        let stays = !container.running && held(&plan, dir, Resource::CfsQuota).is_none();
        let quota = if stays { container.quota } else { quota(&plan, dir) };
        files.insert(container.name.clone(), file(&plan, dir, quota, is_v2));
    }
    let pod_files = file(&plan, &pod.dir, quota(&plan, &pod.dir), is_v2);
    let mut got = json!({"containers": files, "pod": pod_files});
    if row.out.as_ref().is_some_and(|out| out.get("tokens").is_some()) {
        got["tokens"] = tokens(&strategy, &policy, &containers, row).into();
    }
    match row.defect.as_deref() {
        Some("Q19") => row.compare_with(&without_q19(row, &containers), &got),
        _ => verdict(row, got),
    }
}

/// The recorded answer without what the reference does to containers at -1: they stay there, and their pod does not
/// grow by what they would have become.
fn without_q19(row: &Row, containers: &[Container]) -> Value {
    let mut want = row.out.clone().unwrap();
    let is_v2 = row.text("cgroup") == "v2";
    let pod_text = want["pod"]["quota"].as_str().unwrap().to_owned();
    let mut pod: i64 = pod_text.split(' ').next().unwrap().parse().unwrap_or(-1);
    for container in containers.iter().filter(|c| c.limit_m > 0 && c.quota < 0 && c.running) {
        let quota = want["containers"][&container.name]["quota"].as_str().unwrap().to_owned();
        let became: i64 = quota.split(' ').next().unwrap().parse().unwrap();
        want["containers"][&container.name]["quota"] = quota_text(-1, is_v2).into();
        if pod > 0 {
            pod -= became + 1;
        }
    }
    want["pod"]["quota"] = quota_text(pod, is_v2).into();
    want
}

fn policy(config: &Value) -> Policy {
    let number = |name: &str, unset| config.get(name).and_then(Value::as_i64).unwrap_or(unset);
    Policy {
        policy: BurstPolicy::of_word(config["policy"].as_str().unwrap_or("")),
        // Not set: no budget, and no ceiling above the base.
        cpu_burst: Percent(number("cpuBurstPercent", 0)),
        cfs_quota_burst: Percent(number("cfsQuotaBurstPercent", 0)),
        cfs_quota_burst_period_seconds: number("cfsQuotaBurstPeriodSeconds", -1),
        share_pool_threshold: Percent(50),
    }
}

fn pod(row: &Row, containers: &[Container]) -> PodEntry {
    let spec = containers.iter().map(|c| {
        let limits = if c.limit_m > 0 { json!({"cpu": format!("{}m", c.limit_m)}) } else { json!({}) };
        json!({"name": c.name, "resources": {"limits": limits}})
    });
    let status = containers.iter().map(|c| {
        let state = if c.running { json!({"running": {}}) } else { json!({"terminated": {}}) };
        json!({"name": c.name, "containerID": c.id(), "state": state})
    });
    let mut object = json!({
        "metadata": {"namespace": "n", "name": "p", "uid": "u"},
        "spec": {"containers": spec.collect::<Vec<_>>()},
        "status": {"phase": "Running", "containerStatuses": status.collect::<Vec<_>>()},
    });
    if let Some(text) = row.input.get("podAnnotation") {
        object["metadata"]["annotations"] = json!({"koordinator.sh/cpuBurst": text});
    }
    let pod: koordlet::api::pod::Pod = serde_json::from_value(object).unwrap();
    PodEntry::new(pod, &Naming::new(CgroupDriver::Systemd, "").unwrap()).unwrap()
}

fn snapshot(pod: &PodEntry, burst: Policy) -> Snapshot {
    let pods = [(Arc::clone(&pod.uid), Arc::new(pod.clone()))].into();
    let cpus = (0..CPUS).map(|cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0 }).collect();
    Snapshot {
        pods: Arc::new(PodTable { pods, synced: true }),
        slo: Arc::new(Slo { synced: true, burst, ..Slo::default() }),
        topology: Some(Arc::new(Topology { cpus, ..Topology::default() })),
        ..Snapshot::default()
    }
}

fn rule_claims(pod: &PodEntry, containers: &[Container], pod_quota: i64) -> Claims {
    let claim = |dir: &CgroupDir, quota, owner| {
        let reason = Reason { text: "as recorded".to_owned(), inputs: BTreeMap::new() };
        let value = KernelValue::Quota(CfsQuota::from_raw(quota));
        Claim::hold(CgroupTarget::new(dir, Resource::CfsQuota), value, owner, Arc::new(reason))
    };
    let lifted = containers.iter().zip(&pod.containers).filter(|(c, _)| !c.has_base());
    let mut cgroup: Vec<Claim> =
        lifted.map(|(_, entry)| claim(entry.dir.as_ref().unwrap(), -1, Owner::CpuSetAllocator)).collect();
    let bursts: i64 = containers.iter().map(Container::above_base).sum();
    let own = if pod_quota > 0 { pod_quota - bursts } else { -1 };
    cgroup.push(claim(&pod.dir, own, Owner::CpuNormalization));
    Claims { cgroup, ..Claims::default() }
}

fn series(node: &str, containers: &[Container]) -> SharedSeries {
    let series = SharedSeries::new(SeriesSettings::default());
    let used = match node {
        "idle" => Some(10.0),
        "cooling" => Some(47.0),
        "overload" => Some(60.0),
        _ => None,
    };
    let node = used.map(|used| (SeriesKey::node(Metric::NodeCpuUsage), used));
    let containers = containers.iter().flat_map(|container| {
        let id: Arc<str> = container.id().into();
        let throttled = container.throttled.map(|share| (Metric::ContainerCpuThrottled, share));
        let used = container.usage.map(|used| (Metric::ContainerCpuUsage, used));
        let figures = throttled.into_iter().chain(used);
        figures.map(move |(metric, value)| (SeriesKey::container(metric, &id), value))
    });
    series.append(Nanos(NOW.0 - SECOND / 2), node.into_iter().chain(containers));
    series
}

fn held<'a>(plan: &'a Plan, dir: &CgroupDir, resource: Resource) -> Option<&'a KernelValue> {
    match &plan.entries.get(&CgroupTarget::new(dir, resource))?.decision {
        Decision::Hold(value) => Some(value),
        Decision::Release(_) | Decision::Leave => None,
    }
}

fn quota(plan: &Plan, dir: &CgroupDir) -> i64 {
    match &plan.entries[&CgroupTarget::new(dir, Resource::CfsQuota)].decision {
        Decision::Hold(KernelValue::Quota(quota)) | Decision::Release(KernelValue::Quota(quota)) => {
            quota.raw()
        }
        other => panic!("{dir}: {other:?}"),
    }
}

fn quota_text(quota: i64, is_v2: bool) -> String {
    match (is_v2, quota) {
        (false, quota) => quota.to_string(),
        (true, -1) => "max 100000".to_owned(),
        (true, quota) => format!("{quota} 100000"),
    }
}

fn file(plan: &Plan, dir: &CgroupDir, quota: i64, is_v2: bool) -> Value {
    let burst = held(plan, dir, Resource::CfsBurst).map_or("0".to_owned(), ToString::to_string);
    json!({"burst": burst, "quota": quota_text(quota, is_v2)})
}

/// Tokens afterwards. Where nothing bursts the strategy keeps none: there the step itself is asked.
fn tokens(strategy: &CpuBurst, policy: &Policy, containers: &[Container], row: &Row) -> Map<String, Value> {
    let with_limiter = containers.iter().filter(|container| container.limiter.is_some());
    let left = with_limiter.map(|container| {
        let known = strategy.state().containers.get(&container.id());
        let mut state = known.cloned().unwrap_or_else(|| container.state(policy));
        if known.is_none() && container.running && container.limit_m > 0 {
            let node = if row.text("nodeState") == "idle" { NodeState::Idle } else { NodeState::Cooling };
            let limit_cores = container.limit_m as f64 / 1000.0;
            let (base, throttled, used) = (container.base(), container.throttled, container.usage);
            state.step(policy, &Seen { base, limit_cores, throttled, used, node }, 0.0, NOW);
        }
        (container.name.clone(), state.bucket.map_or(Value::Null, |bucket| bucket.tokens().into()))
    });
    left.collect()
}
