//! Says a trouble once while it lasts, and that it is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::kind::Kind;
use super::reason::Reason;
use super::stats::ApiStats;

/// What is wrong with one use of the API server.
#[derive(Debug)]
pub(super) struct Trouble {
    kind: Kind,
    /// What cannot be done, for the log: `watch nodes`.
    what: &'static str,
    stats: Arc<ApiStats>,
    now: Option<(Reason, Instant)>,
}

impl Trouble {
    /// Nothing is wrong.
    pub(super) fn new(kind: Kind, what: &'static str, stats: Arc<ApiStats>) -> Self {
        Self { kind, what, stats, now: None }
    }

    /// It failed. Told when it starts to, and when the reason becomes another one.
    pub(super) fn failed(&mut self, reason: Reason, error: &str, means: &'static str) {
        let since = self.now.map_or_else(Instant::now, |(_, since)| since);
        if self.now.is_none_or(|(told, _)| told != reason) {
            tracing::warn!(object = self.kind.plural(), error, "cannot {}; {means}", self.what);
        }
        self.now = Some((reason, since));
        self.stats.set_trouble(self.kind, Some(format!("cannot {}: {error}", self.what)));
    }

    /// It works.
    pub(super) fn works(&mut self) {
        if let Some((_, since)) = self.now.take() {
            let seconds = since.elapsed().as_secs();
            tracing::info!(object = self.kind.plural(), after_seconds = seconds, "can {} again", self.what);
            self.stats.set_trouble(self.kind, None);
        }
    }

    /// How long it has been failing for this reason alone.
    pub(super) fn lasts(&self, reason: Reason) -> Duration {
        self.now.filter(|(now, _)| *now == reason).map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }
}
