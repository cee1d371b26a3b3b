//! Where the programs of the cluster are: Debian's on PATH, the others in the folder that `cargo xtask e2e` names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Programs that are looked for first in one folder, then on PATH.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    path: OsString,
}

impl Programs {
    /// `KOORDLET_E2E_BIN`, and PATH.
    pub(crate) fn find() -> Result<Self> {
        let folder = std::env::var_os("KOORDLET_E2E_BIN")
            .context("KOORDLET_E2E_BIN names no folder: `cargo xtask e2e kube` starts this")?;
        let rest = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(PathBuf::from(folder)).chain(std::env::split_paths(&rest));
        let programs = Self { path: std::env::join_paths(folders)? };
        for name in ["etcd", "kube-apiserver", "containerd", "kubelet", "ctr", "kubectl", "runc"] {
            programs.get(name)?;
        }
        Ok(programs)
    }

    /// A program's path.
    pub(crate) fn get(&self, name: &str) -> Result<PathBuf> {
        let mut found = std::env::split_paths(&self.path).map(|folder| folder.join(name));
        found.find(|path| path.is_file()).with_context(|| format!("there is no {name}"))
    }

    /// A command that finds the programs which it starts itself.
    pub(crate) fn command(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(self.get(name)?);
        command.env("PATH", &self.path);
        Ok(command)
    }
}

/// Runs to the end; the error holds what it said. Returns stdout.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.output().with_context(|| format!("starting {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}: {said}", output.status);
    Ok(output.stdout)
}
