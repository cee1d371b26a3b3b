//! What the executor noticed, into the log. It limits how often it tells.

use crate::executor::{Executor, NoticeKind};

/// Logs notices until the executor ends.
pub(super) fn forward(executor: &Executor) {
    let Some(mut notices) = executor.notices() else { return };
    tokio::spawn(async move {
        while let Some(notice) = notices.recv().await {
            let (kind, target, text) = (notice.kind, notice.target, notice.text);
            if kind == NoticeKind::ForeignWrite {
                tracing::info!(?kind, target, "{text}");
            } else {
                tracing::warn!(?kind, target, "{text}");
            }
        }
    });
}
