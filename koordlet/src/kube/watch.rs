//! Follows the one object of a kind that bears a name: list, then watch, for ever. What is delivered is the object
//! as it is now, or that there is none; in between the last one stays, however long the server is away.
//!
//! kube's watcher resumes, lists again and handles bookmarks; added here is when to try again, what absence means,
//! and what is told. Memory holds the object in hand and nothing more.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::Api;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Config, Event, watcher};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::backoff::{Backoff, random};
use super::kind::Kind;
use super::lookup::lookup;
use super::reason::Reason;
use super::stats::ApiStats;
use super::transport::FULL_WATCH;
use super::trouble::Trouble;
use crate::error_chain::chain;

/// Waits after an error. The first may take a few seconds, or a server that comes back would meet the agents of the
/// whole cluster at once (case C142).
const RETRY: Backoff = Backoff::full_jitter(Duration::from_secs(4), Duration::from_secs(30));
/// Waits where the server knows no such kind: its CRD may be installed some day.
const RETRY_UNKNOWN: Backoff = Backoff::half_jitter(Duration::from_secs(30), Duration::from_mins(5));
/// How long a server must say that it knows no such kind before an object that was there counts as gone: one that
/// is just starting may say so, too.
const BELIEVE_UNKNOWN: Duration = Duration::from_mins(2);
/// A watcher that has had nothing to tell for so long watches: a list or a watch that does not come about ends with
/// an error by then. Without this a trouble would seem to last until the object changes.
const STANDS: Duration = Duration::from_secs(50);
/// How long watches follow from one list, and up to twice as long. A server whose store was put back to an older state
/// accepts a version that is yet to come, and is silent until it comes: only a list tells.
const LIST_AGE: Duration = Duration::from_mins(30);

/// What is followed.
pub(super) struct Following {
    /// Its kind.
    kind: Kind,
    /// Where it is.
    api: Api<DynamicObject>,
    /// Its name.
    name: String,
    /// Counters.
    stats: Arc<ApiStats>,
    /// How long a watch lives.
    watch_seconds: u32,
}

/// Takes what was seen; an error says why the object cannot be used.
pub(super) trait Deliver: FnMut(Option<Value>) -> Result<(), String> + Send {}
impl<F: FnMut(Option<Value>) -> Result<(), String> + Send> Deliver for F {}

/// Whether to keep the watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Go,
    /// List again from the start.
    Anew,
}

impl Following {
    /// Follows the object of that name.
    ///
    /// A watch lives 240 to 360 s, another for each agent and kind, so that they do not come back together. One that
    /// is silent for longer is dead, and kube's watcher starts it anew (case C141).
    pub(super) fn new(kind: Kind, api: Api<DynamicObject>, name: &str, stats: Arc<ApiStats>) -> Self {
        let seconds = FULL_WATCH.as_secs_f64() + 20.0 + 120.0 * random();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "240 to 360")]
        Self { kind, api, name: name.to_owned(), stats, watch_seconds: seconds as u32 }
    }

    /// Follows until dropped.
    pub(super) async fn run(self, deliver: impl Deliver) {
        let mut state = FollowState::new(self, deliver);
        loop {
            state.one_watcher().await;
        }
    }

    fn config(&self) -> Config {
        Config::default().fields(&format!("metadata.name={}", self.name)).timeout(self.watch_seconds)
    }
}

struct FollowState<D> {
    following: Following,
    deliver: D,
    retry: Backoff,
    retry_unknown: Backoff,
    trouble: Trouble,
    unusable: Trouble,
    /// Whether the object was there when we last knew; `None` before the first list.
    present: Option<bool>,
    /// Whether the list under way has shown it.
    listed: bool,
    /// See [`STANDS`].
    stands: Duration,
    /// See [`LIST_AGE`].
    list_age: Duration,
}

impl<D: Deliver> FollowState<D> {
    fn new(following: Following, deliver: D) -> Self {
        let trouble = |what| Trouble::new(following.kind, what, Arc::clone(&following.stats));
        Self {
            trouble: trouble("watch"),
            unusable: trouble("use"),
            following,
            deliver,
            retry: RETRY,
            retry_unknown: RETRY_UNKNOWN,
            present: None,
            listed: false,
            stands: STANDS,
            list_age: LIST_AGE,
        }
    }

