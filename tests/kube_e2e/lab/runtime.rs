//! containerd with its CRI service.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result};

use super::daemon::Daemon;
use super::image;
use super::namespace;
use super::place::Place;
use super::programs::{Programs, capture};

/// The CRI socket.
pub(super) fn socket(place: &Place) -> PathBuf {
    place.path("containerd.sock")
}

/// Starts it in a mount namespace of its own, with the image in it.
pub(super) fn start(place: &Place, programs: &Programs) -> Result<Daemon> {
    let config = place.write("containerd.toml", &config(place))?;
    // Pods are on the host's network: this is what a node must have to be ready, and nothing is ever called.
    std::fs::create_dir_all(place.path("cni"))?;
    let network = r#"{"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "loopback"}]}"#;
    place.write("cni/10-none.conflist", network)?;
    let archive = image::make(place, programs)?;
    let mut command = programs.command("containerd")?;
    command.arg("--config").arg(config).args(["--log-level", "warn"]);
    let containerd = Daemon::start(place, "containerd", &mut namespace::in_new(&place.dir, &command)?)?;
    let ctr = || {
        let mut ctr = programs.command("ctr")?;
        ctr.arg("--address").arg(socket(place)).stdin(Stdio::null());
        anyhow::Ok(ctr)
    };
    containerd.wait_until("it answers", || capture(ctr()?.arg("version")).map(|_| true))?;
    capture(ctr()?.args(["--namespace", "k8s.io", "images", "import"]).arg(archive))
        .context("importing the image")?;
    Ok(containerd)
}

fn config(place: &Place) -> String {
    let path = |name: &str| place.path(name).display().to_string();
    let (root, state, socket, network) =
        (path("containerd"), path("state"), path("containerd.sock"), path("cni"));
    let (programs, image) = (path("cni-programs"), image::IMAGE);
    // A machine may refuse to lower oom_score_adj, also to root; sandboxes ask for -998.
    format!(
        r#"version = 3
root = "{root}"
state = "{state}"
[grpc]
  address = "{socket}"
[ttrpc]
  address = "{socket}.ttrpc"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "overlayfs"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{image}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{programs}"]
    conf_dir = "{network}"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      SystemdCgroup = false
[plugins.'io.containerd.nri.v1.nri']
  disable = true
"#
    )
}
