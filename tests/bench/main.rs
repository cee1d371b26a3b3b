//! The bench: figures of the agent and its sensors on this machine, each beside its budget (design.md 7).
//!
//! `bench [SECTION]...` runs the named sections, or all; it prints the rows as one JSON object on stdout and its
//! progress on stderr. `cargo xtask bench` makes the table. Budgets that are missed are reported, not failed: the
//! figures of a busy machine are no verdict.

mod at_rest;
mod churn;
mod cluster;
mod cpi;
mod field;
mod hour;
mod naive;
mod process;
mod reactions;
mod reconcile;
mod row;
mod scrape;
mod sensors;
mod ticks;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use crate::row::Row;

/// A named group of rows that are measured together.
type Section = (&'static str, fn() -> Result<Vec<Row>>);

/// Every section, in the order of the table.
const SECTIONS: &[Section] = &[
    ("sensors", sensors::rows),
    ("pods", at_rest::two_hundred_pods),
    ("cluster", cluster::two_hundred_pods),
    ("cpi", cpi::round),
    ("containers", ticks::thousand_containers),
    ("reconcile", reconcile::thousand_containers),
    ("hour", hour::rows),
    ("scrape", scrape::rows),
    ("births", reactions::births),
    ("repairs", reactions::repairs),
    ("steps", reactions::load_steps),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if wanted.first().is_some_and(|first| first == hour::INSIDE) {
        return inside(wanted.get(1).map(String::as_str));
    }
    let mut rows = Vec::new();
    let mut failed = false;
    for (name, measure) in
        SECTIONS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| w == name))
    {
        say(&format!("bench: {name}"));
        match measure() {
            Ok(measured) => rows.extend(measured),
            Err(error) => {
                failed = true;
                say(&format!("bench: {name} failed: {error:#}"));
            }
        }
    }
    let written = writeln!(std::io::stdout(), "{}", json!({"rows": rows}));
    if failed || written.is_err() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// This program as a process of its own section.
fn inside(who: Option<&str>) -> ExitCode {
    let written = hour::run_inside(who).map(|found| writeln!(std::io::stdout(), "{found}"));
    match written {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Progress for whoever waits; a closed stderr is no reason to stop.
fn say(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}
