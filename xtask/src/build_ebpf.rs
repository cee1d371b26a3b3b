//! `cargo xtask build-ebpf`: builds the kernel-side programs and leaves the object where the agent's build finds it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::command::run as run_command;
use crate::elf;
use crate::newer::is_up_to_date;
use crate::setup;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;

/// The BPF target of rustc.
const TARGET: &str = "bpfel-unknown-none";

/// Builds when something has changed. Returns whether it did.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let object = workspace.bpf_object();
    let sources = [workspace.path("koordlet-ebpf"), workspace.path("koordlet-common")];
    let stamp = workspace.target("ebpf-build/built");
    if object.exists() && is_up_to_date(&stamp, &[&sources[0], &sources[1]]) {
        println!("up to date: {}", object.display());
        return Ok(false);
    }
    let toolchain = setup::ensure(workspace).context("the toolchain of the eBPF programs")?;
    println!("building the eBPF programs with {}", toolchain.compiler.name());
    let built = compile(workspace, &toolchain)?;
    check(&built)?;
    let changed = install(&built, &object)?;
    fs::copy(&object, &stamp).context("noting that the build is up to date")?;
    println!("{}: {}", if changed { "built" } else { "unchanged" }, object.display());
    Ok(changed)
}

fn compile(workspace: &Workspace, toolchain: &Toolchain) -> Result<std::path::PathBuf> {
    let target_dir = workspace.target("ebpf-build");
    let mut command = toolchain.compiler.cargo();
    command
        .current_dir(workspace.path("koordlet-ebpf"))
        .args(["build", "--release", "--locked", "--target", TARGET, "-Z", "build-std=core"])
        .env("CARGO_TARGET_DIR", &target_dir)
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &toolchain.linker)
        // aya-build would look for bpf-linker on PATH.
        .env("PATH", with_first(toolchain.linker.parent()));
    run_command(&mut command).with_context(|| {
        format!(
            "building the eBPF programs with {} and {}",
            toolchain.compiler.name(),
            toolchain.linker.display()
        )
    })?;
    Ok(target_dir.join(TARGET).join("release/koordlet"))
}

/// An object without its type information or maps loads nowhere: better found here than at the agent's start.
fn check(object: &Path) -> Result<()> {
    let bytes = fs::read(object).with_context(|| format!("reading {}", object.display()))?;
    let sections =
        elf::section_names(&bytes).with_context(|| format!("{} is no ELF file", object.display()))?;
    let absent: Vec<&str> = [".BTF", ".maps", "license"]
        .into_iter()
        .filter(|wanted| !sections.iter().any(|name| name == wanted))
        .collect();
    if absent.is_empty() {
        return Ok(());
    }
    bail!("{} lacks the sections {}: compiler and bpf-linker do not fit", object.display(), absent.join(" "))
}

/// Places the object in one step, so that a build that runs meanwhile sees the old or the new one. An equal one is
/// left alone: the agent embeds it, and would be built again. Returns whether there is a new one.
fn install(built: &Path, object: &Path) -> Result<bool> {
    if fs::read(object).is_ok_and(|old| fs::read(built).is_ok_and(|new| old == new)) {
        return Ok(false);
    }
    let folder = object.parent().context("the object's folder")?;
    fs::create_dir_all(folder)?;
    let partial = object.with_extension("partial");
    fs::copy(built, &partial).with_context(|| format!("copying to {}", partial.display()))?;
    fs::rename(&partial, object).with_context(|| format!("placing {}", object.display()))?;
    Ok(true)
}

fn with_first(folder: Option<&Path>) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = folder.map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap_or(path)
}
