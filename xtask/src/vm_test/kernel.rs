//! The guest's kernel: Debian's own, downloaded and unpacked, not installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::command::capture;
use crate::debian;

/// The package that names the current kernel of the cloud flavour, the smallest with BTF and both cgroup versions.
const META_PACKAGE: &str = "linux-image-cloud-amd64";

/// The kernel image under `folder`, fetched once.
pub(super) fn fetch(folder: &Path) -> Result<PathBuf> {
    let unpacked = folder.join("kernel");
    if let Some(image) = image_in(&unpacked) {
        return Ok(image);
    }
    debian::unpack(&real_package()?, &unpacked)?;
    image_in(&unpacked).context("the kernel's package holds no image")
}

fn image_in(unpacked: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(unpacked.join("boot")).ok()?.flatten();
    entries
        .find(|entry| entry.file_name().to_string_lossy().starts_with("vmlinuz-"))
        .map(|entry| entry.path())
}

/// The package that the meta package depends on, e.g. `linux-image-6.1.0-39-cloud-amd64`.
fn real_package() -> Result<String> {
    let depends = capture(Command::new("apt-cache").args(["depends", META_PACKAGE]))?;
    let mut packages = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: linux-image"));
    let rest = packages.next().with_context(|| format!("{META_PACKAGE} names no kernel"))?;
    Ok(format!("linux-image{rest}"))
}