    /// Runs a watcher for as long as it is of use.
    async fn one_watcher(&mut self) {
        let mut stream = pin!(watcher(self.following.api.clone(), self.following.config()));
        let end = Instant::now() + self.list_age.mul_f64(1.0 + random());
        loop {
            let wait = self.stands.min(end.saturating_duration_since(Instant::now()));
            let next = match timeout(wait, stream.next()).await {
                Ok(Some(Ok(event))) => self.event(event).await,
                Ok(Some(Err(error))) => self.error(&error).await,
                Ok(None) => return,
                Err(_) if Instant::now() >= end => Next::Anew,
                Err(_) => self.stands(),
            };
            if next == Next::Anew {
                return;
            }
        }
    }

    async fn event(&mut self, event: Event<DynamicObject>) -> Next {
        match event {
            Event::Init => self.listed = false,
            Event::InitApply(object) => {
                if self.is_ours(&object) {
                    self.listed = true;
                    self.seen(object);
                }
            }
            Event::InitDone => {
                self.works();
                if !self.listed {
                    return self.not_listed().await;
                }
            }
            Event::Apply(object) => {
                self.works();
                if self.is_ours(&object) {
                    self.seen(object);
                }
            }
            Event::Delete(object) => {
                self.works();
                if self.is_ours(&object) {
                    self.absent();
                }
            }
        }
        Next::Go
    }

    /// A server, or a proxy before it, that takes no field selector would show all nodes.
    fn is_ours(&self, object: &DynamicObject) -> bool {
        object.metadata.name.as_deref() == Some(self.following.name.as_str())
    }

    /// Nothing happens, so the watch is under way.
    fn stands(&mut self) -> Next {
        self.works();
        Next::Go
    }

    fn works(&mut self) {
        self.retry.reset();
        self.retry_unknown.reset();
        self.trouble.works();
    }

    fn seen(&mut self, mut object: DynamicObject) {
        self.following.stats.event(self.following.kind);
        self.present = Some(true);
        object.metadata.managed_fields = None;
        let used = match serde_json::to_value(object) {
            Ok(value) => (self.deliver)(Some(value)),
            Err(error) => Err(error.to_string()),
        };
        match used {
            Ok(()) => self.unusable.works(),
            Err(error) => {
                self.following.stats.error(self.following.kind, Reason::Decode);
                self.unusable.failed(Reason::Decode, &error, "the last good one stays");
            }
        }
    }

    fn absent(&mut self) {
        self.following.stats.event(self.following.kind);
        self.present = Some(false);
        // Absence can always be used.
        drop((self.deliver)(None));
    }

    /// A list without an object that was there: a server that lags behind says that, too, so the object itself is
    /// asked for (case C144).
    async fn not_listed(&mut self) -> Next {
        if self.present == Some(true) {
            match lookup(&self.following.api, &self.following.name).await {
                Ok(None) => {}
                Ok(Some(object)) => {
                    self.seen(object);
                    sleep(self.retry.next(random())).await;
                    return Next::Anew;
                }
                Err(error) => {
                    self.failed(Reason::of(&error), &chain(&error)).await;
                    return Next::Anew;
                }
            }
        }
        self.absent();
        Next::Go
    }

    /// Waits before the next try.
    async fn error(&mut self, error: &watcher::Error) -> Next {
        let reason = Reason::of_watch(error);
        if matches!(error, watcher::Error::WatchError(_) | watcher::Error::WatchFailed(_)) {
            // What came as an answer of its own was counted on its way.
            self.following.stats.error(self.following.kind, reason);
        }
        self.failed(reason, &chain(error)).await;
        // kube's watcher would ask for the same version again if the watch itself was answered with 410.
        let start = matches!(error, watcher::Error::WatchStartFailed(_));
        if start && matches!(reason, Reason::Gone | Reason::NotFound) { Next::Anew } else { Next::Go }
    }

    async fn failed(&mut self, reason: Reason, error: &str) {
        if reason != Reason::NotFound {
            // A watch that breaks off is everyday business, and so is a version that is too old.
            if reason != Reason::Gone {
                self.trouble.failed(reason, error, "what was seen last stays in force");
            }
            return sleep(self.retry.next(random())).await;
        }
        self.trouble.failed(reason, error, "the API server knows no such kind: is its CRD installed?");
        let never_there = self.present.is_none();
        if never_there || (self.present == Some(true) && self.trouble.lasts(reason) >= BELIEVE_UNKNOWN) {
            self.absent();
        }
        sleep(self.retry_unknown.next(random())).await;
    }
}

#[cfg(test)]
mod tests;
