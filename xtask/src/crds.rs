//! `cargo xtask crds`: writes the definitions of the custom resources. A test fails where one is stale.

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::command::{capture, cargo};
use crate::workspace::Workspace;

/// Where they live.
const FOLDER: &str = "deploy/crds";

/// Has the agent's own types printed, and writes each to its file.
pub(crate) fn run(workspace: &Workspace) -> Result<ExitCode> {
    let mut print = cargo(workspace);
    print.args(["run", "--quiet", "-p", "koordlet-tests", "--bin", "crds"]);
    let files = capture(&mut print).context("making the definitions")?;
    let files: BTreeMap<String, String> = serde_json::from_str(&files).context("reading the definitions")?;
    let folder = workspace.root().join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, text) in files {
        let file = folder.join(&name);
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        println!("written: {FOLDER}/{name}");
    }
    Ok(ExitCode::SUCCESS)
}
