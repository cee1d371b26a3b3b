//! The audit log as the agent runs it: on or off, heard by the executor, shown by the pages.

use std::sync::Arc;

use super::AgentError;
use crate::config::audit::AuditSettings;
use crate::executor::observer::WriteObserver;
use crate::report::audit::AuditWriter;
use crate::report::audit::page::EventsPage;
use crate::report::metrics::Metrics;
use crate::state::hub::Readers;

/// The running audit log, if the gate AuditEvents is on. Dropped last, it writes what waits.
pub(super) struct Audit(Option<AuditWriter>);

/// Starts it. Trouble with its directory is told by itself and stops nothing.
pub(super) fn start(settings: &AuditSettings, readers: &Readers) -> Result<Audit, AgentError> {
    let start = || AuditWriter::start(settings, readers.pods.clone()).map_err(AgentError::Audit);
    Ok(Audit(settings.enabled.then(start).transpose()?))
}

impl Audit {
    /// What the executor tells of its writes.
    pub(super) fn observer(&self) -> Option<Arc<dyn WriteObserver>> {
        Some(Arc::new(self.0.as_ref()?.log().clone()))
    }

    /// `/events`, if it is served (gate AuditEventsHTTPHandler).
    pub(super) fn page(&self, settings: &AuditSettings) -> Option<EventsPage> {
        let log = self.0.as_ref().map(|writer| writer.log().clone());
        settings.http.then(|| EventsPage::new(settings, log))
    }

    /// Adds the counters.
    pub(super) fn show(&self, metrics: &Metrics) {
        if let Some(writer) = &self.0 {
            metrics.add_audit(writer.log().stats());
        }
    }
}
