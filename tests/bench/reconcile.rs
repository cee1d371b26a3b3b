//! What it costs to reconcile 1,000 containers: with nothing to change, with one pod changed, and with a quota to change
//! in each container. CPU time of the whole agent, beside an agent that reads, compares and writes each file.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kit::manifest::NODE;
use kit::{Agent, Class, Controller, NodeManifest, PodManifest, RunningAgent, Tree, until};

use crate::field::{BATCH_MILLI, BATCH_QUOTA, Field};
use crate::process::cpu_time;
use crate::row::Row;

/// Pods, every second of them best-effort, and containers of each.
const PODS: usize = 100;
const CONTAINERS: u8 = 10;
/// Quota of a container of a latency-sensitive pod, one core.
const SERVICE_QUOTA: i64 = 100_000;
/// Ratios that the node is given in turn.
const RATIOS: [&str; 2] = ["1.25", "2.00"];
/// Time until first passes are over.
const SETTLING: Duration = Duration::from_secs(8);
/// How long the agent is watched at rest.
const REST: Duration = Duration::from_secs(10);
/// Reconciles without a change that are measured, and how far apart: longer than births are gathered for.
const ROUNDS: u32 = 60;
const PAUSE: Duration = Duration::from_millis(60);
/// Reconciles with changes.
const CHANGES: u32 = 10;
/// No reconcile takes this long, unless something is broken.
const LIMIT: Duration = Duration::from_mins(1);
/// The agent's own count of plans.
const PLANS: &str = "koordlet_part_runs_total{node=\"node-1\",part=\"plan\"}";

/// The rows of this section.
pub(crate) fn thousand_containers() -> Result<Vec<Row>> {
    let field = Field::of((0..PODS).map(|index| pod(index, "1")).collect())?;
    // In files of their own, so that one pod's manifest can change.
    for (index, pod) in field.pods.iter().enumerate() {
        field.manifests.write(&format!("pod-{index}"), pod)?;
    }
    field.manifests.remove("pods")?;
    let files = Files::of(&field);
    let agent = Agent::of(&field.tree, &field.manifests)?.flag("feature-gates", "CPUNormalization=true");
    set_ratio(&field, 0)?;
    let mut running = agent.start()?;
    files.until_quotas(ratio(0))?;
    sleep(SETTLING);
    let rest = Rest::of(&running)?;
    let nothing = nothing(&field, &mut running, rest)?;
    let one = one_pod(&field, &files, &running, rest)?;
    let all = all(&field, &files, &running, rest)?;
    // Its writes would be foreign ones.
    drop(running);
    Ok(vec![
        nothing.against(files.naive_round(None)?).at_most(5.0),
        one.against(files.naive_round(None)?),
        all.against(files.naive_change()?),
    ])
}

/// Reconciles because of a directory that is no pod's and comes and goes.
fn nothing(field: &Field, agent: &mut RunningAgent<'_>, rest: Rest) -> Result<Row> {
    let within = field.containers().next().context("a container")?;
    let stray = format!("{within}/stray");
    let (before, watch) = (agent.metric(PLANS)?, Watch::start(agent)?);
    for _ in 0..ROUNDS / 2 {
        field.tree.make(&stray)?;
        sleep(PAUSE);
        field.tree.remove(&stray)?;
        sleep(PAUSE);
    }
    let used = watch.millis(agent, rest)?;
    let plans = agent.metric(PLANS)? - before;
    ensure!(plans >= f64::from(ROUNDS) * 0.8, "{plans} reconciles for {ROUNDS} births and deaths");
    Ok(Row::new("CPU of a reconcile, 1,000 containers, nothing to change", used / plans, "ms"))
}

/// One pod gets another limit and back again; its manifest is read as part of it.
fn one_pod(field: &Field, files: &Files, agent: &RunningAgent<'_>, rest: Rest) -> Result<Row> {
    let dir = field.containers().next().context("a container")?;
    let watch = Watch::start(agent)?;
    for round in 0..CHANGES {
        let cores = if round % 2 == 0 { "2" } else { "1" };
        field.manifests.write("pod-0", &pod(0, cores))?;
        let quota = SERVICE_QUOTA * cores.parse::<i64>()?;
        let held = || field.tree.cfs_quota(&dir).is_ok_and(|now| now == scaled(quota, ratio(0)));
        ensure!(until(LIMIT, held), "the limit of one pod is not followed");
    }
    files.until_quotas(ratio(0))?;
    let used = watch.millis(agent, rest)? / f64::from(CHANGES);
    Ok(Row::new("CPU of a reconcile, 1,000 containers, one pod changed", used, "ms"))
}

/// The node's ratio changes.
fn all(field: &Field, files: &Files, agent: &RunningAgent<'_>, rest: Rest) -> Result<Row> {
    let watch = Watch::start(agent)?;
    for round in 1..=CHANGES as usize {
        set_ratio(field, round)?;
        files.until_quotas(ratio(round))?;
    }
    let used = watch.millis(agent, rest)? / f64::from(CHANGES);
    Ok(Row::new("CPU of a reconcile, 1,000 containers, all quotas to change", used, "ms"))
}

fn pod(index: usize, cores: &str) -> PodManifest {
    let is_batch = index % 2 == 1;
    let pod = if is_batch {
        PodManifest::new(&format!("batch-{index}"), Class::BestEffort).qos("BE")
    } else {
        PodManifest::new(&format!("service-{index}"), Class::Burstable).qos("LS")
    };
    (0..CONTAINERS).fold(pod, |pod, container| {
        let id = format!("{:08x}{:08x}", index + 1, container + 1);
        pod.container(&format!("c{container}"), &id, |spec| {
            if is_batch { spec.batch(BATCH_MILLI, 64 << 20) } else { spec.cpu_limit(cores) }
        })
    })
}

