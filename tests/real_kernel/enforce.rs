//! The main job on real cgroups with the real binary: a policy becomes a value in a kernel file, a withdrawn
//! policy gives it back, a foreign write is put right, and `explain` says why.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kit::agent::{Agent, RunningAgent};
use kit::manifest::{Manifests, NODE, NodeManifest, NodeSloManifest, PodManifest};
use kit::tree::PodDirs;
use kit::{Class, Controller, Tree, need, offers, until, until_value};
use koordlet::units::{CfsQuota, CpuShares, MilliCpu};

/// An LS pod with one container of `cores`, its directories made as kubelet and runtime leave them.
pub(crate) fn limited_ls_pod(tree: &Tree, name: &str, cores: i64) -> Result<(PodManifest, PodDirs)> {
    let limit = MilliCpu(cores * 1000);
    let pod = PodManifest::new(name, Class::Burstable).qos("LS").container(
        "app",
        &format!("{name}c0"),
        |container| container.cpu_limit(&cores.to_string()),
    );
    let dirs = tree.make_pod(&pod)?;
    let native = CfsQuota::from_milli(limit).raw();
    tree.set_cfs_quota(&dirs.pod, native)?;
    tree.set_cfs_quota(&dirs.container("app"), native)?;
    Ok((pod, dirs))
}

/// Waits for a quota.
pub(crate) fn quota_becomes(tree: &Tree, dir: &str, wanted: i64) -> Result<()> {
    let seen = until_value(kit::patience(), || tree.cfs_quota(dir).ok(), |quota| *quota == Some(wanted));
    anyhow::ensure!(seen == Some(wanted), "{dir}: quota is {seen:?}, not {wanted}");
    Ok(())
}

/// An LS pod of three cores on a node with ratio 1.5: 300000 becomes 200000.
struct Normalized {
    tree: Tree,
    manifests: Manifests,
    pod_dir: String,
    app: String,
}

impl Normalized {
    fn new() -> Result<Self> {
        let (tree, manifests) = (Tree::new()?, Manifests::new()?);
        let (pod, dirs) = limited_ls_pod(&tree, "web", 3)?;
        manifests.write("pod", &pod)?;
        manifests.write("node", &NodeManifest::this_host(NODE).normalization_ratio("1.5"))?;
        Ok(Self { tree, manifests, app: dirs.container("app"), pod_dir: dirs.pod })
    }
}

fn normalizing(tree: &Tree, manifests: &Manifests) -> Result<Agent> {
    Ok(Agent::of(tree, manifests)?.flag("feature-gates", "CPUNormalization=true"))
}

#[test]
fn normalization_scales_an_ls_container_and_gives_it_back() -> Result<()> {
    need!(offers::cgroups());
    let Normalized { tree, manifests, app, pod_dir } = Normalized::new()?;
    let agent = normalizing(&tree, &manifests)?;
    let running = agent.start()?;
    quota_becomes(&tree, &app, 200_000)?;
    // No hook was seen for this pod: on v1 its directory stays where the runtime can start a container.
    quota_becomes(&tree, &pod_dir, if tree.is_v2() { 200_000 } else { 300_000 })?;

    let entry = running.explain_path(&tree.cfs_quota_file(&app))?.context("explained")?;
    assert_eq!((&entry["state"], &entry["owner"]), (&"held".into(), &"CpuNormalization".into()), "{entry}");
    assert!(entry["reason"].as_str().is_some_and(|text| text.contains("1.5")), "{entry}");

    manifests.write("node", &NodeManifest::this_host(NODE))?;
    quota_becomes(&tree, &app, 300_000)?;
    quota_becomes(&tree, &pod_dir, 300_000)?;
    assert!(running.stop()?.success());
    Ok(())
}

#[test]
fn a_foreign_write_is_put_right_in_one_step_and_counted() -> Result<()> {
    need!(offers::cgroups());
    let Normalized { tree, manifests, app, .. } = Normalized::new()?;
    let agent = normalizing(&tree, &manifests)?;
    let mut running = agent.start()?;
    quota_becomes(&tree, &app, 200_000)?;
    std::thread::sleep(Duration::from_millis(2500)); // past the two seconds that count as its birth
    tree.set_cfs_quota(&app, 300_000)?;
    quota_becomes(&tree, &app, 200_000)?;
    let counted = || running.metrics().is_ok_and(|text| foreign_writes(&text) >= 1.0);
    assert!(until(kit::patience(), counted), "the foreign write is counted");
    Ok(())
}

