//! The one image of the cluster, made here: busybox with its applets, as an OCI archive. Nothing is pulled.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::place::Place;
use super::programs::{Programs, capture};

/// Its name. Sandboxes run it, too.
pub(crate) const IMAGE: &str = "e2e.local/busybox:1";

/// Makes the archive in the cluster's folder.
pub(super) fn make(place: &Place, programs: &Programs) -> Result<PathBuf> {
    let layout = Layout { dir: place.path("image") };
    fs::create_dir_all(layout.dir.join("blobs/sha256"))?;
    let layer = layer(place, programs)?;
    let layer = layout.add(&layer, "layer.v1.tar")?;
    // Without a command of its own it waits for ever: that is a sandbox.
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["/bin/sleep", "1000000"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let config = layout.add_json(place, &config, "config.v1+json")?;
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]});
    let mut manifest = layout.add_json(place, &manifest, "manifest.v1+json")?;
    manifest["annotations"] = json!({"io.containerd.image.name": IMAGE});
    place.write("image/oci-layout", &json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
    place.write("image/index.json", &json!({"schemaVersion": 2, "manifests": [manifest]}).to_string())?;
    pack(&layout.dir, &place.path("image.tar"))
}

/// An OCI layout in a folder.
struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// Moves a file in; the answer is its descriptor.
    fn add(&self, file: &Path, kind: &str) -> Result<Value> {
        let said = String::from_utf8(capture(Command::new("sha256sum").arg(file))?)?;
        let digest = said.split(' ').next().context("no digest")?;
        let size = fs::metadata(file)?.len();
        fs::rename(file, self.dir.join("blobs/sha256").join(digest))?;
        let media_type = format!("application/vnd.oci.image.{kind}");
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size}))
    }

    fn add_json(&self, place: &Place, document: &Value, kind: &str) -> Result<Value> {
        self.add(&place.write("blob.json", &document.to_string())?, kind)
    }
}

fn layer(place: &Place, programs: &Programs) -> Result<PathBuf> {
    let root = place.path("image-root");
    for folder in ["bin", "etc", "proc", "sys", "dev", "tmp", "run"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let busybox = programs.get("busybox")?;
    fs::copy(&busybox, root.join("bin/busybox"))?;
    let applets = String::from_utf8(capture(Command::new(&busybox).arg("--list"))?)?;
    for applet in applets.lines().filter(|applet| *applet != "busybox") {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    place.write("image-root/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")?;
    pack(&root, &place.path("layer.tar"))
}

fn pack(folder: &Path, into: &Path) -> Result<PathBuf> {
    let mut tar = Command::new("tar");
    capture(tar.args(["--owner=0", "--group=0", "-C"]).arg(folder).arg("-cf").arg(into).arg("."))?;
    Ok(into.to_owned())
}
