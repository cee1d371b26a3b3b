//! Attributes of tasks on the real kernel with the real binary: OOM scores of a container's processes, from the
//! annotation to the file and back, and core scheduling on a kernel that need not have it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::agent::{Agent, RunningAgent};
use kit::manifest::{Manifests, NODE, NodeManifest, NodeSloManifest, PodManifest};
use kit::{Class, Controller, Tree, need, offers, until, until_value};
use koordlet::sys::core_sched_cookie;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const PLAIN: &str = "koordinator.sh/oom-score-adj";
const SPEC: &str = "koordinator.sh/oom-score-adj-spec";

/// A process that joins from outside is found within half of this.
const NEXT_LOOK: Duration = Duration::from_mins(1);

fn score(pid: u32) -> Option<i32> {
    fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).ok()?.trim().parse().ok()
}

/// Waits for a process's score.
fn score_becomes(pid: u32, wanted: i32, patience: Duration) -> Result<()> {
    let seen = until_value(patience, || score(pid), |score| *score == Some(wanted));
    ensure!(seen == Some(wanted), "process {pid}: {seen:?}, not {wanted}");
    Ok(())
}

/// A shell that makes a busy child when it is told to; both end with this.
struct Parent {
    shell: Child,
    child: Option<Pid>,
}

impl Parent {
    fn start(tree: &Tree, dir: &str) -> Result<Self> {
        let script = "read -r line; while :; do :; done & echo $!; wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let parent = Self { shell: command.spawn()?, child: None };
        tree.attach(dir, parent.shell.id())?;
        Ok(parent)
    }

    fn fork(&mut self) -> Result<u32> {
        let (stdin, stdout) = (self.shell.stdin.as_mut(), self.shell.stdout.as_mut());
        writeln!(stdin.context("no stdin")?, "go")?;
        let mut line = String::new();
        BufReader::new(stdout.context("no stdout")?).read_line(&mut line)?;
        let pid: u32 = line.trim().parse()?;
        self.child = Some(Pid::from_raw(pid.try_into()?));
        Ok(pid)
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        // Both fail only for what has ended already.
        if let Some(child) = self.child {
            kill(child, Signal::SIGKILL).ok();
        }
        self.shell.kill().ok();
        self.shell.wait().ok();
    }
}

struct Scene {
    tree: Tree,
    manifests: Manifests,
    app: String,
    side: String,
}

fn pod(annotations: &[(&str, &str)]) -> PodManifest {
    let pod = PodManifest::new("web", Class::Burstable).qos("LS");
    let pod = pod.container("app", "webc0", |container| container.cpu_limit("1"));
    let pod = pod.container("side", "webc1", |container| container.cpu_limit("1"));
    annotations.iter().fold(pod, |pod, (key, text)| pod.annotation(key, text))
}

impl Scene {
    fn new() -> Result<Self> {
        let (tree, manifests) = (Tree::new()?, Manifests::new()?);
        let dirs = tree.make_pod(&pod(&[]))?;
        manifests.write("node", &NodeManifest::this_host(NODE))?;
        Ok(Self { tree, manifests, app: dirs.container("app"), side: dirs.container("side") })
    }

    fn annotate(&self, annotations: &[(&str, &str)]) -> Result<()> {
        self.manifests.write("pod", &pod(annotations))
    }

    fn agent(&self) -> Result<Agent> {
        Ok(Agent::of(&self.tree, &self.manifests)?.flag("feature-gates", "OOMScoreAdj=true,CoreSched=true"))
    }

    /// What `explain` says of the score of a container.
    fn explained(&self, running: &RunningAgent<'_>, dir: &str) -> Result<Value> {
        let path = self.tree.file(Controller::Cpu, dir, "oom_score_adj");
        running.explain_path(&path)?.with_context(|| format!("{} is not explained", path.display()))
    }
}

