//! Finds the binaries that tests start: by environment, else beside the running test.

use std::path::PathBuf;

use anyhow::{Result, bail};

/// The agent: `KOORDLET_BIN`, else `koordlet` beside the running program.
pub fn koordlet() -> Result<PathBuf> {
    find("KOORDLET_BIN", "koordlet")
}

/// The load generator of the kit: `KOORDLET_LOAD_BIN`, else `kit-load` beside the running program.
pub fn load() -> Result<PathBuf> {
    find("KOORDLET_LOAD_BIN", "kit-load")
}

/// Cargo puts test programs into `deps/` below the folder of the binaries.
fn find(variable: &str, name: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return Ok(path.into());
    }
    let this = std::env::current_exe()?;
    let beside = this.ancestors().skip(1).take(2).map(|folder| folder.join(name));
    match beside.into_iter().find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => bail!("no {name} beside {}: build the workspace or set {variable}", this.display()),
    }
}
