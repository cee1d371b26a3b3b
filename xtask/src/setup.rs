//! `cargo xtask setup`: finds the toolchain of the eBPF programs, or installs what is missing of it.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::command::run as run_command;
use crate::debian;
use crate::toolchain::{Compiler, LINKER_VERSION, LLVM_MAJOR, Linker, PACKAGES, Toolchain, own_tools};
use crate::workspace::Workspace;

/// Says what is used, and installs what is not there. Done in a blink when all is.
pub(crate) fn run(workspace: &Workspace) -> Result<Toolchain> {
    let toolchain = ensure(workspace)?;
    let version = toolchain.compiler.version()?;
    println!("eBPF compiler: {} ({})", toolchain.compiler.name(), version.lines().next().unwrap_or_default());
    println!("eBPF linker: {} {LINKER_VERSION}", toolchain.linker.display());
    Ok(toolchain)
}

/// The same for other verbs: silent when there is nothing to do.
pub(crate) fn ensure(workspace: &Workspace) -> Result<Toolchain> {
    let compiler = match Compiler::find() {
        Some(compiler) => compiler,
        None => install_compiler()?,
    };
    match Linker::find(workspace) {
        Linker::Right(linker) => return Ok(Toolchain { compiler, linker }),
        Linker::Wrong { path, says } => {
            println!(
                "{} will not do, bpf-linker {LINKER_VERSION} is needed ({says}): installing that one for this \
                 project alone",
                path.display()
            );
            install_linker(workspace, &compiler, Place::Project)?;
        }
        Linker::Missing => install_linker(workspace, &compiler, Place::CargoHome)?,
    }
    Toolchain::find(workspace).context("after installing bpf-linker")
}

fn install_compiler() -> Result<Compiler> {
    println!("no compiler for eBPF here (rustup's nightly with rust-src, or Debian's): installing Debian's");
    debian::install(&PACKAGES).with_context(|| {
        format!(
            "the eBPF programs need either `rustup toolchain install nightly --component rust-src` with an LLVM \
             of at most {LLVM_MAJOR}, or Debian's packages {}",
            PACKAGES.join(" ")
        )
    })?;
    match Compiler::find() {
        Some(compiler) => Ok(compiler),
        None => bail!("Debian's compiler is installed and yet cannot be used: try `/usr/bin/rustc -vV`"),
    }
}

/// Where a linker is installed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Beside the user's other programs.
    CargoHome,
    /// In the target folder, so that another version stays as it is.
    Project,
}

fn install_linker(workspace: &Workspace, compiler: &Compiler, place: Place) -> Result<()> {
    let llvm = format!("/usr/lib/llvm-{LLVM_MAJOR}");
    debian::install(&[&format!("llvm-{LLVM_MAJOR}-dev")]).with_context(|| {
        format!("bpf-linker {LINKER_VERSION} is built against LLVM {LLVM_MAJOR} in {llvm}")
    })?;
    println!("building bpf-linker {LINKER_VERSION} (some minutes, once)");
    let start = Instant::now();
    let mut command = compiler.cargo();
    command
        .args(["install", "bpf-linker", "--version", LINKER_VERSION, "--force", "--quiet"])
        .args(["--no-default-features", "--features", &format!("llvm-{LLVM_MAJOR}")])
        // An ordinary program: no nightly features.
        .env_remove("RUSTC_BOOTSTRAP")
        // The linker's own speed does not matter; that of its build does.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("LLVM_PREFIX", llvm)
        .env("CARGO_TARGET_DIR", workspace.target("bpf-linker-build"));
    if place == Place::Project {
        command.arg("--root").arg(own_tools(workspace));
    }
    run_command(&mut command).context("building bpf-linker")?;
    println!("built bpf-linker in {} s", start.elapsed().as_secs());
    Ok(())
}
