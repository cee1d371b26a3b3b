//! The kubelet's own configuration, kept: asked for when the Node is known, then seldom (collection.md 15 row 13: the
//! reference asks every three seconds). An answer that does not come leaves the last one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::kubelet::KubeletClient;
use crate::api::kubelet_config::KubeletConfig;
use crate::error_chain::chain;

/// How often it is asked for again: it changes with a restart of the kubelet.
const REFRESH: Duration = Duration::from_mins(10);
/// First and longest pause after a failure.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(2));

/// What `/configz` told; `None` before the first answer and where it is not asked for. It is replaced only by another
/// one.
pub type KnownConfig = Option<Arc<KubeletConfig>>;

/// Asks for the configuration until nobody wants it any more. Asks never where the settings say so.
pub fn follow(client: Arc<KubeletClient>) -> watch::Receiver<KnownConfig> {
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        if !client.settings().query_config {
            return sender.closed().await;
        }
        tokio::select! {
            () = sender.closed() => {}
            () = refresh(&client, &sender) => {}
        }
    });
    receiver
}

async fn refresh(client: &KubeletClient, sender: &watch::Sender<KnownConfig>) {
    let mut node = client.node();
    let mut pause = PAUSES.0;
    let mut said = None;
    loop {
        if node.borrow_and_update().is_none() {
            // Nobody will tell of a Node any more.
            if node.changed().await.is_err() {
                return std::future::pending().await;
            }
            continue;
        }
        let wait = match client.configz().await {
            Ok(config) => {
                hand_on(config, sender);
                (pause, said) = (PAUSES.0, None);
                REFRESH
            }
            Err(error) => {
                if said != Some(error.kind()) {
                    tracing::warn!(error = chain(&error), "the kubelet's configuration is not known anew");
                    said = Some(error.kind());
                }
                let wait = pause;
                pause = (pause * 2).min(PAUSES.1);
                wait
            }
        };
        tokio::select! {
            () = sleep(wait) => {}
            // A kubelet at another address is asked at once; without news of Nodes the timer goes on.
            Ok(()) = node.changed() => pause = PAUSES.0,
        }
    }
}

fn hand_on(config: KubeletConfig, sender: &watch::Sender<KnownConfig>) {
    sender.send_if_modified(|last| {
        let is_new = last.as_deref() != Some(&config);
        if is_new {
            for what in &config.skipped {
                tracing::warn!(what, "a field of the kubelet's configuration is left out");
            }
            *last = Some(Arc::new(config));
        }
        is_new
    });
}
