//! A hundred pods of mixed classes as real cgroups, under a policy that changes a hundred times: after each change every
//! file that the hook rules manage equals what `checks/hook_rules.py`, a program of its own, says of it, and every other
//! file what the kubelet and the runtime wrote. The same run shows that the comparison can fail: each formula of the
//! oracle that is broken on purpose disagrees with the kernel's files at some point.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use kit::hook_worlds::{GATES, World, pods, worlds};
use kit::manifest::NODE;
use kit::skip::note;
use kit::{Agent, Controller, Manifests, NodeManifest, NodeSloManifest, RunningAgent, Tree, need, offers};
use serde::Deserialize;
use serde_json::{Value, json};

/// What the oracle says of one world: directory -> file -> text.
#[derive(Deserialize)]
struct Answer {
    files: BTreeMap<String, BTreeMap<String, Option<String>>>,
    native: BTreeMap<String, BTreeMap<String, String>>,
}

/// Where answers lie that were made in advance, for a machine without Python.
const IN_ADVANCE: &str = "KOORDLET_TEST_ORACLE";

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("checks/hook_rules.py")
}

fn offers_oracle() -> offers::Offer {
    if std::env::var_os(IN_ADVANCE).is_some() { Ok(()) } else { offers::program("python3") }
}

/// Answers to all worlds, with one formula broken if a mutation is named.
fn answers(lines: &str, mutation: Option<&str>) -> Result<Vec<Answer>> {
    let text = match std::env::var_os(IN_ADVANCE) {
        Some(folder) => {
            let file = Path::new(&folder).join(mutation.unwrap_or("answers"));
            std::fs::read_to_string(&file).with_context(|| file.display().to_string())?
        }
        None => ask(lines, mutation)?,
    };
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn ask(lines: &str, mutation: Option<&str>) -> Result<String> {
    let mut command = Command::new("python3");
    command.arg(script()).stdin(Stdio::piped()).stdout(Stdio::piped());
    if let Some(mutation) = mutation {
        command.args(["--mutation", mutation]);
    }
    let mut oracle = command.spawn().context("starting the oracle")?;
    let mut stdin = oracle.stdin.take().context("the oracle's stdin")?;
    let output = std::thread::scope(|scope| {
        // It answers while it is still asked.
        scope.spawn(move || stdin.write_all(lines.as_bytes()));
        oracle.wait_with_output()
    })?;
    ensure!(output.status.success(), "the oracle ended with {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

fn mutations() -> Result<Vec<String>> {
    if let Some(folder) = std::env::var_os(IN_ADVANCE) {
        let names =
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let names: Vec<String> = names.collect::<Result<_>>()?;
        return Ok(names.into_iter().filter(|name| name != "answers").collect());
    }
    let output = Command::new("python3").arg(script()).arg("--list-mutations").output()?;
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

/// The pods' directories, and what is in their files.
struct Pods {
    tree: Tree,
    /// Texts before the agent started.
    initial: BTreeMap<(String, String), String>,
}

impl Pods {
    /// Makes all directories and writes what the kubelet and the runtime would.
    fn make(answer: &Answer) -> Result<Self> {
        let mut pods = Self { tree: Tree::new()?, initial: BTreeMap::new() };
        for dir in answer.files.keys() {
            pods.tree.make(&pods.dir(dir))?;
        }
        // Outside in: a child's quota above its parent's is refused.
        for (dir, files) in &answer.native {
            for (file, text) in files {
                pods.tree.write(controller(file), &pods.dir(dir), file, text)?;
            }
        }
        for (dir, files) in &answer.files {
            for file in files.keys() {
                let text = pods.read(dir, file)?;
                pods.initial.insert((dir.clone(), file.clone()), text);
            }
        }
        Ok(pods)
    }

    fn dir(&self, dir: &str) -> String {
        format!("{}/{dir}", self.tree.root())
    }

    fn read(&self, dir: &str, file: &str) -> Result<String> {
        self.tree.read(controller(file), &self.dir(dir), file)
    }

    /// The first file that is not as an answer says.
    fn difference(&self, answer: &Answer) -> Option<String> {
        answer.files.iter().find_map(|(dir, files)| {
            files.iter().find_map(|(file, wanted)| {
                let managed = wanted.as_deref();
                let initial = || self.initial.get(&(dir.clone(), file.clone())).map(String::as_str);
                let wanted = managed.or_else(initial).unwrap_or("no such file");
                let found = if wanted == "any" { return None } else { self.read(dir, file) };
                let found = found.unwrap_or_else(|error| format!("{error:#}"));
                let who = if managed.is_some() { "managed" } else { "unmanaged" };
                (found != wanted).then(|| format!("{dir} {file}: {found:?}, not {wanted:?} ({who})"))
            })
        })
    }

    /// Waits until there is no difference.
    fn become_as(&self, answer: &Answer) -> Result<()> {
        let mut difference = None;
        let same = kit::until(kit::patience(), || {
            // Not all the time: the agent needs the CPU more.
            std::thread::sleep(std::time::Duration::from_millis(20));
            difference = self.difference(answer);
            difference.is_none()
        });
        if same { Ok(()) } else { bail!("{}", difference.unwrap_or_default()) }
    }
}

fn controller(file: &str) -> Controller {
    match file.split('.').next() {
        Some("cpuset") => Controller::Cpuset,
        Some("memory") => Controller::Memory,
        _ => Controller::Cpu,
    }
}

fn write_world(manifests: &Manifests, world: &World) -> Result<()> {
    let mut node = NodeManifest::this_host(NODE);
    for (key, text) in &world.node {
        node = node.annotation(key, text.as_str().unwrap_or_default());
    }
    manifests.write("node", &node)?;
    let topology = json!({
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": NODE, "annotations": world.topology},
    });
    manifests.write("topology", &topology)?;
    manifests.write("slo", &NodeSloManifest::new(NODE, world.slo.clone()))
}

/// No value is refused or on its way, and the rules' own say so.
fn nothing_is_open(running: &RunningAgent<'_>) -> Result<()> {
    let explained = running.explain(None)?;
    let targets = explained["targets"].as_array().context("targets")?;
    let open = |target: &&Value| !matches!(target["state"].as_str(), Some("held" | "left"));
    ensure!(!targets.is_empty(), "nothing is explained");
    match targets.iter().find(open) {
        Some(target) => bail!("not settled: {target}"),
        None => Ok(()),
    }
}

#[test]
fn a_hundred_pods_follow_the_rules_through_a_hundred_changes() -> Result<()> {
    need!(offers::cgroups());
    need!(offers_oracle());
    let cgroup = if kit::Hierarchies::of_this_host()?.is_v2() { "v2" } else { "v1" };
    let (mut worlds, objects) = (worlds(), pods());
    // Some of them tell enough of the other version, and an emulated machine is slow.
    worlds.truncate(kit::guest_scale(worlds.len(), 20));
    let lines: Vec<String> = worlds.iter().map(|w| w.for_oracle(cgroup, &objects).to_string()).collect();
    let lines = lines.join("\n");
    let answers_to = |mutation: Option<&str>| answers(&lines, mutation);
    let right = answers_to(None)?;
    let mut wrong: BTreeMap<String, Vec<Answer>> = BTreeMap::new();
    for mutation in mutations()? {
        wrong.insert(mutation.clone(), answers_to(Some(&mutation))?);
    }

    let pods = Pods::make(right.first().context("an answer")?)?;
    let manifests = Manifests::new()?;
    manifests.write("pods", &json!({"apiVersion": "v1", "kind": "PodList", "items": objects}))?;
    write_world(&manifests, worlds.first().context("a world")?)?;
    let gates: Vec<String> = GATES.iter().map(|(gate, on)| format!("{gate}={on}")).collect();
    let agent = Agent::of(&pods.tree, &manifests)?.flag("feature-gates", gates.join(","));
    let running = agent.start()?;

    let (mut noticed, mut managed) = (BTreeSet::new(), 0);
    for (number, (world, answer)) in worlds.iter().zip(&right).enumerate() {
        write_world(&manifests, world)?;
        pods.become_as(answer).with_context(|| format!("world {number}: {world:?}\n{}", running.log()))?;
        if number % 10 == 0 {
            nothing_is_open(&running).with_context(|| format!("world {number}"))?;
        }
        managed += answer.files.values().flat_map(BTreeMap::values).flatten().count();
        for (mutation, answers) in &wrong {
            let differs = answers.get(number).is_some_and(|wrong| pods.difference(wrong).is_some());
            if differs {
                noticed.insert(mutation.clone());
            }
        }
    }
    note(format_args!("hook rules: {} worlds, {managed} managed values as the oracle says", worlds.len()));
    let told: BTreeSet<String> = wrong.into_keys().filter(|name| can_be_seen(name, cgroup)).collect();
    let missed: Vec<&String> = told.difference(&noticed).collect();
    ensure!(missed.is_empty(), "not noticed by any world: {missed:?}");

    ensure!(running.stop()?.success());
    let output = agent.verb("restore", &[])?;
    ensure!(output.status.success(), "restore: {output:?}");
    for ((dir, file), text) in pods.initial.iter().filter(|((_, file), _)| !file.starts_with("cpuset")) {
        let found = pods.read(dir, file)?;
        ensure!(found == *text, "{dir} {file} is {found} after a restore, and was {text}");
    }
    Ok(())
}

/// Whether a broken formula changes anything on this kernel and under the gates of the worlds.
fn can_be_seen(mutation: &str, cgroup: &str) -> bool {
    match mutation {
        "pod-lowered-without-hooks" => cgroup == "v1",
        _ => true,
    }
}
