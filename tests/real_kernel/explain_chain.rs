//! `koordlet explain` of a best-effort pod whose quota has come a long way: its batch limit, the node's ratio, and the
//! policy that lifts it.

use anyhow::{Context as _, Result, ensure};
use kit::manifest::NODE;
use kit::{Agent, Class, Manifests, NodeManifest, NodeSloManifest, PodManifest, Tree, need, offers};

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
    ensure!(target["state"] == "held" && target["value"].as_str().is_some_and(is_unlimited), "{target}");
    // Where the kernel refuses a larger quota in a smaller one, suppression lifts what is beneath it itself.
    let claims = target["claims"].as_array().context("claims")?;
    let owners: Vec<&str> = claims.iter().filter_map(|claim| claim["owner"].as_str()).collect();
    let lifting = usize::from(owners.first() == Some(&"CpuSuppress"));
    assert_eq!(owners.get(lifting..), Some(&["BatchResource", "PodSpec"][..]), "{target}");
    ensure!(claims.iter().all(|claim| claim["value"].as_str().is_some_and(is_unlimited)), "{target}");
    let told =
        "the container's batch-cpu limit of 1000m, ceil(100000 / 1.25), lifted: the suppress policy cfsQuota";
    let batch = claims.get(lifting).and_then(|claim| claim["reason"].as_str());
    ensure!(batch.is_some_and(|reason| reason.starts_with(told)), "{target}");

    let output = agent.verb("explain", &[&pod.key()])?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && text.contains(told), "{text}");
    Ok(())
}

/// On v2 the file has the period too.
fn is_unlimited(text: &str) -> bool {
    text == "-1" || text.starts_with("max")
}
