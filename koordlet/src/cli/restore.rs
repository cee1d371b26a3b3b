//! `koordlet restore`: asks the running agent to put every original value back, or does it from the ledger
//! when no agent runs.

use std::fmt::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use hyper::Method;
use serde_json::Value;

use super::agent_client::{AskError, ask};
use crate::cgroup::layout::Layout;
use crate::config::{Config, Output};
use crate::executor::{ExecutorConfig, restore_offline};

/// Restores; exit code 1 if a value could not be put back.
pub fn run(config: &Config, output: Output) -> anyhow::Result<ExitCode> {
    let (report, by) = match ask(&config.admin_socket, Method::POST, "/restore") {
        Ok(report) => (report, By::Agent),
        Err(AskError::NoAgent { .. }) => (serde_json::to_value(offline(config)?)?, By::Ledger),
        Err(error) => return Err(error.into()),
    };
    let text = match output {
        Output::Json => serde_json::to_string_pretty(&report)?,
        Output::Text => describe(&report, by)?,
    };
    super::answer(&text)?;
    let all_back = list(&report, "failed").is_empty();
    Ok(if all_back { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn offline(config: &Config) -> anyhow::Result<crate::executor::RestoreReport> {
    let layout = Layout::detect(&config.roots).context("cannot find the cgroup hierarchies")?;
    Ok(restore_offline(ExecutorConfig {
        layout: Arc::new(layout),
        run_dir: config.run_dir.clone(),
        roots: config.roots.clone(),
        dry_run: config.dry_run,
        host_root: crate::agent::host_root(config),
        observer: None,
    })?)
}

/// Who put the values back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The agent that runs.
    Agent,
    /// This process, as no agent runs.
    Ledger,
}

fn describe(report: &Value, by: By) -> Result<String, fmt::Error> {
    let mut text = String::new();
    for path in list(report, "restored") {
        writeln!(text, "restored {}", plain(path))?;
    }
    for path in list(report, "gone") {
        writeln!(text, "gone {}", plain(path))?;
    }
    for failure in list(report, "failed") {
        let part = |index: usize| failure.get(index).map(plain).unwrap_or_default();
        writeln!(text, "failed {}: {}", part(0), part(1))?;
    }
    if text.is_empty() {
        text.push_str("there was nothing to restore\n");
    }
    if by == By::Agent {
        text.push_str("the running agent enforces nothing more until it is started anew\n");
    }
    Ok(text)
}

fn list<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_restored_and_what_not_is_listed() {
        let report = json!({"restored": ["/a"], "gone": ["/b"], "failed": [["/c", "EBUSY"]]});
        assert_eq!(describe(&report, By::Ledger).unwrap(), "restored /a\ngone /b\nfailed /c: EBUSY\n");
        let nothing = json!({"restored": [], "gone": [], "failed": []});
        assert_eq!(describe(&nothing, By::Ledger).unwrap(), "there was nothing to restore\n");
        assert!(describe(&report, By::Agent).unwrap().ends_with("until it is started anew\n"));
    }
}
