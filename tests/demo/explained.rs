//! The agent's own explanation of its values, and what is new in it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use kit::RunningAgent;
use serde_json::Value;

use crate::record::Write;

/// Follows `explain` and remembers what was said before.
#[derive(Debug, Default)]
pub(crate) struct Explained {
    known: BTreeMap<String, String>,
}

impl Explained {
    /// Asks the agent and returns each target whose value is new. Paths are shortened to what follows `root`.
    pub(crate) fn news(&mut self, agent: &RunningAgent<'_>, root: &str, at: Duration) -> Result<Vec<Write>> {
        let answer = agent.explain(None)?;
        let targets = answer["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(targets.iter().filter_map(|target| self.new_write(target, root, at)).collect())
    }

    fn new_write(&mut self, target: &Value, root: &str, at: Duration) -> Option<Write> {
        let text = |key: &str| target[key].as_str().unwrap_or_default().to_owned();
        if target["state"] != "held" {
            return None;
        }
        let (path, value) = (text("path"), text("value"));
        if self.known.insert(path.clone(), value.clone()).as_ref() == Some(&value) {
            return None;
        }
        let file = path.split_once(root).map_or(&*path, |(_, rest)| rest.trim_start_matches('/')).to_owned();
        Some(Write { at, file, value, owner: text("owner"), reason: text("reason") })
    }
}
