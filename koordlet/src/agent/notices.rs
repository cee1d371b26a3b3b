//! What the executor noticed, into the log and to Kubernetes. It limits how often it tells.

use super::resctrl_events::ResctrlEvents;
use crate::executor::{Executor, NoticeKind};

/// Passes notices on until the executor ends.
pub(super) fn forward(executor: &Executor, events: ResctrlEvents) {
    let Some(mut notices) = executor.notices() else { return };
    tokio::spawn(async move {
        while let Some(notice) = notices.recv().await {
            events.take(&notice);
            let (kind, target, text) = (notice.kind, notice.target, notice.text);
            if matches!(kind, NoticeKind::ForeignWrite | NoticeKind::GroupMade) {
                tracing::info!(?kind, target, "{text}");
            } else {
                tracing::warn!(?kind, target, "{text}");
            }
        }
    });
}
