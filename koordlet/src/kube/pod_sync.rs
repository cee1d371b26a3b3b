//! The loop that keeps the kubelet's list of pods: at start, on its interval, and at once when a pod's or a
//! container's cgroup comes or goes (collection.md 7.5, 8). What the kubelet said last stays, whatever happens.
//!
//! Differences from the reference: events of containers count as well as those of pods, and none is dropped
//! (collection.md 15 row 10); a node without any pod becomes ready (row 11).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::kubelet::KubeletClient;
use super::kubelet_error::KubeletError;
use super::kubelet_stats::{KubeletStats, SyncResult};
use super::pod_list::{PodList, PodListSnapshot, PodMap};
use super::pod_trigger::Triggers;
use super::sync_pace::{Cause, SyncPace};
use crate::error_chain::chain;

/// Lists without a pod, one after another, until that is believed: it is also how a kubelet looks that has just
/// started (C144).
pub const EMPTY_CONFIRMATIONS: u32 = 3;

/// What the loop hands on: `None` before the first list.
pub type PodLists = Option<Arc<PodListSnapshot>>;

/// Keeps the list of pods.
#[derive(Debug)]
pub struct PodSync;

impl PodSync {
    /// Starts the loop, which ends when the last receiver is dropped. It asks nothing before the client knows the
    /// Node, and never where the settings have no interval. Each list is handed on, also one without news.
    pub fn start(client: Arc<KubeletClient>, triggers: Triggers) -> watch::Receiver<PodLists> {
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(async move {
            let Some(interval) = client.settings().interval else { return sender.closed().await };
            let stats = Arc::clone(client.stats());
            let mut keeper = Keeper::new(interval, stats);
            tokio::select! {
                () = sender.closed() => {}
                () = keeper.run(&client, &triggers, &sender) => {}
            }
        });
        receiver
    }
}

/// The loop's state.
struct Keeper {
    pace: SyncPace,
    interval: Duration,
    stats: Arc<KubeletStats>,
    pods: Arc<PodMap>,
    number: u64,
    empties: Empties,
    said: Said,
}

/// Lists without a pod, in a row.
#[derive(Debug, Default)]
struct Empties {
    count: u32,
    last: Option<Instant>,
}

/// What was said and still holds.
#[derive(Debug, Default)]
struct Said {
    failure: Option<&'static str>,
    refused: Vec<String>,
}

impl Keeper {
    fn new(interval: Duration, stats: Arc<KubeletStats>) -> Self {
        Self {
            pace: SyncPace::new(interval, Instant::now()),
            interval,
            stats,
            pods: Arc::default(),
            number: 0,
            empties: Empties::default(),
            said: Said::default(),
        }
    }

    /// Runs until it is dropped.
    async fn run(&mut self, client: &KubeletClient, triggers: &Triggers, sender: &watch::Sender<PodLists>) {
        let mut node = client.node();
        let mut known_node = None;
        loop {
            let present = node.borrow_and_update().clone();
            if present != known_node {
                known_node = present;
                self.pace.at_once(Instant::now());
            }
            let (due, cause) = self.pace.due();
            tokio::select! {
                // A request that is due first, so that no flood of events holds it up.
                biased;
                () = sleep_until(due), if known_node.is_some() => {
                    self.pace.told(triggers.take());
                    self.begin(cause, Instant::now());
                    let outcome = client.pods(&self.pods).await;
                    self.end(outcome, Instant::now(), sender);
                }
                told = triggers.told() => self.pace.told(told),
                // Without news of Nodes the last one stays.
                Ok(()) = node.changed() => {}
            }
        }
    }

    fn begin(&mut self, cause: Cause, now: Instant) {
        match cause {
            Cause::Deferred => self.stats.deferred.fetch_add(1, Ordering::Relaxed),
            Cause::FollowUp => self.stats.followed_up.fetch_add(1, Ordering::Relaxed),
            Cause::Regular | Cause::Event => 0,
        };
        self.pace.begin(now);
    }

    fn end(
        &mut self,
        outcome: Result<PodList, KubeletError>,
        now: Instant,
        sender: &watch::Sender<PodLists>,
    ) {
        let result = match outcome {
            Ok(list) => self.take(list, now, sender),
            Err(error) => {
                self.pace.failed(now, spread());
                self.said.failed(&error);
                self.stats.set_trouble(Some(chain(&error)));
                SyncResult::Failed
            }
        };
        self.stats.synced(result);
    }

    fn take(&mut self, list: PodList, now: Instant, sender: &watch::Sender<PodLists>) -> SyncResult {
        self.said.succeeded();
        self.stats.set_trouble(None);
        self.said.refused(&list);
        self.stats.refused_pods.fetch_add(list.refused_count as u64, Ordering::Relaxed);
        self.pace.succeeded(&list.pods, now, spread());
        let is_empty = list.pods.is_empty();
        if !self.empties.is_believed(is_empty, now, self.interval) {
            return SyncResult::Withheld;
        }
        let is_changed = self.number == 0 || !list.is_same(&self.pods);
        if is_changed {
            self.pods = Arc::new(list.pods);
        }
        self.number += 1;
        let snapshot = PodListSnapshot { pods: Arc::clone(&self.pods), number: self.number, is_changed };
        sender.send_replace(Some(Arc::new(snapshot)));
        if is_changed { SyncResult::Changed } else { SyncResult::Unchanged }
    }
}

impl Empties {
    /// Whether a list counts. Empty ones that come quickly one after another are one confirmation, or the events of a
    /// kubelet's restart would confirm what they come from.
    fn is_believed(&mut self, is_empty: bool, now: Instant, interval: Duration) -> bool {
        if !is_empty {
            *self = Self::default();
            return true;
        }
        if self.last.is_none_or(|last| now.duration_since(last) >= interval / 2) {
            self.count = self.count.saturating_add(1);
            self.last = Some(now);
        }
        self.count >= EMPTY_CONFIRMATIONS
    }
}

impl Said {
    fn failed(&mut self, error: &KubeletError) {
        if self.failure != Some(error.kind()) {
            tracing::warn!(error = chain(error), "the kubelet's pods are not known anew; the last ones stay");
            self.failure = Some(error.kind());
        }
    }

    fn succeeded(&mut self) {
        if self.failure.take().is_some() {
            tracing::info!("the kubelet tells its pods again");
        }
    }

    fn refused(&mut self, list: &PodList) {
        let now: Vec<String> = list.refused.iter().map(ToString::to_string).collect();
        for news in now.iter().filter(|line| !self.refused.contains(line)) {
            tracing::warn!(
                pod = news,
                count = list.refused_count,
                "the kubelet tells a pod that cannot be read"
            );
        }
        self.refused = now;
    }
}

/// A number in 0..=1, by chance.
fn spread() -> f64 {
    getrandom::u32().map_or(0.5, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests;
