//! A node of the same cluster whose kubelet is a stand-in: pods in any number, requests counted, failures at will. Its
//! cgroups are made as a kubelet makes them; API server, agent and TLS are real.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kit::agent::{Agent, RunningAgent};
use kit::manifest::{Manifest as _, PodManifest};
use kit::{Class, StandInKubelet, Tree};
use serde_json::{Value, json};

use super::scene::{LONG, PATIENCE, identity, with_ca};
use crate::lab::Lab;
use crate::lab::identity::Identity;

/// The annotation is on the Node from the start, so that a pod's value shows that the agent knows the pod.
const RATIO: &str = "2.00";
/// The quota of a pod's container as the runtime writes it, and what the agent makes of it.
pub(crate) const NATIVE: i64 = 100_000;
pub(crate) const SCALED: i64 = 50_000;
const NODES: &str = "/api/v1/nodes";

/// The node; its object is removed when dropped.
pub(crate) struct StandIn<'a> {
    lab: &'a Lab,
    name: String,
    identity: Identity<'a>,
    pub(crate) kubelet: StandInKubelet,
    pub(crate) tree: Tree,
    pods: Vec<Value>,
}

impl<'a> StandIn<'a> {
    /// Without a Node object, and without pods.
    pub(crate) fn new(lab: &'a Lab, name: &str) -> Result<Self> {
        let identity = identity(lab, name)?;
        let kubelet = StandInKubelet::start(&identity.renew(LONG)?)?;
        let tree = Tree::new()?;
        Ok(Self { lab, name: name.to_owned(), identity, kubelet, tree, pods: Vec::new() })
    }

    /// Makes the Node.
    pub(crate) fn register(&self) -> Result<()> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name, "annotations": {super::scene::RATIO: RATIO}},
        });
        self.lab.admin.create(NODES, &node)?;
        let address = self.kubelet.address();
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": address.ip().to_string()}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
            "capacity": {"cpu": "2", "memory": "8Gi"},
            "allocatable": {"cpu": "2", "memory": "8Gi"},
        }});
        self.lab.admin.patch(&format!("{NODES}/{}/status", self.name), &status).map(drop)
    }

    /// The agent of this node.
    pub(crate) fn agent(&self) -> Result<Agent> {
        let kubeconfig = self.identity.kubeconfig(&self.lab.place.api_url())?;
        let agent = Agent::of_cluster(&self.tree, &kubeconfig, &self.name)?;
        Ok(with_ca(agent, &self.kubelet.ca_file())
            .flag("feature-gates", "CPUNormalization=true")
            // Left to itself it would follow the cluster's real kubelet, which runs on this machine, too.
            .flag("cgroup-driver", "systemd"))
    }

    /// The kubelet tells of this pod from now on.
    pub(crate) fn tell(&mut self, pod: &PodManifest) {
        let mut object = pod.object();
        // The agent takes pods of its own node only.
        object["spec"]["nodeName"] = json!(self.name);
        self.pods.push(object);
        self.publish();
    }

    /// The kubelet tells of these no more.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.pods.retain(|pod| pod["metadata"]["uid"] != uid);
        self.publish();
    }

    fn publish(&self) {
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods});
        self.kubelet.set_list(list.to_string());
    }

    /// The pods' directories, as kubelet and runtime make them.
    pub(crate) fn make_dirs(&self, pod: &PodManifest) -> Result<()> {
        let dirs = self.tree.make_pod(pod)?;
        self.tree.set_cfs_quota(&dirs.pod, NATIVE)?;
        self.tree.set_cfs_quota(&dirs.container("app"), NATIVE)
    }

    /// Waits until a pod's container has the value that the agent gives it.
    pub(crate) fn wait_scaled(&self, pod: &PodManifest, agent: &RunningAgent<'_>) -> Result<Instant> {
        let dir = self.tree.pod_dirs(pod).container("app");
        let end = Instant::now() + PATIENCE;
        loop {
            let quota = self.tree.cfs_quota(&dir)?;
            let now = Instant::now();
            if quota == SCALED {
                return Ok(now);
            }
            ensure!(now < end, "{dir}: quota is {quota}; the agent's log:\n{}", agent.log());
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    /// Requests for pods that came after `since`.
    pub(crate) fn requests_since(&self, since: Instant) -> Vec<Instant> {
        self.kubelet.asked_for_pods().into_iter().filter(|at| *at > since).collect()
    }
}

impl Drop for StandIn<'_> {
    fn drop(&mut self) {
        self.lab.admin.delete(&format!("{NODES}/{}", self.name)).ok();
    }
}

/// A latency-sensitive pod of one CPU.
pub(crate) fn pod(number: usize) -> PodManifest {
    let id = format!("c{number}");
    PodManifest::new(&format!("web{number}"), Class::Burstable)
        .qos("LS")
        .container("app", &id, |container| container.cpu_limit("1"))
}

/// The most that came within any second.
pub(crate) fn most_in_a_second(times: &[Instant]) -> usize {
    let within = |from: &Instant| {
        let second = Duration::from_secs(1);
        times.iter().filter(|at| *at >= from && at.duration_since(*from) < second).count()
    };
    times.iter().map(within).max().unwrap_or_default()
}

/// A figure that must be there.
pub(crate) fn first(times: &[Instant]) -> Result<Instant> {
    times.first().copied().context("no request came")
}
