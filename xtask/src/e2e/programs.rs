//! Where the programs of a cluster come from: a folder that is named, or `target/e2e/bin`, where what is missing is built
//! once.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::go_modules::Module;
use crate::command::find_program;
use crate::workspace::Workspace;

/// Names a folder that holds the programs. What it lacks is an error: it is not this project's to write to.
const FOLDER: &str = "KOORDLET_E2E_BIN";
/// Of Kubernetes. Its libraries have the same numbers with a 0 in front.
const KUBERNETES: &str = "1.36.3";
/// Of containerd.
const CONTAINERD: &str = "2.4.2";

/// A program and the Go package that it is built from.
struct Program {
    name: &'static str,
    module: fn() -> Module,
    flags: &'static [&'static str],
}

const PROGRAMS: [Program; 6] = [
    Program { name: "kube-apiserver", module: kubernetes, flags: &[] },
    Program { name: "kubelet", module: kubernetes, flags: &[] },
    Program { name: "kubectl", module: kubernetes, flags: &[] },
    Program { name: "containerd", module: containerd, flags: NO_STORAGE },
    Program { name: "containerd-shim-runc-v2", module: containerd, flags: NO_STORAGE },
    Program { name: "ctr", module: containerd, flags: NO_STORAGE },
];

/// Snapshotters that would need C libraries.
const NO_STORAGE: &[&str] = &["-tags", "no_btrfs,no_zfs,no_devmapper"];

fn kubernetes() -> Module {
    Module::kubernetes(KUBERNETES)
}

fn containerd() -> Module {
    Module::plain("github.com/containerd/containerd/v2", CONTAINERD)
}

/// The folder with all programs in it.
pub(super) fn find_or_build(workspace: &Workspace) -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(FOLDER).map(PathBuf::from) {
        let lacking: Vec<&str> = lacking(&named).map(|program| program.name).collect();
        if lacking.is_empty() {
            return Ok(named);
        }
        bail!("{}, which {FOLDER} names, has no {}", named.display(), lacking.join(", "));
    }
    let folder = workspace.target("e2e/bin");
    std::fs::create_dir_all(&folder)?;
    for program in lacking(&folder) {
        build(program, workspace, &folder)?;
    }
    Ok(folder)
}

/// kubectl may be anywhere: every release of some years does.
fn lacking(folder: &Path) -> impl Iterator<Item = &'static Program> {
    PROGRAMS.iter().filter(|program| {
        let elsewhere = program.name == "kubectl" && find_program("kubectl").is_some();
        !elsewhere && !folder.join(program.name).is_file()
    })
}

fn build(program: &Program, workspace: &Workspace, folder: &Path) -> Result<()> {
    if find_program("go").is_none() {
        bail!("{} has to be built: this needs Go 1.26 or newer on PATH, or {FOLDER}=DIR", program.name);
    }
    let module = (program.module)();
    println!("building {} from {} {}: minutes of CPU, once", program.name, module.path(), module.version());
    module.build(program.name, program.flags, &workspace.target("e2e/src"), folder)
}
