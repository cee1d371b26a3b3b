//! What the agent says of the node's use is what the kernel counts, within 1 %: `checks/node_usage.py`, a program of
//! its own, compares a running agent's page with `/proc/stat` and `/proc/meminfo`, without a load of the test's own and with one.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use kit::manifest::NODE;
use kit::skip::note;
use kit::{Agent, Class, Manifests, NodeManifest, PodManifest, RunningAgent, Tree, need, offers};

/// How a comparison ended.
enum Outcome {
    Agree,
    /// Other work on the machine left no window in which the kernel's figures were narrow enough.
    NothingToSay,
}

/// Compares until a window decides; an error if that one differs.
fn compare(running: &mut RunningAgent<'_>, load: &str) -> Result<Outcome> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("checks/node_usage.py");
    let page = format!("http://{}/metrics", running.address()?);
    let output = Command::new("python3").arg(script).arg(page).output()?;
    let figures = String::from_utf8_lossy(&output.stdout);
    note(format_args!("node use, {load}: {}", figures.trim()));
    match output.status.code() {
        Some(0) => {
            ensure!(figures.contains("\"decided\": true"), "no comparison: {figures}");
            Ok(Outcome::Agree)
        }
        Some(1) => bail!("{load}: agent and kernel differ: {figures}"),
        Some(3) => Ok(Outcome::NothingToSay),
        _ => bail!("{load}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn node_cpu_and_memory_are_within_a_hundredth_of_the_kernels() -> Result<()> {
    need!(offers::cgroups());
    need!(offers::program("python3"));
    let (tree, manifests) = (Tree::new()?, Manifests::new()?);
    let pod =
        PodManifest::new("web", Class::Burstable).qos("LS").container("app", "web0", |container| container);
    let dirs = tree.make_pod(&pod)?;
    manifests.write("pod", &pod)?;
    manifests.write("node", &NodeManifest::this_host(NODE))?;
    let agent = Agent::of(&tree, &manifests)?.flag("feature-gates", "BECPUSuppress=false");
    let mut running = agent.start()?;

    let mut undecided = Vec::new();
    let mut judge = |load: &'static str, running: &mut RunningAgent<'_>| -> Result<()> {
        if matches!(compare(running, load)?, Outcome::NothingToSay) {
            undecided.push(load);
        }
        Ok(())
    };
    judge("no load of its own", &mut running)?;
    let _busy = tree.spin(&dirs.container("app"), 1)?;
    judge("one busy loop", &mut running)?;
    if !undecided.is_empty() {
        kit::skip!(
            "other work keeps the kernel's own figures from being narrow enough: {}",
            undecided.join(", ")
        );
    }
    Ok(())
}
