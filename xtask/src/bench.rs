//! `cargo xtask bench`: builds for release, runs the bench, prints its table and leaves `target/bench.json`.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::Value;

use crate::command::{cargo, run as run_command};
use crate::workspace::Workspace;
use crate::{build_ebpf, debian};

/// What the system call count is taken with.
const PACKAGES: [&str; 1] = ["strace"];

/// Arguments of the verb.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these sections
    sections: Vec<String>,
}

/// Measures; fails when a section could not be measured, not when a budget is missed.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<ExitCode> {
    build_ebpf::run(workspace)?;
    if let Err(error) = debian::install(&PACKAGES) {
        eprintln!("xtask: {error:#}");
    }
    println!("building for release");
    run_command(cargo(workspace).args([
        "build",
        "--release",
        "--quiet",
        "-p",
        "koordlet",
        "-p",
        "koordlet-tests",
        "--bins",
    ]))?;
    let output = Command::new(workspace.target("release/bench"))
        .args(&options.sections)
        .env("KOORDLET_BIN", workspace.target("release/koordlet"))
        .stderr(Stdio::inherit())
        .output()
        .context("starting the bench")?;
    let result: Value = serde_json::from_slice(&output.stdout).context("the bench's rows")?;
    print_table(result["rows"].as_array().context("no rows")?);
    let path = workspace.target("bench.json");
    let mut file = open(&path).with_context(|| format!("making {}", path.display()))?;
    writeln!(file, "{}", serde_json::to_string_pretty(&result)?)?;
    println!("written: {}", path.display());
    Ok(if output.status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn open(path: &std::path::Path) -> std::io::Result<File> {
    File::options().create(true).truncate(true).write(true).open(path)
}

fn print_table(rows: &[Value]) {
    let line = |cells: [&str; 6]| {
        let [name, value, unit, baseline, ratio, budget] = cells;
        println!("{name:<62} {value:>10} {unit:<12} {baseline:>10} {ratio:>8} {budget:>14}");
    };
    line(["what", "value", "unit", "baseline", "ratio", "budget"]);
    for row in rows {
        let met = match row["met"].as_bool() {
            Some(true) => " met",
            Some(false) => " MISSED",
            None => "",
        };
        let budget = format!("{}{met}", number(&row["budget"]));
        line([
            row["name"].as_str().unwrap_or_default(),
            &number(&row["value"]),
            row["unit"].as_str().unwrap_or_default(),
            &number(&row["baseline"]),
            &number(&row["ratio"]),
            &budget,
        ]);
    }
}

/// Three digits are enough for a reader; the file keeps all.
fn number(value: &Value) -> String {
    match value.as_f64() {
        None => "-".to_owned(),
        Some(figure) if figure.abs() >= 100.0 => format!("{figure:.0}"),
        Some(figure) if figure.abs() >= 1.0 => format!("{figure:.1}"),
        Some(figure) => format!("{figure:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_rounded_for_reading() {
        let shown = [1234.6, 12.34, 0.1234].map(|figure| number(&figure.into()));
        assert_eq!(shown, ["1235", "12.3", "0.123"]);
        assert_eq!(number(&Value::Null), "-");
    }
}
