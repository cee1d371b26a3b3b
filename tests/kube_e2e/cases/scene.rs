//! What most tests share: the agent as its shipped RBAC allows it, on the node of the cluster, and a latency-sensitive
//! pod of one CPU whose quota follows the ratio of the node.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kit::agent::{Agent, RunningAgent};
use serde_json::{Value, json};

use crate::lab::Lab;
use crate::lab::identity::Identity;
use crate::lab::pods::{PodOf, RunningPod};

/// Long enough for any sane reaction, a back-off of the agent's included; no test asserts how long it took.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// Annotation of a Node, hooks.md 9.1.
pub(crate) const RATIO: &str = "node.koordinator.sh/cpu-normalization-ratio";
/// Kind of the policy, as paths name it.
pub(crate) const SLOS: &str = "/apis/slo.koordinator.sh/v1alpha1/nodeslos";
/// A token that outlives every test.
pub(crate) const LONG: Duration = Duration::from_hours(24);
/// The quota of a CPU, in microseconds.
pub(crate) const ONE_CPU: i64 = 100_000;

/// The agent's identity, with a good token.
pub(crate) fn identity<'a>(lab: &'a Lab, name: &str) -> Result<Identity<'a>> {
    let identity = Identity::shipped(lab, name)?;
    identity.renew(LONG)?;
    Ok(identity)
}

/// The agent of the cluster's node, at an API server that is reached at `url`.
pub(crate) fn agent_at(lab: &Lab, identity: &Identity<'_>, url: &str) -> Result<Agent> {
    let agent = Agent::of_cluster(&lab.tree, &identity.kubeconfig(url)?, &lab.node())?;
    Ok(with_ca(agent, &lab.place.path("ca.crt")).flag("feature-gates", "CPUNormalization=true"))
}

/// The kubelet's certificate is checked.
pub(crate) fn with_ca(agent: Agent, authority: &Path) -> Agent {
    agent.flag("kubelet-ca-file", authority)
}

/// The latency-sensitive pod.
pub(crate) struct Follower<'a> {
    lab: &'a Lab,
    /// Deleted with this.
    _pod: RunningPod<'a>,
    container: String,
}

impl<'a> Follower<'a> {
    /// Starts it; its quota is a CPU.
    pub(crate) fn run(lab: &'a Lab, name: &str) -> Result<Self> {
        let limits = json!({"cpu": "1", "memory": "64Mi"});
        let pod = PodOf::name(name).qos("LS").limits(&limits).run(lab)?;
        let container = pod.container_dir()?;
        Ok(Self { lab, _pod: pod, container })
    }

    /// The cgroup directory of its container.
    pub(crate) fn container(&self) -> &str {
        &self.container
    }

    /// Waits until the container's quota is this; returns when it was so.
    pub(crate) fn quota_becomes(&self, wanted: i64, agent: &RunningAgent<'_>) -> Result<Instant> {
        quota_becomes(self.lab, &self.container, |quota| quota == wanted)
            .with_context(|| format!("wanted {wanted}; the agent's log:\n{}", agent.log()))
    }
}

/// Waits until a directory's quota is as it should be; returns when it was so.
pub(crate) fn quota_becomes(lab: &Lab, dir: &str, right: impl Fn(i64) -> bool) -> Result<Instant> {
    let end = Instant::now() + PATIENCE;
    loop {
        let quota = lab.tree.cfs_quota(dir)?;
        let now = Instant::now();
        if right(quota) {
            return Ok(now);
        }
        ensure!(now < end, "{dir}: quota is {quota} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Annotates the node, or takes the annotation away.
pub(crate) fn set_ratio(lab: &Lab, ratio: Option<&str>) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {RATIO: ratio}}});
    lab.admin.patch(&format!("/api/v1/nodes/{}", lab.node()), &patch).map(drop)
}

/// The node's policy; removed when dropped.
pub(crate) struct Slo<'a> {
    lab: &'a Lab,
    path: String,
}

impl<'a> Slo<'a> {
    /// Makes the NodeSLO of `node`.
    pub(crate) fn create(lab: &'a Lab, node: &str, spec: &Value) -> Result<Self> {
        let object = json!({
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeSLO",
            "metadata": {"name": node},
            "spec": spec,
        });
        lab.admin.create(SLOS, &object)?;
        Ok(Self { lab, path: format!("{SLOS}/{node}") })
    }

    /// Lays `spec` over what it says.
    pub(crate) fn patch(&self, spec: &Value) -> Result<()> {
        self.lab.admin.patch(&self.path, &json!({"spec": spec})).map(drop)
    }
}

impl Drop for Slo<'_> {
    fn drop(&mut self) {
        // A cluster without an API server ends with its objects.
        self.lab.admin.delete(&self.path).ok();
    }
}

/// Sum of all series of a family whose labels hold each of `labels`; 0 when there is none.
pub(crate) fn count(agent: &mut RunningAgent<'_>, family: &str, labels: &[&str]) -> Result<u64> {
    let page = agent.metrics()?;
    let lines = page.lines().filter(|line| {
        let rest = line.strip_prefix(family);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    });
    lines.map(|line| Ok(line.rsplit(' ').next().context("no value")?.parse::<u64>()?)).sum()
}

/// Waits until such a sum is right; returns it.
pub(crate) fn count_becomes(
    agent: &mut RunningAgent<'_>,
    family: &str,
    labels: &[&str],
    right: impl Fn(u64) -> bool,
) -> Result<u64> {
    let mut seen = 0;
    let became = kit::until(PATIENCE, || {
        seen = count(agent, family, labels).unwrap_or_default();
        let done = right(seen);
        std::thread::sleep(Duration::from_millis(if done { 0 } else { 100 }));
        done
    });
    ensure!(became, "{family} {labels:?} is {seen}; the agent's log:\n{}", agent.log());
    Ok(seen)
}

/// Resident memory of a process, in KiB.
pub(crate) fn rss_kib(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
