//! An agent as one would write it at first: it opens every file of every group at each tick, and keeps each figure
//! with its time, by name.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};

/// How long figures are kept, as the agent keeps those of pods and containers.
const KEPT: u64 = 300 * 1_000_000_000;

/// Time and value.
type Samples = Vec<(u64, f64)>;

/// The agent.
#[derive(Default)]
pub(crate) struct Naive {
    kept: HashMap<String, Samples>,
}

impl Naive {
    /// Reads all files of `groups` and keeps four figures of each.
    pub(crate) fn tick(&mut self, root: &Path, groups: &[String], now: u64) -> Result<()> {
        for group in groups {
            let used = read(&root.join("cpuacct").join(group).join("cpuacct.usage"))?;
            let used: f64 = used.trim().parse().context("cpuacct.usage")?;
            self.keep(group, "cpu", now, used);
            let memory = read(&root.join("memory").join(group).join("memory.stat"))?;
            let sum = |names: &[&str]| names.iter().map(|name| figure(&memory, name)).sum::<f64>();
            let anonymous = sum(&["total_inactive_anon", "total_active_anon", "total_unevictable"]);
            let files = sum(&["total_inactive_file", "total_active_file"]);
            self.keep(group, "memory", now, anonymous);
            self.keep(group, "memory-with-page-cache", now, anonymous + files);
            let throttling = read(&root.join("cpu").join(group).join("cpu.stat"))?;
            let throttled = figure(&throttling, "nr_throttled") / figure(&throttling, "nr_periods").max(1.0);
            self.keep(group, "throttled", now, throttled);
        }
        Ok(())
    }

    /// Forgets groups that are gone.
    pub(crate) fn tidy(&mut self, groups: &[String]) {
        let live: HashSet<&str> = groups.iter().map(String::as_str).collect();
        self.kept.retain(|name, _| name.rsplit_once(':').is_some_and(|(group, _)| live.contains(group)));
    }

    /// How many series there are.
    pub(crate) fn series(&self) -> usize {
        self.kept.len()
    }

    fn keep(&mut self, group: &str, what: &str, now: u64, value: f64) {
        let samples = self.kept.entry(format!("{group}:{what}")).or_default();
        samples.push((now, value));
        let old = samples.iter().take_while(|(at, _)| at + KEPT < now).count();
        samples.drain(..old);
    }
}

fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    read.with_context(|| path.display().to_string())?;
    Ok(text)
}

/// The figure behind a name, one of many lines.
fn figure(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
}
