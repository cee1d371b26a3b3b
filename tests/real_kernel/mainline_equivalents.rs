//! `--mainline-equivalents` on a kernel without `cpu.bvt_warp_ns`: best-effort pods become idle, LS pods heavier, and
//! both get back what they had when policy or flag go.

use anyhow::{Context as _, Result};
use kit::agent::{Agent, RunningAgent};
use kit::manifest::{Manifests, NODE, NodeManifest, NodeSloManifest, PodManifest};
use kit::tree::PodDirs;
use kit::{Class, Controller, Tree, need, offers, until_value};
use serde_json::{Value, json};

/// A node with a best-effort pod and an LS pod that asks for half a CPU.
struct Node {
    tree: Tree,
    manifests: Manifests,
    hog: PodDirs,
    web: PodDirs,
}

fn identities(enable: bool) -> NodeSloManifest {
    let class = |identity: i64| json!({"cpuQOS": {"enable": enable, "groupIdentity": identity}});
    let classes = json!({"lsClass": class(2), "beClass": class(-1)});
    NodeSloManifest::new(NODE, json!({"resourceQOSStrategy": classes}))
}

impl Node {
    fn new() -> Result<Self> {
        let (tree, manifests) = (Tree::new()?, Manifests::new()?);
        let hog = PodManifest::new("hog", Class::BestEffort).qos("BE").container("app", "hog0", |app| app);
        let web = PodManifest::new("web", Class::Burstable)
            .qos("LS")
            .container("app", "web0", |app| app.request("cpu", "500m"));
        let node = Self { hog: tree.make_pod(&hog)?, web: tree.make_pod(&web)?, tree, manifests };
        // What a kubelet and a runtime leave behind.
        for (dir, shares) in [(&node.hog.pod, 2), (&node.hog.container("app"), 2), (&node.web.pod, 512)] {
            node.set_shares(dir, shares)?;
        }
        node.manifests.write_pods("pods", [&hog, &web])?;
        node.manifests.write("node", &NodeManifest::this_host(NODE))?;
        node.manifests.write("slo", &identities(true))?;
        Ok(node)
    }

    fn agent(&self) -> Result<Agent> {
        Agent::of(&self.tree, &self.manifests)
    }

    fn shares_file(&self) -> &'static str {
        if self.tree.is_v2() { "cpu.weight" } else { "cpu.shares" }
    }

    fn set_shares(&self, dir: &str, shares: u64) -> Result<()> {
        let weight = 1 + (shares - 2) * 9999 / 262_142;
        let text = if self.tree.is_v2() { weight } else { shares }.to_string();
        self.tree.write(Controller::Cpu, dir, self.shares_file(), &text)
    }

    /// Waits until the files of the best-effort pod, its container and its class, and the LS pod's weight, are so.
    fn becomes(&self, wanted: [&str; 4]) -> Result<()> {
        let idle = |dir: &str| self.tree.read(Controller::Cpu, dir, "cpu.idle").unwrap_or_default();
        let files = || {
            [
                idle(&self.hog.pod),
                idle(&self.hog.container("app")),
                idle(&self.tree.class_dir(Class::BestEffort)),
                self.tree.read(Controller::Cpu, &self.web.pod, self.shares_file()).unwrap_or_default(),
            ]
        };
        let seen = until_value(kit::patience(), files, |files| *files == wanted);
        anyhow::ensure!(seen == wanted, "{seen:?}, not {wanted:?}");
        Ok(())
    }

    /// What an LS pod holds with and without an identity of 2.
    fn weights(&self) -> (&'static str, &'static str) {
        if self.tree.is_v2() { ("79", "20") } else { ("2048", "512") }
    }

    fn explained(&self, running: &RunningAgent<'_>, dir: &str, file: &str) -> Result<Value> {
        let path = self.tree.file(Controller::Cpu, dir, file);
        running.explain_path(&path)?.with_context(|| format!("{} is explained", path.display()))
    }
}

/// Whether the kernel has `cpu.idle` (5.15) and lacks the vendor's file.
fn is_mainline(node: &Node) -> bool {
    let has = |file| node.tree.file(Controller::Cpu, &node.hog.pod, file).exists();
    has("cpu.idle") && !has("cpu.bvt_warp_ns")
}

#[test]
fn a_best_effort_pod_becomes_idle_and_gets_its_standing_back_with_the_policy() -> Result<()> {
    need!(offers::cgroups());
    let node = Node::new()?;
    if !is_mainline(&node) {
        kit::skip!("this kernel has no cpu.idle, or has cpu.bvt_warp_ns");
    }
    let (heavier, own) = node.weights();
    let agent = node.agent()?.argument("--mainline-equivalents");
    let running = agent.start()?;
    node.becomes(["1", "1", "0", heavier])?;

    let entry = node.explained(&running, &node.hog.pod, "cpu.idle")?;
    assert_eq!((&entry["state"], &entry["owner"]), (&"held".into(), &"GroupIdentity".into()), "{entry}");
    assert_eq!(entry["inputs"]["insteadOf"], "cpu.bvt_warp_ns -1", "{entry}");
    let reason = entry["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("no cpu.bvt_warp_ns, so cpu.idle stands in (--mainline-equivalents)"), "{entry}");

    node.manifests.write("slo", &identities(false))?;
    node.becomes(["0", "0", "0", own])?;
    let shares = node.tree.read(Controller::Cpu, &node.hog.pod, node.shares_file())?;
    assert_eq!(shares, if node.tree.is_v2() { "1" } else { "2" }, "shares that the kernel forgot are back");
    assert!(running.stop()?.success());
    Ok(())
}

#[test]
fn without_the_flag_nothing_stands_in_and_what_did_is_given_back() -> Result<()> {
    need!(offers::cgroups());
    let node = Node::new()?;
    if !is_mainline(&node) {
        kit::skip!("this kernel has no cpu.idle, or has cpu.bvt_warp_ns");
    }
    let (heavier, own) = node.weights();
    let with = node.agent()?.argument("--mainline-equivalents=true");
    let running = with.start()?;
    node.becomes(["1", "1", "0", heavier])?;
    assert!(running.stop()?.success());
    node.becomes(["1", "1", "0", heavier])?;
    // The later one of a flag that is repeated counts.
    let without = with.argument("--mainline-equivalents=false");
    let running = without.start()?;
    node.becomes(["0", "0", "0", own])?;
    let path = node.tree.file(Controller::Cpu, &node.hog.pod, "cpu.idle");
    assert!(running.explain_path(&path)?.is_none(), "nobody claims it");
    assert!(!running.log().contains("rule=\"GroupIdentity\""), "{}", running.log());
    Ok(())
}
