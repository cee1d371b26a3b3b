//! `koordlet explain`: each value held, where it came from, what it replaced, and the claims that lost.

use std::fmt::{self, Write as _};
use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;

use super::agent_client::ask;
use crate::config::{Config, Output};
use crate::report::explanation::escape;

/// Prints what the running agent says of `target`, of everything when absent.
pub fn run(config: &Config, output: Output, target: Option<&str>) -> anyhow::Result<ExitCode> {
    let path = match target {
        Some(target) => format!("/explain?target={}", escape(target)),
        None => "/explain".to_owned(),
    };
    let answer = ask(&config.admin_socket, Method::GET, &path)?;
    let text = match output {
        Output::Json => serde_json::to_string_pretty(&answer)?,
        Output::Text => describe(&answer)?,
    };
    super::answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The answer for people.
fn describe(answer: &Value) -> Result<String, fmt::Error> {
    let mut text = String::new();
    let targets = list(answer, "targets");
    if targets.is_empty() {
        text.push_str("nothing is set here\n");
    }
    for target in targets {
        describe_target(&mut text, target)?;
    }
    Ok(text)
}

fn describe_target(out: &mut String, target: &Value) -> fmt::Result {
    let of = |name| plain(target.get(name));
    writeln!(out, "{} = {}", of("path"), of("value"))?;
    writeln!(out, "    {} for {}: {}", of("state"), of("owner"), of("reason"))?;
    let inputs = target.get("inputs").and_then(Value::as_object);
    let inputs: Vec<_> =
        inputs.into_iter().flatten().map(|(name, value)| format!("{name} {}", plain(Some(value)))).collect();
    if !inputs.is_empty() {
        writeln!(out, "    from {}", inputs.join(", "))?;
    }
    for (name, words) in [("replaced", "it replaced"), ("detail", "but")] {
        if target.get(name).is_some_and(|value| !value.is_null()) {
            writeln!(out, "    {words} {}", of(name))?;
        }
    }
    let lost = |claim: &&Value| claim.get("won").and_then(Value::as_bool) == Some(false);
    for claim in list(target, "claims").iter().filter(lost) {
        let of = |name| plain(claim.get(name));
        writeln!(out, "    instead of {} for {}: {}", of("value"), of("owner"), of("reason"))?;
    }
    Ok(())
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A value without quotes; `-` for none.
fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_target_is_described_with_its_winners_and_losers() {
        let answer = json!({"targets": [{
            "path": "/sys/fs/cgroup/cpu/kubepods/podu/c/cpu.cfs_quota_us", "cgroupId": 7, "value": "200000",
            "state": "held", "owner": "CpuNormalization", "reason": "ceil(300000 / 1.5)",
            "inputs": {"quota": "300000", "ratio": "1.5"}, "replaced": "300000",
            "claims": [
                {"owner": "CpuNormalization", "value": "200000", "reason": "ceil(300000 / 1.5)", "won": true},
                {"owner": "PodSpec", "value": "300000", "reason": "the limit", "won": false},
            ],
        }]});
        let text = describe(&answer).unwrap();
        let wanted = "/sys/fs/cgroup/cpu/kubepods/podu/c/cpu.cfs_quota_us = 200000\n    \
                      held for CpuNormalization: ceil(300000 / 1.5)\n    \
                      from quota 300000, ratio 1.5\n    \
                      it replaced 300000\n    \
                      instead of 300000 for PodSpec: the limit\n";
        assert_eq!(text, wanted);
        assert_eq!(describe(&json!({"targets": []})).unwrap(), "nothing is set here\n");
        assert!(describe(&json!({"targets": [{}]})).unwrap().starts_with("- = -"));
    }
}
