//! The README's commands are real: each `cargo xtask VERB` and `koordlet VERB` in it exists.

use clap::CommandFactory as _;

use super::sources::{Finding, Sources};

/// Verbs of the agent, from the names of its files: one file a verb.
fn agent_verbs(sources: &Sources) -> Vec<&str> {
    let files = sources.files.iter().filter_map(|source| source.path.strip_prefix("koordlet/src/cli/"));
    files.filter_map(|file| file.strip_suffix(".rs")).collect()
}

/// Every command that the README names exists.
pub(super) fn commands(sources: &Sources) -> Vec<Finding> {
    let cli = crate::Cli::command();
    let xtask: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
    let agent = agent_verbs(sources);
    let mut findings = Vec::new();
    for (index, line) in sources.readme.lines().enumerate() {
        let place = format!("README.md:{}", index + 1);
        for verb in verbs_after(line, "cargo xtask ") {
            if !xtask.contains(&verb) {
                findings.push(Finding::new(&place, format!("no verb {verb} in xtask")));
            }
        }
        for verb in verbs_after(line, "`koordlet ") {
            if !agent.contains(&verb) {
                findings.push(Finding::new(&place, format!("no verb {verb} in koordlet")));
            }
        }
    }
    findings
}

/// The words that follow `prefix` in a line; flags are no verbs.
fn verbs_after<'a>(line: &'a str, prefix: &str) -> Vec<&'a str> {
    let rests = line.split(prefix).skip(1);
    let words =
        rests.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '-').next().unwrap_or_default());
    words.filter(|word| word.starts_with(char::is_alphabetic)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sources::sources;
    use super::*;

    #[test]
    fn a_command_that_does_not_exist_is_found() {
        let readme = "Run `cargo xtask test` and `cargo xtask nothing`, then `koordlet --help`.";
        let all = Sources { readme: readme.into(), ..sources("a.rs", "") };
        assert_eq!(commands(&all).len(), 1);
    }
}
