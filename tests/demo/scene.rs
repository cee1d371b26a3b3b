//! The stage: cgroup tree, manifests, hogs, and what the machine's size says about the policy.

use std::sync::Mutex;
use std::thread::available_parallelism;

use anyhow::Result;
use kit::{
    Agent, Class, Controller, Load, Manifests, NodeManifest, NodeSloManifest, PodDirs, PodManifest, Tree,
    manifest::NODE,
};

use koordlet::cpuset::CpuSet;

use crate::screen::Screen;
use crate::service::Service;

/// Which knob suppression turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The best-effort directory's quota.
    CfsQuota,
    /// The best-effort CPUs.
    Cpuset,
}

/// Everything that the demo runs on. Dropped as a whole, the tree last.
pub(crate) struct Scene {
    /// The agent, not started yet.
    pub(crate) agent: Agent,
    /// The service.
    pub(crate) service: Mutex<Service>,
    /// Its pod's directories.
    pub(crate) ls: PodDirs,
    /// The policy that this machine allows.
    pub(crate) policy: Policy,
    /// CPUs of this machine.
    pub(crate) cpus: usize,
    /// Manifests that the agent follows.
    pub(crate) manifests: Manifests,
    _hogs: Vec<Load>,
    /// The tree.
    pub(crate) tree: Tree,
}

/// Busy threads of one best-effort pod, for each CPU: a batch job with a thread pool.
const HOG_THREADS_A_CPU: usize = 3;
/// CPUs from which on the `cpuset` policy has something to take: its floor is two CPUs.
const CPUSET_NEEDS: usize = 4;
/// Suppression leaves best-effort pods what is below this share of the machine, in percent.
pub(crate) const THRESHOLD_PERCENT: u32 = 65;

/// CPUs of this machine.
pub(crate) fn cpus() -> usize {
    available_parallelism().map_or(1, std::num::NonZero::get)
}

impl Scene {
    /// Makes the tree, starts service and hogs, writes the manifests. Says what it does.
    pub(crate) fn build(screen: &mut Screen) -> Result<Self> {
        let cpus = cpus();
        let policy = if cpus < CPUSET_NEEDS { Policy::CfsQuota } else { Policy::Cpuset };
        screen.line(&explain_policy(policy, cpus));
        let tree = Tree::new()?;
        let service_pod = service_pod(cpus);
        let ls = tree.make_pod(&service_pod)?;
        let hog_pods: Vec<PodManifest> =
            ["hog-a", "hog-b"].into_iter().map(|name| hog_pod(name, cpus)).collect();
        as_the_kubelet_would(&tree, cpus)?;
        let mut hogs = Vec::new();
        for pod in &hog_pods {
            let dirs = tree.make_pod(pod)?;
            hogs.push(tree.spin(&dirs.container("burn"), u32::try_from(HOG_THREADS_A_CPU * cpus)?)?);
        }
        let service = Service::start(&tree, &ls.container("app"), cpus)?;
        let manifests = Manifests::new()?;
        manifests.write("node", &NodeManifest::this_host(NODE))?;
        manifests.write_pods("pods", hog_pods.iter().chain([&service_pod]))?;
        let agent = Agent::of(&tree, &manifests)?;
        screen.line(&format!(
            "a latency-sensitive service and {} best-effort threads on {cpus} CPUs, in {}",
            hog_pods.len() * HOG_THREADS_A_CPU * cpus,
            tree.kubepods()
        ));
        let scene =
            Self { agent, service: Mutex::new(service), ls, policy, cpus, manifests, _hogs: hogs, tree };
        scene.switch_policy(true)?;
        Ok(scene)
    }

    /// Writes the NodeSLO with suppression on or off.
    pub(crate) fn switch_policy(&self, on: bool) -> Result<()> {
        let policy = match self.policy {
            Policy::CfsQuota => "cfsQuota",
            Policy::Cpuset => "cpuset",
        };
        let slo = if on {
            NodeSloManifest::suppress(NODE, policy, THRESHOLD_PERCENT)
        } else {
            NodeSloManifest::off(NODE)
        };
        self.manifests.write("slo", &slo)
    }

    /// The directory of all best-effort pods.
    pub(crate) fn be(&self) -> String {
        self.tree.class_dir(Class::BestEffort)
    }

    /// What limits best-effort pods now, in CPUs; `None` when nothing does.
    pub(crate) fn be_limit(&self) -> Result<Option<f64>> {
        match self.policy {
            Policy::CfsQuota => {
                let quota = self.tree.cfs_quota(&self.be())?;
                Ok((quota > 0).then(|| quota as f64 / 100_000.0))
            }
            Policy::Cpuset => {
                let count = self.tree.cpus(&self.be())?.parse::<CpuSet>()?.len();
                Ok((count < self.cpus).then_some(count as f64))
            }
        }
    }
}

fn explain_policy(policy: Policy, cpus: usize) -> String {
    match policy {
        Policy::CfsQuota => format!(
            "policy cfsQuota: the cpuset policy never leaves best-effort pods less than two CPUs, and {cpus} are all \
             there are"
        ),
        Policy::Cpuset => {
            format!("policy cpuset: {cpus} CPUs, of which best-effort pods lose those that are needed")
        }
    }
}

fn service_pod(cpus: usize) -> PodManifest {
    let request = format!("{}m", 500 * cpus);
    PodManifest::new("service", Class::Burstable)
        .qos("LS")
        .label("koordinator.sh/priority-class", "koord-prod")
        .container("app", "5e41ce00", |container| container.request("cpu", &request))
}

fn hog_pod(name: &str, cpus: usize) -> PodManifest {
    let id = format!("{:08x}", name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte)));
    let milli = u32::try_from(1000 * cpus).unwrap_or(u32::MAX);
    PodManifest::new(name, Class::BestEffort)
        .qos("BE")
        .label("koordinator.sh/priority-class", "koord-batch")
        .container("burn", &id, |container| container.batch(milli, 256 << 20))
}

/// The shares that a kubelet gives: all of the node to kubepods, two to best-effort, so that they only get what others
/// leave. The demo shows what suppression adds to that.
fn as_the_kubelet_would(tree: &Tree, cpus: usize) -> Result<()> {
    let node = 1024 * cpus;
    let dirs = [
        (tree.root().to_owned(), node),
        (tree.kubepods(), node),
        (tree.class_dir(Class::Burstable), node / 2),
        (tree.class_dir(Class::BestEffort), 2),
    ];
    for (dir, shares) in dirs {
        if tree.is_v2() {
            let weight = 1 + (shares - 2) * 9999 / 262_142;
            tree.write(Controller::Cpu, &dir, "cpu.weight", &weight.to_string())?;
        } else {
            tree.write(Controller::Cpu, &dir, "cpu.shares", &shares.to_string())?;
        }
    }
    Ok(())
}
