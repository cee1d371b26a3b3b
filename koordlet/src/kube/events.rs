//! Kubernetes events: what an administrator sees in `kubectl describe`. Recording one never waits, and equal ones are
//! counted at once; a task of its own sends what `event_series` finds worth a request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::event_series::{EventSeries, Happening, Offer, Send, Severity, Subject};
use super::kind::Kind;
use super::publish::FIELD_MANAGER;
use super::reason::Reason;
use super::stats::ApiStats;
use super::trouble::Trouble;
use crate::error_chain::chain;

/// Requests that may wait.
const QUEUE: usize = 64;
/// How often counts are looked at.
const LOOK: Duration = Duration::from_secs(15);
/// Longest note that the API server takes, in bytes.
const MAX_NOTE: usize = 1024;
/// Where events of objects without a namespace go.
const DEFAULT_NAMESPACE: &str = "default";

/// Records events. Clone freely.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Send>,
}

/// The events of late, for those who record and for the task that sends.
#[derive(Debug)]
struct Shared {
    series: Mutex<EventSeries>,
    start: Instant,
    stats: Arc<ApiStats>,
}

impl Shared {
    fn series(&self) -> MutexGuard<'_, EventSeries> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventRecorder {
    /// Notes that something happened. What is too much is counted as dropped.
    pub fn record(&self, mut happening: Happening) {
        happening.note.truncate(happening.note.floor_char_boundary(MAX_NOTE));
        let offer = self.shared.series().offer(happening, self.shared.start.elapsed());
        let send = match offer {
            Offer::Send(send) => send,
            Offer::Counted => return,
            Offer::Dropped => return self.shared.stats.dropped_event(),
        };
        if let Err(full) = self.queue.try_send(send) {
            self.shared.series().lost(full.into_inner().happening());
            self.shared.stats.dropped_event();
        }
    }
}

/// The task that sends.
pub(super) struct EventSender {
    client: Client,
    node: String,
    queue: mpsc::Receiver<Send>,
    shared: Arc<Shared>,
    trouble: Trouble,
}

/// A recorder, and the task behind it, to be run.
pub(super) fn recorder(client: Client, node: &str, stats: &Arc<ApiStats>) -> (EventRecorder, EventSender) {
    let (queue, receiver) = mpsc::channel(QUEUE);
    let first = u64::try_from(Timestamp::now().as_nanosecond()).unwrap_or_default();
    let shared = Arc::new(Shared {
        series: Mutex::new(EventSeries::new(first, Duration::ZERO)),
        start: Instant::now(),
        stats: Arc::clone(stats),
    });
    let sender = EventSender {
        client,
        node: node.to_owned(),
        queue: receiver,
        shared: Arc::clone(&shared),
        trouble: Trouble::new(Kind::Event, "record", Arc::clone(stats)),
    };
    (EventRecorder { shared, queue }, sender)
}

impl EventSender {
    /// Sends until all recorders are gone.
    pub(super) async fn run(mut self) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                send = self.queue.recv() => match send {
                    Some(send) => self.send(send).await,
                    None => return,
                },
                _ = look.tick() => {
                    let due = self.shared.series().due(self.shared.start.elapsed());
                    for send in due {
                        self.send(send).await;
                    }
                }
            }
        }
    }

    async fn send(&mut self, send: Send) {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let (happening, sent) = match send {
            Send::Create { happening, number } => {
                let event = event(&happening, number, &self.node, &now);
                let sent = self.create(namespace(&happening.subject), event).await;
                (happening, sent)
            }
            Send::Count { happening, number, count } => {
                let patch = json!({"count": count, "lastTimestamp": now});
                let (api, name) = (self.api(namespace(&happening.subject)), name(&happening.subject, number));
                let params =
                    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
                let sent = api.patch(&name, &params, &Patch::Merge(&patch)).await.map(drop);
                (happening, sent)
            }
        };
        match sent {
            Ok(()) => self.trouble.works(),
            Err(error) => {
                // Also a count of what the server has let go after its hour: the next one is a new event.
                self.shared.series().lost(&happening);
                let reason = Reason::of(&error);
                if reason != Reason::NotFound {
                    self.shared.stats.dropped_event();
                    self.trouble.failed(reason, &chain(&error), "the log has them all the same");
                }
            }
        }
    }

    async fn create(&self, namespace: &str, event: Value) -> Result<(), kube::Error> {
        let event: DynamicObject = serde_json::from_value(event).map_err(kube::Error::SerdeError)?;
        let params = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        self.api(namespace).create(&params, &event).await.map(drop)
    }

    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &Kind::Event.resource())
    }
}

fn namespace(subject: &Subject) -> &str {
    if subject.namespace.is_empty() { DEFAULT_NAMESPACE } else { &subject.namespace }
}

/// As Go's recorder names events: the object, and a number that no other event of it has.
fn name(subject: &Subject, number: u64) -> String {
    format!("{}.{number:x}", subject.name)
}

/// A `v1` Event.
fn event(happening: &Happening, number: u64, node: &str, now: &str) -> Value {
    let Happening { subject, severity, component, reason, note } = happening;
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name(subject, number), "namespace": namespace(subject)},
        "involvedObject": {
            "apiVersion": subject.api_version,
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "type": match severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
        "reason": reason,
        "message": note,
        "source": {"component": component, "host": node},
        "reportingComponent": component,
        "reportingInstance": node,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}