fn set_ratio(field: &Field, round: usize) -> Result<()> {
    let text = RATIOS[round % RATIOS.len()];
    field.manifests.write("node", &NodeManifest::this_host(NODE).normalization_ratio(text))
}

fn ratio(round: usize) -> f64 {
    RATIOS[round % RATIOS.len()].parse().unwrap_or(1.0)
}

/// hooks.md 9.4.
#[expect(clippy::cast_possible_truncation, reason = "a quota divided by at least 1")]
fn scaled(quota: i64, ratio: f64) -> i64 {
    (quota as f64 / ratio).ceil() as i64
}

/// What the agent uses when nothing happens.
#[derive(Clone, Copy)]
struct Rest {
    millis_a_second: f64,
}

impl Rest {
    fn of(agent: &RunningAgent<'_>) -> Result<Self> {
        let watch = Watch::start(agent)?;
        sleep(REST);
        let used = watch.millis(agent, Self { millis_a_second: 0.0 })?;
        Ok(Self { millis_a_second: used / REST.as_secs_f64() })
    }
}

/// CPU time from here on.
struct Watch {
    used: Duration,
    start: Instant,
}

impl Watch {
    fn start(agent: &RunningAgent<'_>) -> Result<Self> {
        Ok(Self { used: cpu_time(agent.pid())?, start: Instant::now() })
    }

    /// Milliseconds so far, without what it would have used at rest.
    fn millis(&self, agent: &RunningAgent<'_>, rest: Rest) -> Result<f64> {
        let used = cpu_time(agent.pid())?.saturating_sub(self.used).as_secs_f64() * 1000.0;
        Ok((used - rest.millis_a_second * self.start.elapsed().as_secs_f64()).max(0.0))
    }
}

/// All files that the agent holds a value in.
struct Files<'a> {
    tree: &'a Tree,
    /// Directory and quota without a ratio.
    quotas: Vec<(String, i64)>,
    paths: Vec<PathBuf>,
    quota_paths: Vec<PathBuf>,
}

impl<'a> Files<'a> {
    fn of(field: &'a Field) -> Self {
        let tree = &field.tree;
        let (mut quotas, mut paths) = (Vec::new(), Vec::new());
        let batch = if tree.is_v2() {
            [(Controller::Cpu, "cpu.weight"), (Controller::Memory, "memory.max")]
        } else {
            [(Controller::Cpu, "cpu.shares"), (Controller::Memory, "memory.limit_in_bytes")]
        };
        for (pod, dirs) in field.pods.iter().zip(&field.dirs) {
            let is_batch = pod.class() == Class::BestEffort;
            let containers = pod.container_ids().map(|(name, _)| dirs.container(name));
            let own = if is_batch { BATCH_QUOTA } else { SERVICE_QUOTA };
            let mut all: Vec<(String, i64)> = containers.map(|dir| (dir, own)).collect();
            // On v1 the pod directory of a service stays as it is, design.md 4.
            if is_batch || tree.is_v2() {
                all.push((dirs.pod.clone(), own * i64::from(CONTAINERS)));
            }
            if is_batch {
                let files = all.iter().flat_map(|(dir, _)| batch.map(|(c, name)| tree.file(c, dir, name)));
                paths.extend(files);
            }
            quotas.extend(all);
        }
        let quota_paths: Vec<PathBuf> = quotas.iter().map(|(dir, _)| tree.cfs_quota_file(dir)).collect();
        paths.extend(quota_paths.iter().cloned());
        Self { tree, quotas, paths, quota_paths }
    }

    fn until_quotas(&self, ratio: f64) -> Result<()> {
        let mut wrong = String::new();
        let right = until(LIMIT, || {
            // Not all the time: the machine is shared with the agent.
            sleep(Duration::from_millis(20));
            let first = self.quotas.iter().find_map(|(dir, quota)| {
                let (now, want) = (self.tree.cfs_quota(dir).ok()?, scaled(*quota, ratio));
                (now != want).then(|| format!("{dir} has {now} instead of {want}"))
            });
            wrong = first.unwrap_or_default();
            wrong.is_empty()
        });
        if right { Ok(()) } else { bail!("{wrong}") }
    }

    /// CPU time in milliseconds of one round over all files: open, read, compare with what is to be there; with
    /// `change`, over all quotas, which are written if they differ.
    fn naive_round(&self, change: Option<&[String]>) -> Result<f64> {
        let paths = if change.is_some() { &self.quota_paths } else { &self.paths };
        let wanted = match change {
            Some(texts) => texts.to_vec(),
            None => paths.iter().map(fs::read_to_string).collect::<Result<_, _>>()?,
        };
        let before = cpu_time(std::process::id())?;
        let mut same = 0;
        for (path, want) in paths.iter().zip(&wanted) {
            let mut text = String::new();
            File::open(path)?.read_to_string(&mut text)?;
            if text.trim() == want.trim() {
                same += 1;
            } else {
                File::options().write(true).open(path)?.write_all(want.as_bytes())?;
            }
        }
        let used = cpu_time(std::process::id())?.saturating_sub(before);
        ensure!(change.is_some() || same == paths.len(), "{same} of {} files are as they were", paths.len());
        Ok(used.as_secs_f64() * 1000.0)
    }

    fn naive_change(&self) -> Result<f64> {
        let texts = |ratio: f64| -> Vec<String> {
            self.quotas.iter().map(|(_, quota)| scaled(*quota, ratio).to_string()).collect()
        };
        let (up, down) = (self.naive_round(Some(&texts(3.0)))?, self.naive_round(Some(&texts(4.0)))?);
        Ok(f64::midpoint(up, down))
    }
}
