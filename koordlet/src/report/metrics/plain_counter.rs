//! Counters under the reference's names, which lack the `_total` that the client library always adds.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter of rounds by `status`.
#[derive(Debug)]
pub(super) struct PlainCounter {
    name: &'static str,
    help: &'static str,
    node: String,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

impl PlainCounter {
    /// A counter at 0; shown once something was counted.
    pub(super) fn new(name: &'static str, help: &'static str, node: &str) -> Self {
        let node = node.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        Self { name, help, node, succeeded: AtomicU64::new(0), failed: AtomicU64::new(0) }
    }

    /// Counts one round.
    pub(super) fn count(&self, succeeded: bool) {
        let counter = if succeeded { &self.succeeded } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for PlainCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, help, node, succeeded, failed } = self;
        let counts = [("succeeded", succeeded), ("failed", failed)];
        let mut shown = counts.map(|(status, count)| (status, count.load(Ordering::Relaxed))).into_iter();
        if shown.clone().all(|(_, count)| count == 0) {
            return Ok(());
        }
        writeln!(f, "# HELP {name} {help}.\n# TYPE {name} counter")?;
        shown.try_for_each(|(status, count)| {
            writeln!(f, "{name}{{node=\"{node}\",status=\"{status}\"}} {count}")
        })
    }
}
