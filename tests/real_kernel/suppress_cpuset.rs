//! CPU suppression by `cpuset` on two NUMA nodes with SMT, qos.md 5.1: how many CPUs, which ones, and who gets them.

use std::fs;
use std::time::Duration;

use anyhow::Result;
use kit::manifest::NODE;
use kit::wait::until_value;
use kit::{
    Agent, Class, Manifests, NodeManifest, NodeSloManifest, PodDirs, PodManifest, RunningAgent, Tree,
    guest_scale, need, offers,
};
use koordlet::cpuset::CpuSet;

const CPUS: usize = 8;

fn two_numa_nodes() -> offers::Offer {
    offers::cgroups()?;
    offers::cpus(CPUS)?;
    if fs::metadata("/sys/devices/system/node/node1").is_ok() {
        Ok(())
    } else {
        Err("needs two NUMA nodes".into())
    }
}

fn cpus(text: &str) -> Result<CpuSet> {
    Ok(text.trim().parse()?)
}

/// CPUs of a list in sysfs, or none.
fn listed(path: &str) -> CpuSet {
    fs::read_to_string(path).ok().and_then(|text| cpus(&text).ok()).unwrap_or_default()
}

fn siblings(cpu: u32) -> CpuSet {
    listed(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
}

/// Tree, pods and manifests of one test.
struct Node {
    manifests: Manifests,
    service: PodDirs,
    hog: PodDirs,
    tree: Tree,
}

impl Node {
    fn build() -> Result<Self> {
        let tree = Tree::new()?;
        let service =
            PodManifest::new("service", Class::Burstable)
                .qos("LS")
                .container("app", "0a", |container| container.request("cpu", "4"));
        let hog = PodManifest::new("hog", Class::BestEffort)
            .qos("BE")
            .container("burn", "0b", |container| container.batch(8000, 64 << 20));
        let pinned = PodManifest::new("pinned", Class::Guaranteed)
            .qos("LSE")
            .annotation("scheduling.koordinator.sh/resource-status", r#"{"cpuset":"0"}"#)
            .container("app", "0c", |container| container.cpu_limit("1"));
        let manifests = Manifests::new()?;
        manifests.write("node", &NodeManifest::this_host(NODE))?;
        manifests.write_pods("pods", [&service, &hog, &pinned])?;
        manifests.write("slo", &NodeSloManifest::suppress(NODE, "cpuset", 65))?;
        tree.make_pod(&pinned)?;
        Ok(Self { service: tree.make_pod(&service)?, hog: tree.make_pod(&hog)?, manifests, tree })
    }

    fn be(&self) -> Result<CpuSet> {
        cpus(&self.tree.cpus(&self.tree.class_dir(Class::BestEffort))?)
    }

    /// Waits until the best-effort CPUs are right, and returns them.
    fn until_be(
        &self,
        what: &str,
        right: impl Fn(&CpuSet) -> bool,
        agent: &RunningAgent<'_>,
    ) -> Result<CpuSet> {
        let limit = Duration::from_secs(guest_scale(60, 180));
        let last = until_value(limit, || self.be(), |be| be.as_ref().is_ok_and(&right))?;
        anyhow::ensure!(right(&last), "{what}: best-effort has {last} of {CPUS} CPUs\n{}", agent.log());
        Ok(last)
    }
}

#[test]
fn best_effort_follows_the_load_over_nodes_and_cores() -> Result<()> {
    need!(two_numa_nodes());
    let node = Node::build()?;
    let agent = Agent::of(&node.tree, &node.manifests)?;
    let _hog = node.tree.spin(&node.hog.container("burn"), 2)?;
    let agent = agent.start()?;

    let load = node.tree.spin(&node.service.container("app"), 2)?;
    // 65 % of 8 CPUs are 5200 m; two busy threads and the system leave between 2 and 3 CPUs' worth.
    let some = node.until_be("two busy threads", |be| (2..=4).contains(&be.len()), &agent)?;
    assert!(!some.contains(0), "CPU 0 is the LSE pod's: {some}");
    assert_holds_everywhere(&node, &agent)?;

    let more = node.tree.spin(&node.service.container("app"), 2)?;
    let few = node.until_be("four busy threads", |be| be.len() == 2, &agent)?;
    let pair = few.iter().next().map(siblings).unwrap_or_default();
    assert_eq!(few, pair, "two CPUs are the two threads of one core");

    drop((load, more));
    let many = node.until_be("no load", |be| be.len() >= 4, &agent)?;
    let halves =
        [0, 1].map(|id| many.intersection(&listed(&format!("/sys/devices/system/node/node{id}/cpulist"))));
    assert!(halves.iter().all(|half| !half.is_empty()), "spread over both nodes: {many}");

    node.manifests.write("slo", &NodeSloManifest::off(NODE))?;
    let all = node.until_be("the policy is off", |be| be.len() >= CPUS - 1, &agent)?;
    assert!(!all.contains(0), "CPU 0 stays the LSE pod's: {all}");
    assert_holds_everywhere(&node, &agent)
}

/// Pod and container of the best-effort pod come to have what the class directory has.
fn assert_holds_everywhere(node: &Node, agent: &RunningAgent<'_>) -> Result<()> {
    let all_equal = || -> Result<bool> {
        let class = node.be()?;
        let pod = cpus(&node.tree.cpus(&node.hog.pod)?)?;
        let container = cpus(&node.tree.cpus(&node.hog.container("burn"))?)?;
        Ok(class == pod && pod == container)
    };
    let limit = Duration::from_secs(guest_scale(30, 120));
    let equal = until_value(limit, all_equal, |equal| matches!(equal, Ok(true)))?;
    anyhow::ensure!(equal, "levels differ\n{}", agent.log());
    Ok(())
}
