//! `cargo xtask crds`: writes the definitions of the custom resources. A test fails where one is stale.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
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
        let open = File::options().create(true).truncate(true).write(true).open(&file);
        let written = open.and_then(|mut open| open.write_all(text.as_bytes()));
        written.with_context(|| format!("writing {}", file.display()))?;
        println!("written: {FOLDER}/{name}");
    }
    Ok(ExitCode::SUCCESS)
}
