//! Running other programs: every failure names the command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::workspace::Workspace;

/// The Cargo that runs xtask, in the project's folder, with its own target folder.
pub(crate) fn cargo(workspace: &Workspace) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace.root()).env("CARGO_TARGET_DIR", workspace.target(""));
    // What Cargo told this program about itself is not for the packages that are built next.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_package_variable(name)) {
        command.env_remove(name);
    }
    command
}

/// Another Cargo or compiler than the one that runs xtask: none of its settings must reach it.
pub(crate) fn foreign(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_toolchain_variable(name)) {
        command.env_remove(name);
    }
    command
}

fn is_package_variable(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

fn is_toolchain_variable(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let cargo = name.starts_with("CARGO") && name != "CARGO_HOME" && !name.starts_with("CARGO_HTTP");
    let rust = name.starts_with("RUSTUP_TOOLCHAIN") || name.starts_with("RUSTC") || name == "RUSTFLAGS";
    cargo || rust || name == "RUSTDOCFLAGS"
}

/// Runs with the terminal's output; an unsuccessful end is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("starting {}", name_of(command)))?;
    if status.success() { Ok(()) } else { bail!("{} ended with {status}", line_of(command)) }
}

/// Runs quietly and returns stdout; on failure the error holds what it said.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("starting {}", name_of(command)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let tail: Vec<&str> = said.lines().rev().take(30).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    bail!("{} ended with {}:\n{}", line_of(command), output.status, tail.join("\n"))
}

/// A program on PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn name_of(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn line_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
