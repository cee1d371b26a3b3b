//! Where the project and its build output are.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The project's folder and Cargo's target folder.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// The target folder is where this very program was built, however Cargo was told of it.
    pub(crate) fn find() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().context("xtask lies in the workspace's folder")?;
        let this = std::env::current_exe().context("finding this program")?;
        let target = this.ancestors().nth(2).context("xtask was not started by Cargo")?;
        Ok(Self { root: root.to_owned(), target: target.to_owned() })
    }

    /// The project's folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A path in the project.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// A path in the target folder.
    pub(crate) fn target(&self, relative: &str) -> PathBuf {
        self.target.join(relative)
    }

    /// The eBPF object that the agent embeds.
    pub(crate) fn bpf_object(&self) -> PathBuf {
        self.target("bpf/koordlet.bpf.o")
    }
}
