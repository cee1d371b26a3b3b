//! CPUs that the scheduler gave to a pod, on real cgroups: the pod runs there without a quota, others do not run
//! there, and all of it is given back with the annotation or the gate (hooks.md 8.2).

use anyhow::{Result, ensure};
use kit::agent::{Agent, RunningAgent};
use kit::manifest::{Manifests, NODE, NodeManifest, PodManifest};
use kit::tree::PodDirs;
use kit::{Class, Tree, need, offers, until_value};
use koordlet::cpuset::CpuSet;

use crate::enforce::quota_becomes;

/// What a CPU limit of one core is as a quota.
const ONE_CORE: i64 = 100_000;

/// A guaranteed LSR pod with a sandbox, and an LS pod, each of one core, as kubelet and runtime leave them.
struct Node {
    tree: Tree,
    manifests: Manifests,
    pinned: PodManifest,
    dirs: PodDirs,
    sandbox: String,
    other: String,
    all: CpuSet,
}

impl Node {
    fn new() -> Result<Self> {
        let (tree, manifests) = (Tree::new()?, Manifests::new()?);
        let one_core = |name: &str, class, qos: &str, id: &str| {
            let pod = PodManifest::new(name, class).qos(qos);
            pod.container("app", id, |container| container.cpu_limit("1").limit("memory", "1Gi"))
        };
        let pinned = one_core("database", Class::Guaranteed, "LSR", "0d");
        let other = one_core("web", Class::Burstable, "LS", "0e");
        let dirs = tree.make_pod(&pinned)?;
        let sandbox = format!("{}/cri-containerd-0f.scope", dirs.pod);
        tree.make(&sandbox)?;
        let other_dirs = tree.make_pod(&other)?;
        for dir in [&dirs.pod, &dirs.container("app")] {
            tree.set_cfs_quota(dir, ONE_CORE)?;
        }
        manifests.write("node", &NodeManifest::this_host(NODE))?;
        manifests.write("other", &other)?;
        let all = tree.cpus(&tree.kubepods())?.parse()?;
        let other = other_dirs.container("app");
        Ok(Self { tree, manifests, pinned, dirs, sandbox, other, all })
    }

    /// Two CPUs at least, of which the last goes to the pod.
    fn own(&self) -> CpuSet {
        self.all.iter().last().into_iter().collect()
    }

    fn pin(&self) -> Result<()> {
        let status = format!(r#"{{"cpuset":"{}"}}"#, self.own());
        let pinned = self.pinned.clone().annotation("scheduling.koordinator.sh/resource-status", &status);
        self.manifests.write("pinned", &pinned)
    }

    fn becomes(&self, dir: &str, wanted: &CpuSet, agent: &RunningAgent<'_>) -> Result<()> {
        let now = || self.tree.cpus(dir).ok().and_then(|text| text.parse::<CpuSet>().ok());
        let seen = until_value(kit::patience(), now, |cpus| cpus.as_ref() == Some(wanted));
        ensure!(seen.as_ref() == Some(wanted), "{dir}: {seen:?}, not {wanted}\n{}", agent.log());
        Ok(())
    }

    fn is_pinned(&self, agent: &RunningAgent<'_>) -> Result<()> {
        for dir in [&self.dirs.container("app"), &self.sandbox] {
            self.becomes(dir, &self.own(), agent)?;
        }
        for dir in [&self.dirs.pod, &self.dirs.container("app")] {
            quota_becomes(&self.tree, dir, -1)?;
        }
        self.becomes(&self.other, &self.all.difference(&self.own()), agent)
    }

    fn is_as_before(&self, agent: &RunningAgent<'_>) -> Result<()> {
        for dir in [&self.dirs.container("app"), &self.sandbox, &self.other] {
            self.becomes(dir, &self.all, agent)?;
        }
        for dir in [&self.dirs.container("app"), &self.dirs.pod] {
            quota_becomes(&self.tree, dir, ONE_CORE)?;
        }
        Ok(())
    }
}

#[test]
fn a_pods_own_cpus_are_held_and_given_back_with_the_annotation() -> Result<()> {
    need!(offers::cgroups());
    need!(offers::cpus(2));
    let node = Node::new()?;
    node.manifests.write("pinned", &node.pinned)?;
    let agent = Agent::of(&node.tree, &node.manifests)?;
    let agent = agent.start()?;
    node.is_as_before(&agent)?;

    node.pin()?;
    node.is_pinned(&agent)?;
    let file = node.tree.cfs_quota_file(&node.dirs.container("app"));
    let explained = agent.explain_path(&file)?.unwrap_or_default();
    ensure!(explained["owner"] == "CpuSetAllocator" && explained["state"] == "held", "{explained}");

    node.manifests.write("pinned", &node.pinned)?;
    node.is_as_before(&agent)
}

#[test]
fn a_switched_off_gate_gives_cpus_and_quotas_back() -> Result<()> {
    need!(offers::cgroups());
    need!(offers::cpus(2));
    let node = Node::new()?;
    node.pin()?;
    let agent = Agent::of(&node.tree, &node.manifests)?;
    let running = agent.start()?;
    node.is_pinned(&running)?;
    running.stop()?;

    let agent = agent.flag("feature-gates", "CPUSetAllocator=false");
    let running = agent.start()?;
    node.is_as_before(&running)
}
