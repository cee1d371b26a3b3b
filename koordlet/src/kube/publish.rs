//! Writes to the API server: the status of this node's NodeMetric, and its NodeResourceTopology. Nothing else does
//! but `events`. Only changes are sent, as merge patches, so that what others wrote stays (collection.md 9.2, 10.2).

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::Client;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::backoff::random;
use super::budget::TokenBucket;
use super::kind::Kind;
use super::lookup::lookup;
use super::merge_patch;
use super::reason::Reason;
use super::stats::ApiStats;
use super::trouble::Trouble;
use crate::error_chain::chain;

/// Name under which fields are owned.
pub(super) const FIELD_MANAGER: &str = "koordlet";
/// Reports a second, and at once, collection.md 9.2.
const REPORT_RATE: f64 = 0.1;
/// See [`REPORT_RATE`].
const REPORT_BURST: u32 = 2;
/// Waits between the tries of one write, each with up to a tenth more, collection.md 9.2.
const RETRY_WAITS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(250)];

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It was sent and taken.
    Written,
    /// Nothing differs from what the server holds; nothing was sent.
    Unchanged,
    /// There is no such object to write to.
    Absent,
    /// Somebody else has created it.
    Exists,
}

/// Why a write was not made. Told already; the next round tries again.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The budget of writes is spent.
    #[error("too many reports at once: at most {REPORT_BURST}, then one in {:.0} s", 1.0 / REPORT_RATE)]
    Budget,
    /// Somebody else wrote in between; what was computed is out of date.
    #[error("somebody else changed the object meanwhile")]
    Conflict,
    /// The value has no JSON.
    #[error("the value cannot be written as JSON")]
    Value(#[from] serde_json::Error),
    /// The server said no, or did not answer.
    #[error("the API server did not take it")]
    Server(#[source] Box<kube::Error>),
}

/// The status that the server holds, as far as we know.
struct Held {
    version: String,
    /// As JSON: of many pods that is a tenth of what a value of it takes, and it is looked at once a report.
    status: String,
}

impl Held {
    fn of(mut object: DynamicObject) -> Option<Self> {
        let version = object.metadata.resource_version?;
        let status = object.data.get_mut("status").map_or(Value::Null, Value::take);
        Some(Self { version, status: status.to_string() })
    }

    /// What has to change to make it `status`.
    fn change(&self, status: &Value) -> Result<Option<Value>, serde_json::Error> {
        Ok(merge_patch::diff(&serde_json::from_str(&self.status)?, status))
    }
}

/// Writes NodeMetric's status.
pub struct NodeMetricWriter {
    api: Api<DynamicObject>,
    name: String,
    held: Option<Held>,
    start: Instant,
    budget: TokenBucket,
    trouble: Trouble,
}

impl NodeMetricWriter {
    /// For this node's object.
    pub fn new(client: Client, node_name: &str, stats: Arc<ApiStats>) -> Self {
        Self {
            api: Api::all_with(client, &Kind::NodeMetric.resource()),
            name: node_name.to_owned(),
            held: None,
            start: Instant::now(),
            budget: TokenBucket::new(REPORT_RATE, REPORT_BURST, Duration::ZERO),
            trouble: Trouble::new(Kind::NodeMetric, "report", stats),
        }
    }

    /// Makes the object's status equal to `status`: sends what differs, and takes away what is no longer there.
    ///
    /// # Errors
    /// See [`PublishError`]; a conflict is tried again within the budget.
    pub async fn report(&mut self, status: &impl Serialize) -> Result<Published, PublishError> {
        let status = serde_json::to_value(status)?;
        let outcome = self.write(&status).await;
        match &outcome {
            Ok(Published::Absent) => self.held = None,
            Ok(_) => self.trouble.works(),
            Err(error) => {
                self.held = None;
                self.trouble.failed(reason(error), &chain(error), "the next report tries again");
            }
        }
        outcome
    }

    async fn write(&mut self, status: &Value) -> Result<Published, PublishError> {
        let mut waits = RETRY_WAITS.into_iter();
        loop {
            let held = match self.held.take() {
                Some(held) => held,
                None => match lookup(&self.api, &self.name).await.map_err(server)?.and_then(Held::of) {
                    Some(held) => held,
                    None => return Ok(Published::Absent),
                },
            };
            let Some(change) = held.change(status)? else {
                self.held = Some(held);
                return Ok(Published::Unchanged);
            };
            if !self.budget.try_take(self.start.elapsed()) {
                return Err(PublishError::Budget);
            }
            // With the version, so that what changed is what the server holds and not what it held once.
            let patch = json!({"metadata": {"resourceVersion": held.version}, "status": change});
            match self.api.patch_status(&self.name, &params(), &Patch::Merge(&patch)).await {
                Ok(object) => {
                    self.held = Held::of(object);
                    return Ok(Published::Written);
                }
                Err(error) => match (Reason::of(&error), waits.next()) {
                    (Reason::NotFound, _) => return Ok(Published::Absent),
                    (Reason::Conflict, Some(wait)) => pause(wait).await,
                    _ => return Err(server(error)),
                },
            }
        }
    }
}

/// Creates and changes this node's NodeResourceTopology.
pub struct TopologyWriter {
    api: Api<DynamicObject>,
    name: String,
    trouble: Trouble,
}

impl TopologyWriter {
    /// For this node's object.
    pub fn new(client: Client, node_name: &str, stats: Arc<ApiStats>) -> Self {
        Self {
            api: Api::all_with(client, &Kind::Topology.resource()),
            name: node_name.to_owned(),
            trouble: Trouble::new(Kind::Topology, "publish", stats),
        }
    }

    /// Creates the object, whole, with `apiVersion`, `kind` and `metadata`.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn create(&mut self, object: &Value) -> Result<Published, PublishError> {
        let object: DynamicObject = serde_json::from_value(object.clone())?;
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let outcome = match self.api.create(&params, &object).await {
            Ok(_) => Ok(Published::Written),
            Err(error) if Reason::of(&error) == Reason::Conflict => Ok(Published::Exists),
            Err(error) => Err(server(error)),
        };
        self.told(outcome)
    }

    /// Sends a merge patch. With `metadata.resourceVersion` in it, it is refused as [`PublishError::Conflict`] if
    /// somebody else wrote meanwhile; a server that has too much to do is asked again.
    ///
    /// # Errors
    /// See [`PublishError`].
    pub async fn patch(&mut self, patch: &Value) -> Result<Published, PublishError> {
        let mut waits = RETRY_WAITS.into_iter();
        let outcome = loop {
            let Err(error) = self.api.patch(&self.name, &params(), &Patch::Merge(patch)).await else {
                break Ok(Published::Written);
            };
            match (Reason::of(&error), waits.next()) {
                (Reason::NotFound, _) => break Ok(Published::Absent),
                (Reason::Conflict, _) => break Err(PublishError::Conflict),
                (Reason::TooMany, Some(wait)) => pause(wait).await,
                _ => break Err(server(error)),
            }
        };
        self.told(outcome)
    }

    fn told(&mut self, outcome: Result<Published, PublishError>) -> Result<Published, PublishError> {
        match &outcome {
            Ok(_) => self.trouble.works(),
            // Whoever computed the change does it again from what the watch brings.
            Err(PublishError::Conflict) => {}
            Err(error) => self.trouble.failed(reason(error), &chain(error), "the next round tries again"),
        }
        outcome
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

fn server(error: kube::Error) -> PublishError {
    PublishError::Server(Box::new(error))
}

fn reason(error: &PublishError) -> Reason {
    match error {
        PublishError::Budget => Reason::TooMany,
        PublishError::Conflict => Reason::Conflict,
        PublishError::Value(_) => Reason::Decode,
        PublishError::Server(error) => Reason::of(error),
    }
}

async fn pause(wait: Duration) {
    sleep(wait.mul_f64(1.0 + 0.1 * random())).await;
}

#[cfg(test)]
mod tests;
