//! Pods' resctrl groups with the real binary and real processes. No machine of the tests has a CPU with resctrl, so a
//! folder stands for its file system: with the group made, since a folder does not make the files of a new one. What
//! the kernel refuses is tried beside the code.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use kit::agent::Agent;
use kit::manifest::{Manifests, NODE, NodeManifest, PodManifest};
use kit::{Class, Tree, need, offers, until};

const ANNOTATION: &str = "node.koordinator.sh/resctrl";

/// procfs as it is, but with a CPU that has what it takes.
fn procfs(folder: &Path) -> Result<PathBuf> {
    let proc = folder.join("proc");
    fs::create_dir(&proc)?;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        // Processes come and go; whoever is looked for is found by the links that follow the reader.
        if name != "cpuinfo" && !name.to_string_lossy().starts_with(|c: char| c.is_ascii_digit()) {
            symlink(Path::new("/proc").join(&name), proc.join(&name))?;
        }
    }
    put(&proc, "cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu cat_l3 mba\n")?;
    Ok(proc)
}

#[expect(clippy::disallowed_methods, reason = "a folder of the test's own")]
fn put(folder: &Path, path: &str, text: &str) -> Result<()> {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().context("a parent")?)?;
    Ok(fs::write(path, text)?)
}

#[test]
fn a_pods_annotation_reaches_its_groups_lines_and_tasks() -> Result<()> {
    need!(offers::cgroups());
    let folder = tempfile::tempdir()?;
    let proc = procfs(folder.path())?;
    let (tree, manifests) = (Tree::new()?, Manifests::new()?);
    let wish = PodManifest::new("cached", Class::Burstable)
        .qos("LS")
        .container("app", "cachedc0", |container| container)
        .annotation(ANNOTATION, r#"{"llc":{"schemata":{"range":[0,30]}}}"#);
    let root = folder.path().join("fs/resctrl");
    let group = format!("koordlet-{}", wish.uid());
    for dir in [".", group.as_str()] {
        put(&root, &format!("{dir}/schemata"), "    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n")?;
        put(&root, &format!("{dir}/tasks"), "")?;
    }
    put(&root, "info/L3/cbm_mask", "7ff\n")?;
    put(&root, "info/L3/min_cbm_bits", "1\n")?;
    put(&root, "info/MB/min_bandwidth", "10\n")?;
    let dirs = tree.make_pod(&wish)?;
    let spinner = tree.spin(&dirs.container("app"), 2)?;
    manifests.write("node", &NodeManifest::this_host(NODE))?;
    manifests.write("pod", &wish)?;
    let agent = Agent::of(&tree, &manifests)?
        .flag("feature-gates", "Resctrl=true")
        .flag("proc-root-dir", &proc)
        .flag("sys-fs-root-dir", folder.path().join("fs"));
    let running = agent.start()?;
    let text = |file: &str| fs::read_to_string(root.join(&group).join(file)).unwrap_or_default();
    let written = until(kit::patience(), || text("schemata").starts_with("L3:0=f;1=f;\n"));
    ensure!(written, "the lines are {:?}", text("schemata"));
    let thread = spinner.pid().to_string();
    let moved = until(kit::patience(), || text("tasks").lines().any(|line| line == thread));
    ensure!(moved, "{thread} is not among {:?}", text("tasks"));
    ensure!(text("tasks").lines().count() >= 2, "all threads: {:?}", text("tasks"));
    let reports = running.explain(Some(&wish.key()))?;
    let shown = reports.to_string();
    for part in ["L3:0=f;1=f", &format!("/sys/fs/resctrl/{group}/schemata"), "PodResctrl", "held"] {
        ensure!(shown.contains(part), "{part} is not in {shown}");
    }
    ensure!(running.stop()?.success());
    Ok(())
}
