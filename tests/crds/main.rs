//! Prints the definitions of the custom resources as one JSON object, file name to text, for `cargo xtask crds`.

use std::collections::BTreeMap;
use std::io::Write as _;

fn main() -> anyhow::Result<()> {
    let files: BTreeMap<_, _> = koordlet::api::crds::files()?.into_iter().collect();
    std::io::stdout().write_all(serde_json::to_string(&files)?.as_bytes())?;
    Ok(())
}
