//! The guest's root file system: an initramfs of busybox, the programs and a script.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::programs::Programs;
use crate::command::capture;

/// First process of the guest: mounts what a node has, runs the tests, and switches off.
const INIT: &str = include_str!("init.sh");

/// The statically linked shell and tools, and what else is taken from this machine with its libraries.
const BUSYBOX: &str = "/bin/busybox";
const LSCPU: &str = "/usr/bin/lscpu";

/// Makes the image under `folder`. `oracle` is what the oracle of the hook rules answers. The tests run those whose name contains `filter`.
pub(super) fn make(
    folder: &Path,
    programs: &Programs,
    oracle: &str,
    filter: Option<&str>,
) -> Result<PathBuf> {
    let root = folder.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).with_context(|| format!("emptying {}", root.display()))?;
    }
    for name in [
        "bin",
        "sbin",
        "usr/bin",
        "usr/sbin",
        "proc",
        "sys",
        "dev",
        "tmp",
        "run",
        "var",
        "etc",
        "root",
        "payload/oracle",
    ] {
        fs::create_dir_all(root.join(name))?;
    }
    symlink("/run", root.join("var/run"))?;
    add_busybox(&root)?;
    add_with_libraries(&root, Path::new(LSCPU))?;
    add(&programs.agent, &root.join("payload/koordlet"))?;
    add(&programs.load, &root.join("payload/kit-load"))?;
    add(&programs.tests, &root.join("payload/real_kernel"))?;
    text(&root.join("payload/oracle/answers"), oracle)?;
    text(&root.join("payload/filter"), filter.unwrap_or_default())?;
    text(&root.join("init"), INIT)?;
    pack(&root, &folder.join("initramfs.gz"))
}

fn add_busybox(root: &Path) -> Result<()> {
    add(Path::new(BUSYBOX), &root.join("bin/busybox"))?;
    let applets = capture(Command::new(BUSYBOX).arg("--list"))?;
    for applet in applets.lines().filter(|applet| *applet != "busybox") {
        symlink("busybox", root.join("bin").join(applet))?;
    }
    Ok(())
}

/// Copies a program and the libraries that the loader would give it, under their own paths.
fn add_with_libraries(root: &Path, program: &Path) -> Result<()> {
    let libraries = capture(Command::new("ldd").arg(program))?;
    let words = libraries.split_whitespace().filter(|word| word.starts_with('/')).map(Path::new);
    for file in words.chain([program]) {
        let inside = root.join(file.strip_prefix("/")?);
        fs::create_dir_all(inside.parent().context("a file has a folder")?)?;
        add(file, &inside)?;
    }
    Ok(())
}

fn add(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("copying {} into the image", from.display()))?;
    Ok(())
}

fn text(path: &Path, text: &str) -> Result<()> {
    let mut file = File::options().create_new(true).write(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// `find | cpio | gzip`, the form that the kernel unpacks.
fn pack(root: &Path, image: &Path) -> Result<PathBuf> {
    let file = File::options().create(true).truncate(true).write(true).open(image)?;
    let status = Command::new("sh")
        .args(["-c", "find . -print0 | cpio --null -o -H newc --quiet | gzip -1"])
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(file)
        .status()?;
    if status.success() { Ok(image.to_owned()) } else { bail!("packing the image ended with {status}") }
}
