//! Containers that come and go all the time leave no trace in a running agent: no line in its log, no negative
//! figure, no open file, and no series a minute after.
//!
//! `KOORDLET_TEST_CHURN_SECONDS` sets how long it goes on: 15 s unless it says otherwise (60 for a full minute),
//! since it is one of many tests.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kit::load::Work;
use kit::manifest::NODE;
use kit::{
    Agent, Class, Load, Manifests, NodeManifest, NodeSloManifest, PodManifest, RunningAgent, Tree, need,
    offers,
};

const CHURN: Duration = Duration::from_secs(15);
/// Pods made and removed each second, and containers in each: 20 a second.
const PODS: usize = 5;
const CONTAINERS: usize = 4;
/// Seconds for which a pod lives.
const LIFE: usize = 2;
/// How long the series of what is gone may stay.
const GRACE: Duration = Duration::from_mins(1);

/// One second's pods. The loads go first, then the directories.
struct Generation {
    loads: Vec<Load>,
    pods: Vec<PodManifest>,
}

struct Field {
    tree: Tree,
    manifests: Manifests,
    alive: VecDeque<Generation>,
    born: usize,
}

impl Field {
    fn new() -> Result<Self> {
        let (tree, manifests) = (Tree::new()?, Manifests::new()?);
        manifests.write("node", &NodeManifest::this_host(NODE))?;
        manifests.write("slo", &NodeSloManifest::off(NODE))?;
        let steady = pod("steady", "5eed");
        tree.make_pod(&steady)?;
        manifests.write("steady", &steady)?;
        let field = Self { tree, manifests, alive: VecDeque::new(), born: 0 };
        field.tell()?;
        Ok(field)
    }

    /// A second's pods are made, and those that have lived long enough removed: directories before manifests, as
    /// a runtime is ahead of the API.
    fn step(&mut self) -> Result<()> {
        let mut generation = Generation { loads: Vec::new(), pods: Vec::new() };
        for _ in 0..PODS {
            self.born += 1;
            let pod = pod(&format!("pod-{}", self.born), &format!("{:06x}", self.born));
            let dirs = self.tree.make_pod(&pod)?;
            generation.loads.push(self.tree.load(&dirs.container("c0"), Work::Duty { percent: 5 })?);
            generation.pods.push(pod);
        }
        self.alive.push_back(generation);
        if self.alive.len() > LIFE {
            self.end_oldest()?;
        }
        self.tell()
    }

    fn end_oldest(&mut self) -> Result<()> {
        let Some(Generation { loads, pods }) = self.alive.pop_front() else { return Ok(()) };
        drop(loads);
        pods.iter().try_for_each(|pod| self.tree.remove(&self.tree.pod_dirs(pod).pod))
    }

    fn tell(&self) -> Result<()> {
        let pods: Vec<PodManifest> = self.alive.iter().flat_map(|each| each.pods.clone()).collect();
        self.manifests.write_pods("churn", &pods)
    }
}

fn pod(name: &str, id: &str) -> PodManifest {
    (0..CONTAINERS).fold(PodManifest::new(name, Class::Burstable).qos("LS"), |pod, index| {
        pod.container(&format!("c{index}"), &format!("{id}{index}"), |spec| spec.request("cpu", "10m"))
    })
}

fn churn_time() -> Result<Duration> {
    match std::env::var("KOORDLET_TEST_CHURN_SECONDS") {
        Ok(text) => Ok(Duration::from_secs(text.parse().context("KOORDLET_TEST_CHURN_SECONDS")?)),
        Err(_) => Ok(CHURN),
    }
}

fn series(agent: &mut RunningAgent<'_>) -> Result<f64> {
    agent.metric("koordlet_series")
}

fn open_files(agent: &RunningAgent<'_>) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{}/fd", agent.pid()))?.count())
}

/// Lines of a page of metrics whose value is negative.
fn negative(page: &str) -> Vec<&str> {
    let is_negative = |line: &&str| line.rsplit(' ').next().is_some_and(|value| value.starts_with('-'));
    page.lines().filter(|line| !line.starts_with('#')).filter(is_negative).collect()
}

#[test]
fn c054_c199_containers_that_come_and_go_leave_nothing_behind() -> Result<()> {
    need!(offers::cgroups());
    let mut field = Field::new()?;
    let agent = Agent::of(&field.tree, &field.manifests)?;
    let mut running = agent.start()?;
    // A pod and its containers have four figures each of the first rounds.
    let at_rest = |running: &mut RunningAgent<'_>| series(running).is_ok_and(|count| count > 3.0 * 5.0);
    ensure!(kit::until(GRACE, || at_rest(&mut running)), "no series of the steady pod: {}", running.log());
    std::thread::sleep(Duration::from_secs(2));
    let (series_before, files_before) = (series(&mut running)?, open_files(&running)?);
    let log_before = running.log().len();

    let (end, mut most) = (Instant::now() + churn_time()?, 0.0f64);
    while Instant::now() < end {
        let second = Instant::now();
        field.step()?;
        let page = running.metrics()?;
        ensure!(negative(&page).is_empty(), "{:?}", negative(&page));
        most = most.max(series(&mut running)?);
        std::thread::sleep(Duration::from_secs(1).saturating_sub(second.elapsed()));
    }
    while !field.alive.is_empty() {
        field.end_oldest()?;
    }
    field.tell()?;
    ensure!(most > series_before, "no container of {} was ever seen", field.born * CONTAINERS);
    let mut after = (0.0, 0);
    let settled = kit::until(GRACE, || {
        after = (series(&mut running).unwrap_or(f64::MAX), open_files(&running).unwrap_or(usize::MAX));
        after.0 <= series_before && after.1 <= files_before
    });
    ensure!(settled, "series {series_before}, files {files_before} before; {after:?} after");
    let log = running.log();
    let lines: Vec<_> = log.get(log_before..).unwrap_or_default().lines().collect();
    let told: Vec<_> = lines.iter().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    ensure!(told.is_empty(), "{told:#?}");
    Ok(())
}
