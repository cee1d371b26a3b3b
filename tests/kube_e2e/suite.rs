//! The list of tests, run one after the other on one cluster, and their counts in libtest's form.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use kit::offers;

use crate::cases;
use crate::lab::Lab;
use crate::supervise;

/// How long faults last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// Long enough to see the effect.
    Short,
    /// As in real clusters (`--full`).
    Full,
}

/// A test: its name, and what it does with the cluster.
pub(crate) type Case = (&'static str, fn(&Lab) -> Result<()>);

/// Runs all whose name contains the filter. A test that fails leaves a cluster for the next one.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    supervise::take_signals()?;
    let (length, filter) = parse(arguments)?;
    let wanted: Vec<Case> =
        cases::all().into_iter().filter(|(name, _)| filter.is_none_or(|text| name.contains(text))).collect();
    say(&format!("running {} tests", wanted.len()));
    if wanted.is_empty() {
        bail!("no test's name contains {:?}", filter.unwrap_or_default());
    }
    offers::cgroups().map_err(anyhow::Error::msg)?;
    let lab = Lab::up(length)?;
    let mut failures = Vec::new();
    for (name, case) in &wanted {
        let start = Instant::now();
        let outcome =
            catch_unwind(AssertUnwindSafe(|| case(&lab))).unwrap_or_else(|panic| Err(told(&*panic)));
        let seconds = start.elapsed().as_secs();
        match outcome {
            Ok(()) => say(&format!("test {name} ... ok ({seconds} s)")),
            Err(error) => {
                say(&format!("test {name} ... FAILED ({seconds} s)"));
                failures.push((*name, format!("{error:#}")));
            }
        }
    }
    lab.down()?;
    report(wanted.len(), &failures);
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse(arguments: &[String]) -> Result<(Length, Option<&str>)> {
    let (mut length, mut filter) = (Length::Short, None);
    for argument in arguments {
        match argument.as_str() {
            "--full" => length = Length::Full,
            flag if flag.starts_with('-') => bail!("unknown flag {flag}: kube-e2e [--full] [FILTER]"),
            text => filter = Some(text),
        }
    }
    Ok((length, filter))
}

fn report(count: usize, failures: &[(&str, String)]) {
    if !failures.is_empty() {
        say("\nfailures:\n");
    }
    for (name, error) in failures {
        say(&format!("---- {name} stdout ----\n{error}\n"));
    }
    let (result, failed) = (if failures.is_empty() { "ok" } else { "FAILED" }, failures.len());
    say(&format!("test result: {result}. {} passed; {failed} failed; 0 ignored", count - failed));
}

fn told(panic: &(dyn std::any::Any + Send)) -> anyhow::Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    anyhow!("panicked: {}", text.or_else(|| panic.downcast_ref().copied()).unwrap_or("no text"))
}

fn say(line: &str) {
    // Nothing sensible can be done when stdout is closed.
    drop(writeln!(std::io::stdout(), "{line}"));
}
