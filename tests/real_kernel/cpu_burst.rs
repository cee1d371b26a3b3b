//! CPU burst on real cgroups with the real binary: a container that runs into its limit gets more, and its limit back.

use anyhow::{Context as _, Result};
use kit::agent::Agent;
use kit::manifest::{Manifests, NODE, NodeManifest, NodeSloManifest, PodManifest};
use kit::{Class, Controller, Load, Tree, need, offers, until, until_value};
use serde_json::{Value, json};

use crate::enforce::quota_becomes;

/// Quota of 200 milli-cores.
const BASE: i64 = 20_000;

/// An LS pod of one container that wants a core and may use a fifth of it.
struct Throttled {
    tree: Tree,
    manifests: Manifests,
    pod: String,
    app: String,
    /// Runs for as long as the rig is there.
    _load: Load,
}

impl Throttled {
    fn new() -> Result<Self> {
        let (tree, manifests) = (Tree::new()?, Manifests::new()?);
        let web =
            PodManifest::new("web", Class::Burstable)
                .qos("LS")
                .container("app", "webc0", |container| container.cpu_limit("200m"));
        let dirs = tree.make_pod(&web)?;
        let app = dirs.container("app");
        tree.set_cfs_quota(&dirs.pod, BASE)?;
        tree.set_cfs_quota(&app, BASE)?;
        manifests.write("pod", &web)?;
        manifests.write("node", &NodeManifest::this_host(NODE))?;
        manifests.write("slo", &policy("auto"))?;
        let load = tree.spin(&app, 1)?;
        Ok(Self { tree, manifests, pod: dirs.pod, app, _load: load })
    }

    fn burst(&self, dir: &str) -> Option<String> {
        let file = if self.tree.is_v2() { "cpu.max.burst" } else { "cpu.cfs_burst_us" };
        self.tree.read(Controller::Cpu, dir, file).ok()
    }

    /// Waits for a burst budget, where this kernel has them.
    fn burst_becomes(&self, dir: &str, wanted: i64) -> Result<()> {
        if self.burst(dir).is_none() {
            return Ok(());
        }
        let wanted = Some(wanted.to_string());
        let seen = until_value(kit::patience(), || self.burst(dir), |seen| *seen == wanted);
        anyhow::ensure!(seen == wanted, "{dir}: burst is {seen:?}, not {wanted:?}");
        Ok(())
    }
}

/// A policy under which other work on this machine does not count.
fn policy(policy: &str) -> NodeSloManifest {
    let strategy = json!({"policy": policy, "sharePoolThresholdPercent": 1_000_000});
    NodeSloManifest::new(NODE, json!({ "cpuBurstStrategy": strategy }))
}

#[test]
fn a_throttled_container_bursts_and_gets_its_base_back() -> Result<()> {
    need!(offers::cgroups());
    let rig = Throttled::new()?;
    let agent = Agent::of(&rig.tree, &rig.manifests)?;
    let mut running = agent.start()?;
    quota_becomes(&rig.tree, &rig.app, 3 * BASE)?;
    quota_becomes(&rig.tree, &rig.pod, 3 * BASE)?;
    // The budget of 1000 % is more than mainline kernels take beside that quota: it is cut and not dropped (Q16).
    rig.burst_becomes(&rig.app, 3 * BASE)?;
    rig.burst_becomes(&rig.pod, 3 * BASE)?;
    let used = rig.tree.cpu_usage_nanos(&rig.app)?;
    assert!(used > 0);
    assert!((running.metric("koordlet_container_scaled_cfs_quota_us")? - 60_000.0).abs() < 0.5);
    assert!((running.metric("koordlet_container_scaled_cfs_burst_us")? - 200_000.0).abs() < 0.5);

    rig.manifests.write("slo", &policy("none"))?;
    quota_becomes(&rig.tree, &rig.app, BASE)?;
    quota_becomes(&rig.tree, &rig.pod, BASE)?;
    rig.burst_becomes(&rig.app, 0)?;
    rig.burst_becomes(&rig.pod, 0)?;
    assert!(running.metric("koordlet_container_scaled_cfs_quota_us").is_err(), "the series is gone");
    Ok(())
}

#[test]
fn c206_a_normalized_and_bursting_container_is_explained_by_one_chain() -> Result<()> {
    need!(offers::cgroups());
    let rig = Throttled::new()?;
    rig.manifests.write("node", &NodeManifest::this_host(NODE).normalization_ratio("1.25"))?;
    let agent = Agent::of(&rig.tree, &rig.manifests)?.flag("feature-gates", "CPUNormalization=true");
    let running = agent.start()?;
    // 20000 / 1.25 = 16000, three times that, and the pod with it.
    quota_becomes(&rig.tree, &rig.app, 48_000)?;
    quota_becomes(&rig.tree, &rig.pod, 48_000)?;
    for dir in [&rig.app, &rig.pod] {
        let entry = running.explain_path(&rig.tree.cfs_quota_file(dir))?.context("explained")?;
        assert_eq!(owners(&entry), ["CpuBurst", "CpuNormalization", "PodSpec"], "{entry}");
        assert_eq!(entry["state"], "held", "{entry}");
    }
    // The ratio goes: the base is the limit again, and the burst three times that.
    rig.manifests.write("node", &NodeManifest::this_host(NODE))?;
    quota_becomes(&rig.tree, &rig.app, 3 * BASE)?;
    quota_becomes(&rig.tree, &rig.pod, 3 * BASE)?;
    rig.manifests.write("slo", &policy("none"))?;
    quota_becomes(&rig.tree, &rig.app, BASE)?;
    quota_becomes(&rig.tree, &rig.pod, BASE)
}

fn owners(entry: &Value) -> Vec<&str> {
    let claims = entry["claims"].as_array().map(Vec::as_slice).unwrap_or_default();
    claims.iter().filter_map(|claim| claim["owner"].as_str()).collect()
}

#[test]
fn a_restart_lets_go_of_no_burst_and_a_gate_that_is_off_of_all() -> Result<()> {
    need!(offers::cgroups());
    let rig = Throttled::new()?;
    let agent = Agent::of(&rig.tree, &rig.manifests)?;
    let running = agent.start()?;
    quota_becomes(&rig.tree, &rig.app, 3 * BASE)?;
    running.kill_9();
    let Throttled { tree, app, pod, .. } = &rig;
    let running = agent.start()?;
    let file = tree.cfs_quota_file(app);
    let owner = || running.explain_path(&file).ok().flatten().map(|entry| entry["owner"].clone());
    assert!(until(kit::patience(), || owner() == Some("CpuBurst".into())), "{}", running.log());
    assert_eq!([tree.cfs_quota(app)?, tree.cfs_quota(pod)?], [3 * BASE; 2], "{}", running.log());
    running.kill_9();
    let off = agent.flag("feature-gates", "CPUBurst=false");
    let running = off.start()?;
    quota_becomes(tree, app, BASE)?;
    quota_becomes(tree, pod, BASE)?;
    rig.burst_becomes(app, 0)?;
    rig.burst_becomes(pod, 0)?;
    drop(running);
    Ok(())
}
