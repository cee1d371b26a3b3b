//! With the real runc: the order in which it makes groups and writes values is what breaks agents (C201 to
//! C203).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use kit::agent::Agent;
use kit::manifest::{Manifests, NODE, NodeManifest, PodManifest};
use kit::names::Driver;
use kit::{Class, Tree, need, offers};
use serde_json::json;

use crate::enforce::quota_becomes;

/// A bundle with a busybox that sleeps, run detached by runc in a cgroup of the test; deleted on drop.
struct Runc {
    state: tempfile::TempDir,
    id: String,
}

impl Runc {
    /// Starts container `id` in the cgroup `dir` with a CPU quota of 200000.
    fn run(bundles: &Path, id: &str, dir: &str) -> Result<Self> {
        let bundle = bundles.join(id);
        fs::create_dir_all(bundle.join("rootfs/bin"))?;
        fs::create_dir_all(bundle.join("rootfs/proc"))?;
        fs::copy("/bin/busybox", bundle.join("rootfs/bin/busybox")).context("busybox-static is installed")?;
        let namespaces = ["pid", "mount", "ipc", "uts", "network"].map(|kind| json!({"type": kind}));
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": ["/bin/busybox", "sleep", "600"],
                "env": ["PATH=/bin"],
                "cwd": "/",
            },
            "root": {"path": "rootfs", "readonly": true},
            "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {
                "cgroupsPath": format!("/{dir}"),
                "namespaces": namespaces,
                "resources": {"cpu": {"shares": 1024, "quota": 200_000, "period": 100_000}},
            },
        });
        let file = fs::OpenOptions::new().write(true).create_new(true).open(bundle.join("config.json"))?;
        serde_json::to_writer(file, &config)?;
        let container = Self { state: tempfile::tempdir()?, id: id.to_owned() };
        let log = bundle.join("log");
        let status = container
            .command()
            .args(["--log", &log.to_string_lossy(), "run", "--detach", "--bundle"])
            .arg(&bundle)
            .arg(id)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("runc run: {status}: {}", fs::read_to_string(log).unwrap_or_default());
        }
        Ok(container)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("runc");
        command.arg("--root").arg(self.state.path());
        command
    }
}

impl Drop for Runc {
    fn drop(&mut self) {
        // The tree's removal catches what this leaves.
        self.command().args(["delete", "--force", &self.id]).stderr(Stdio::null()).status().ok();
    }
}

fn pod(id: &str) -> PodManifest {
    PodManifest::new("web", Class::Burstable)
        .qos("LS")
        .with_uid("11111111-2222-3333-4444-555555555555")
        .container("app", id, |container| container.cpu_limit("2"))
}

#[test]
fn c201_c202_c203_a_normalized_pods_container_starts_restarts_and_ends_with_our_value() -> Result<()> {
    need!(offers::cgroup_v1());
    need!(offers::program("runc"));
    let (tree, manifests) = (Tree::with_driver(Driver::Cgroupfs)?, Manifests::new()?);
    let bundles = tempfile::tempdir()?;
    let pod_dir = tree.pod_dirs(&pod("first")).pod;
    tree.make(&pod_dir)?;
    tree.set_cfs_quota(&pod_dir, 200_000)?;
    manifests.write("pod", &pod("first"))?;
    manifests.write("node", &NodeManifest::this_host(NODE).normalization_ratio("1.5"))?;
    let agent = Agent::of(&tree, &manifests)?.flag("feature-gates", "CPUNormalization=true");
    let running = agent.start()?;

    // No hooks are live, so the pod directory stays where runc's 200000 fits beneath it (C201).
    for id in ["first", "second", "third"] {
        manifests.write("pod", &pod(id))?;
        let dir = tree.pod_dirs(&pod(id)).container("app");
        let container = Runc::run(bundles.path(), id, &dir)?;
        // runc wrote 200000 after it had made the groups; ours holds at the end (C202).
        quota_becomes(&tree, &dir, 133_334)?;
        quota_becomes(&tree, &pod_dir, 200_000)?;
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(tree.cfs_quota(&dir)?, 133_334, "{}", running.log());
        drop(container);
    }
    // A group that is not there yet in the next hierarchy is no error (C203).
    let log = running.log();
    let complaints: Vec<_> =
        log.lines().filter(|line| line.contains("ERROR") || line.contains("WARN")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    Ok(())
}
