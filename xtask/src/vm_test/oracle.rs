//! What the oracle of the hook rules says, asked here: the guest has no Python.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::capture;
use crate::workspace::Workspace;

/// Worlds of the guest's version of cgroups, and what is said of them.
const PIPE: &str = r#""$1" v2 | python3 "$2""#;

/// Answers to the worlds that the program `worlds` prints, a line each.
pub(super) fn answers(workspace: &Workspace, worlds: &Path) -> Result<String> {
    let script = workspace.path("tests/checks/hook_rules.py");
    capture(Command::new("sh").args(["-c", PIPE, "sh"]).args([worlds, &script]))
}