fn foreign_writes(metrics: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with("koordlet_") && line.contains("foreign"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[test]
fn batch_resources_become_shares_quota_and_memory_limit() -> Result<()> {
    need!(offers::cgroups());
    let (tree, manifests) = (Tree::new()?, Manifests::new()?);
    let memory = 64 << 20;
    let pod = PodManifest::new("batch", Class::BestEffort)
        .qos("BE")
        .container("app", "b0", |container| container.batch(500, memory));
    let dirs = tree.make_pod(&pod)?;
    let app = dirs.container("app");
    manifests.write("pod", &pod)?;
    manifests.write("node", &NodeManifest::this_host(NODE))?;
    let agent = Agent::of(&tree, &manifests)?;
    let running = agent.start()?;
    quota_becomes(&tree, &app, 50_000)?;
    quota_becomes(&tree, &dirs.pod, 50_000)?;
    let (file, wanted) = if tree.is_v2() {
        ("memory.max", memory.to_string())
    } else {
        ("memory.limit_in_bytes", memory.to_string())
    };
    let seen = until_value(
        kit::patience(),
        || tree.read(Controller::Memory, &app, file).unwrap_or_default(),
        |text| *text == wanted,
    );
    assert_eq!(seen, wanted);
    let (file, wanted) = if tree.is_v2() {
        ("cpu.weight", "20".to_owned())
    } else {
        ("cpu.shares", CpuShares::from_milli(MilliCpu(500)).to_string())
    };
    assert_eq!(tree.read(Controller::Cpu, &app, file)?, wanted);

    // Gone from the spec: back to what kubelet and runtime give a BestEffort pod.
    let plain = PodManifest::new("batch", Class::BestEffort).qos("BE").with_uid(pod.uid()).container(
        "app",
        "b0",
        |container| container,
    );
    manifests.write("pod", &plain)?;
    quota_becomes(&tree, &dirs.pod, -1)?;
    quota_becomes(&tree, &app, -1)?;
    drop(running);
    Ok(())
}

fn be_pod(name: &str) -> PodManifest {
    PodManifest::new(name, Class::BestEffort)
        .qos("BE")
        .container("app", &format!("{name}c0"), |container| container)
}

#[test]
fn suppression_by_quota_shrinks_be_under_ls_load_and_restores() -> Result<()> {
    need!(offers::cgroups());
    let (tree, manifests) = (Tree::new()?, Manifests::new()?);
    let web = PodManifest::new("web", Class::Burstable)
        .qos("LS")
        .container("app", "web0", |container| container.request("cpu", "500m"));
    let (web_dirs, hog) = (tree.make_pod(&web)?, be_pod("hog"));
    tree.make_pod(&hog)?;
    manifests.write_pods("pods", [&web, &hog])?;
    manifests.write("node", &NodeManifest::this_host(NODE).cpus(4))?;
    manifests.write("slo", &NodeSloManifest::suppress(NODE, "cfsQuota", 95))?;
    let agent = Agent::of(&tree, &manifests)?;
    let mut running = agent.start()?;
    let be = tree.class_dir(Class::BestEffort);
    let quota = || tree.cfs_quota(&be).unwrap_or(-1);
    let idle = until_value(kit::patience(), quota, |quota| *quota > 0);
    assert!(idle > 0, "suppression limits the BE directory");

    // On a machine that others keep busy, LS takes from them and not from what is left for BE.
    if until_value(kit::patience(), || busy_cores(&mut running), |cores| *cores < 1.0) >= 1.0 {
        kit::skip!("other work keeps this machine busy");
    }
    let idle = quota();
    let load = tree.spin(&web_dirs.container("app"), 1)?;
    // One busy core of LS is 100000 us a period less for BE.
    let busy =
        until_value(kit::patience(), quota, |quota| *quota > 0 && *quota <= (idle - 50_000).max(2_000));
    // With one core of LS busy, more than half a core beside it is others' that came after the first look.
    if busy > (idle - 50_000).max(2_000) && busy_cores(&mut running) > 1.5 {
        kit::skip!("other work keeps this machine busy");
    }
    assert!(busy < idle, "idle {idle}, under load {busy}: {}", running.log());
    assert!(running.metric("koordlet_be_suppress_ls_used_cpu_cores")? > 0.0);
    let entry = running.explain_path(&tree.cfs_quota_file(&be))?.context("explained")?;
    assert_eq!(entry["owner"], "CpuSuppress", "{entry}");
    load.stop();
    let relaxed = until_value(kit::patience(), quota, |quota| *quota > busy);
    assert!(relaxed > busy, "BE gets CPU back when LS is idle");

    manifests.write("slo", &NodeSloManifest::off(NODE))?;
    quota_becomes(&tree, &be, -1)
}

fn busy_cores(agent: &mut RunningAgent<'_>) -> f64 {
    agent.metric("koordlet_node_used_cpu_cores").unwrap_or(f64::MAX)
}

#[test]
fn suppression_by_cpuset_keeps_every_level_inside_its_parent_and_restores() -> Result<()> {
    need!(offers::cgroups());
    need!(offers::cpus(4));
    let (tree, manifests) = (Tree::new()?, Manifests::new()?);
    let web = PodManifest::new("web", Class::Burstable)
        .qos("LS")
        .container("app", "web0", |container| container.request("cpu", "1"));
    let (web_dirs, hog) = (tree.make_pod(&web)?, be_pod("hog"));
    let hog_dirs = tree.make_pod(&hog)?;
    manifests.write_pods("pods", [&web, &hog])?;
    manifests.write("node", &NodeManifest::this_host(NODE))?;
    manifests.write("slo", &NodeSloManifest::suppress(NODE, "cpuset", 50))?;
    let be = tree.class_dir(Class::BestEffort);
    let whole = tree.cpus(&be)?;
    let agent = Agent::of(&tree, &manifests)?;
    let running = agent.start()?;
    let load = tree.load(&web_dirs.container("app"), kit::Work::Spin { threads: 2 })?;
    let levels = [be.clone(), hog_dirs.pod.clone(), hog_dirs.container("app")];
    let lists = || levels.iter().map(|dir| tree.cpus(dir).unwrap_or_default()).collect::<Vec<_>>();
    let narrowed = |lists: &Vec<String>| lists.iter().all(|list| *list == lists[0] && *list != whole);
    let seen = until_value(kit::patience(), lists, narrowed);
    assert!(narrowed(&seen), "{seen:?} of {whole}: {}", running.log());
    load.stop();

    manifests.write("slo", &NodeSloManifest::off(NODE))?;
    let restored = |lists: &Vec<String>| lists.iter().all(|list| *list == whole);
    let seen = until_value(kit::patience(), lists, restored);
    assert!(restored(&seen), "{seen:?}, not {whole}: {}", running.log());
    Ok(())
}

#[test]
fn dry_run_explains_and_writes_nothing() -> Result<()> {
    need!(offers::cgroups());
    let Normalized { tree, manifests, app, .. } = Normalized::new()?;
    let agent = normalizing(&tree, &manifests)?.argument("--dry-run");
    let running = agent.start()?;
    let file = tree.cfs_quota_file(&app);
    let state = || running.explain_path(&file).ok().flatten().map(|entry| entry["state"].clone());
    let seen = until_value(kit::patience(), state, |state| *state == Some("dry-run".into()));
    assert_eq!(seen, Some("dry-run".into()));
    assert_eq!(tree.cfs_quota(&app)?, 300_000);
    assert!(!agent.run_dir().join("ledger").metadata().is_ok_and(|ledger| ledger.len() > 0), "no ledger");
    Ok(())
}

#[test]
fn restore_puts_back_what_was_there_with_and_without_a_running_agent() -> Result<()> {
    need!(offers::cgroups());
    let Normalized { tree, manifests, app, .. } = Normalized::new()?;
    let agent = normalizing(&tree, &manifests)?;
    let running = agent.start()?;
    quota_becomes(&tree, &app, 200_000)?;
    // Stopping alone lets go of nothing.
    assert!(running.stop()?.success());
    assert_eq!(tree.cfs_quota(&app)?, 200_000);
    let output = agent.verb("restore", &[])?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(tree.cfs_quota(&app)?, 300_000);

    let leaving: RunningAgent<'_> = agent.start()?;
    quota_becomes(&tree, &app, 200_000)?;
    drop(leaving);
    let agent = agent.argument("--restore-on-exit");
    let running = agent.start()?;
    assert!(running.stop()?.success());
    assert_eq!(tree.cfs_quota(&app)?, 300_000);
    Ok(())
}