#[test]
fn scores_of_all_processes_follow_the_annotations_and_come_back() -> Result<()> {
    need!(offers::cgroups());
    let scene = Scene::new()?;
    let spinner = scene.tree.spin(&scene.app, 1)?;
    let mut parent = Parent::start(&scene.tree, &scene.app)?;
    let other = scene.tree.spin(&scene.side, 2)?;
    let before = score(spinner.pid()).context("a score")?;
    scene.annotate(&[(SPEC, r#"{"app":700}"#), (PLAIN, "300")])?;
    let agent = scene.agent()?;
    let mut running = agent.start()?;
    for (pid, wanted) in [(spinner.pid(), 700), (parent.shell.id(), 700), (other.pid(), 300)] {
        score_becomes(pid, wanted, kit::patience())?;
    }
    ensure!(score(running.pid()) == Some(before), "the agent itself is left alone");
    let child = parent.fork()?;
    ensure!(score(child) == Some(700), "children inherit");
    let report = scene.explained(&running, &scene.app)?;
    ensure!(report["state"] == "held" && report["value"] == "700", "{report}");
    let replaced = report["replaced"].as_str().and_then(|text| text.parse().ok());
    ensure!(report["owner"] == "OomScoreAdj" && replaced == Some(before), "{report}");
    ensure!(report["detail"].as_str().is_some_and(|detail| detail.ends_with("tasks")), "{report}");
    let is_shown = |line: &str| {
        line.starts_with("koordlet_container_oom_score_adj{")
            && line.contains("container_name=\"side\"")
            && line.ends_with(" 300")
    };
    let shown = until(kit::patience(), || running.metrics().is_ok_and(|text| text.lines().any(is_shown)));
    ensure!(shown, "no series of the score of side");

    // One that comes from outside, as with exec, has what its maker has.
    let late = scene.tree.spin(&scene.app, 1)?;
    score_becomes(late.pid(), 700, NEXT_LOOK)?;

    scene.annotate(&[(PLAIN, "400")])?;
    for pid in [spinner.pid(), child, late.pid(), other.pid()] {
        score_becomes(pid, 400, kit::patience())?;
    }
    scene.annotate(&[])?;
    for pid in [spinner.pid(), parent.shell.id(), child, late.pid(), other.pid()] {
        score_becomes(pid, before, kit::patience())?;
    }
    ensure!(running.stop()?.success());
    Ok(())
}

#[test]
fn an_agent_that_stops_leaves_scores_and_restores_them_when_asked_to() -> Result<()> {
    need!(offers::cgroups());
    let scene = Scene::new()?;
    let spinner = scene.tree.spin(&scene.app, 1)?;
    let before = score(spinner.pid()).context("a score")?;
    scene.annotate(&[(PLAIN, "600")])?;
    let agent = scene.agent()?;
    let running = agent.start()?;
    score_becomes(spinner.pid(), 600, kit::patience())?;
    ensure!(running.stop()?.success());
    ensure!(score(spinner.pid()) == Some(600), "an upgrade lets go of nothing");
    // The next agent cannot know what this process had before; it knows that of one that it changes itself.
    let running = agent.start()?;
    let held = || scene.explained(&running, &scene.app).is_ok_and(|report| report["state"] == "held");
    ensure!(until(kit::patience(), held), "{:?}", scene.explained(&running, &scene.app));
    let late = scene.tree.spin(&scene.app, 1)?;
    score_becomes(late.pid(), 600, NEXT_LOOK)?;
    let output = agent.verb("restore", &[])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    score_becomes(late.pid(), before, kit::patience())?;
    ensure!(score(spinner.pid()) == Some(600));
    ensure!(running.stop()?.success());
    Ok(())
}

/// The kernel lets a value go below what a process may have with CAP_SYS_RESOURCE alone: both answers are right.
#[test]
fn a_lowered_score_holds_or_the_kernels_answer_is_told() -> Result<()> {
    need!(offers::cgroups());
    let scene = Scene::new()?;
    let spinner = scene.tree.spin(&scene.app, 1)?;
    scene.annotate(&[(SPEC, r#"{"app":-50}"#)])?;
    let agent = scene.agent()?;
    let running = agent.start()?;
    let settled = |report: &Result<Value>| {
        report.as_ref().is_ok_and(|report| report["state"] == "held" || report["state"] == "refused")
    };
    let report = until_value(kit::patience(), || scene.explained(&running, &scene.app), settled)?;
    if report["state"] == "held" {
        ensure!(score(spinner.pid()) == Some(-50), "{report}");
    } else {
        ensure!(report["detail"].as_str().is_some_and(|detail| detail.contains("EACCES")), "{report}");
        ensure!(score(spinner.pid()) != Some(-50) && running.log().contains("EACCES"), "{report}");
    }
    ensure!(running.stop()?.success());
    Ok(())
}

#[test]
fn core_scheduling_gives_a_pod_a_cookie_or_claims_nothing() -> Result<()> {
    need!(offers::cgroups());
    let scene = Scene::new()?;
    let spinner = scene.tree.spin(&scene.app, 1)?;
    let cookie = || core_sched_cookie(Some(Pid::from_raw(spinner.pid().try_into().unwrap_or_default())));
    scene.annotate(&[])?;
    let strategy = json!({"policies": {"cpuPolicy": "coreSched"}, "lsClass": {"cpuQOS": {"enable": true}}});
    scene.manifests.write("slo", &NodeSloManifest::new(NODE, json!({"resourceQOSStrategy": strategy})))?;
    let agent = scene.agent()?;
    let running = agent.start()?;
    let told = until(kit::patience(), || running.log().contains("CoreSched"));
    ensure!(told, "the rule is told: {}", running.log());
    if core_sched_cookie(None).is_ok() {
        ensure!(until(kit::patience(), || cookie().is_ok_and(|cookie| cookie != 0)), "{:?}", cookie());
        scene.manifests.write("slo", &NodeSloManifest::off(NODE))?;
        ensure!(until(kit::patience(), || cookie().is_ok_and(|cookie| cookie == 0)), "{:?}", cookie());
    } else {
        ensure!(running.log().contains("this kernel has no core scheduling"), "{}", running.log());
        let all = running.explain(None)?;
        ensure!(!all.to_string().contains("core_sched_cookie"), "{all}");
    }
    ensure!(running.stop()?.success());
    Ok(())
}
