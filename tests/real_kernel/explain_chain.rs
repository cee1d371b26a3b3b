//! `koordlet explain` of a best-effort pod whose quota has come a long way: its batch limit, the node's ratio, and the
//! policy that lifts it.

use anyhow::{Context as _, Result, ensure};
use kit::manifest::NODE;
use kit::{Agent, Class, Manifests, NodeManifest, NodeSloManifest, PodManifest, Tree, need, offers};
use serde_json::Value;

use crate::enforce::quota_becomes;

#[test]
fn one_chain_tells_of_batch_limit_normalization_and_the_policy_that_lifts() -> Result<()> {
    need!(offers::cgroups());
    let (tree, manifests) = (Tree::new()?, Manifests::new()?);
    let pod = PodManifest::new("batch", Class::BestEffort)
        .qos("BE")
        .container("app", "b0", |container| container.batch(1000, 64 << 20));
    let dirs = tree.make_pod(&pod)?;
    let app = dirs.container("app");
    manifests.write("pod", &pod)?;
    manifests.write("node", &NodeManifest::this_host(NODE).normalization_ratio("1.25"))?;
    manifests.write("slo", &NodeSloManifest::off(NODE))?;
    let agent = Agent::of(&tree, &manifests)?.flag("feature-gates", "CPUNormalization=true");
    let running = agent.start()?;
    quota_becomes(&tree, &app, 80_000)?;

    manifests.write("slo", &NodeSloManifest::suppress(NODE, "cfsQuota", 65))?;
    quota_becomes(&tree, &app, -1)?;
    let explained = running.explain(Some(&pod.key()))?;
    let file = tree.cfs_quota_file(&app);
    let targets = explained["targets"].as_array().context("targets")?;
    let target = targets.iter().find(|target| target["path"].as_str() == file.to_str());
    let target = target.with_context(|| format!("{} is explained: {explained}", file.display()))?;
    let figure = |name: &str| target["inputs"][name].clone();
    assert_eq!((&target["state"], &target["owner"]), (&"held".into(), &"BatchResource".into()), "{target}");
    assert_eq!(figure("batchCpuLimit"), "1000", "{target}");
    assert_eq!(figure("ratio"), "1.25", "{target}");
    assert_eq!(figure("cpuSuppressPolicy"), "cfsQuota", "{target}");
    let claims = target["claims"].as_array().context("claims")?;
    let owners: Vec<&Value> = claims.iter().map(|claim| &claim["owner"]).collect();
    assert_eq!(owners, ["BatchResource", "PodSpec"], "one owner, and what it falls back to: {target}");

    let output = agent.verb("explain", &[&pod.key()])?;
    let text = String::from_utf8_lossy(&output.stdout);
    let told = "batch-cpu limit of 1000m, ceil(100000 / 1.25), lifted: the suppress policy cfsQuota";
    ensure!(output.status.success() && text.contains(told), "{text}");
    Ok(())
}
