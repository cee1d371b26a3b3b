//! The way of every request to the API server: within the rate that the flags allow, with a time limit and a
//! bound on the answer, with credentials read anew where the old ones no longer work, and counted.
//!
//! It lies beneath kube's client, so that kube's watcher cannot get past it. A watch that the server ends early is
//! taken up again after a random wait: kube's watcher by itself asks again at once, as fast as the server refuses.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::TryStreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, service_fn};

use super::backoff::{Backoff, random};
use super::budget::TokenBucket;
use super::connection::{ConnectError, Connection};
use super::credentials::CredentialSource;
use super::kind::Kind;
use super::reason::Reason;
use super::stats::{ApiStats, Verb};
use crate::config::kube::KubeSettings;

/// How long an answer may take: its head, and for all but a watch its body, too.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Largest answer to anything but a watch, and largest event of a watch; etcd holds no object above 1.5 MiB unless told to.
const MAX_ANSWER: usize = 16 << 20;
/// A watch that lived as long as this was a good one.
const GOOD_WATCH: Duration = Duration::from_secs(30);
/// A watch that lived as long as this ended because its time was over: agents do not share that moment.
pub(super) const FULL_WATCH: Duration = Duration::from_secs(220);
/// Waits before a watch that ended early is taken up again.
const EARLY_END: Backoff = Backoff::full_jitter(Duration::from_secs(3), Duration::from_secs(8));

/// An answer with its bounds.
type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// Too slow.
    #[error("no answer from the API server within {} s", ANSWER_TIME.as_secs())]
    Timeout,
    /// Too large, or broken off.
    #[error("cannot read the API server's answer")]
    Body(#[source] BoxError),
    /// Part of a watch.
    #[error("an event of the API server is longer than {} MiB", MAX_ANSWER >> 20)]
    LongEvent,
}

impl TransportError {
    /// As a label.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Timeout => Reason::Timeout,
            Self::Body(_) | Self::LongEvent => Reason::Connection,
        }
    }
}

/// State shared by all requests.
struct Transport {
    connection: Connection,
    start: Instant,
    bucket: Mutex<TokenBucket>,
    watches: Mutex<[WatchPace; Kind::ALL.len()]>,
    stats: Arc<ApiStats>,
}

/// A client whose requests go this way.
pub(super) async fn client(
    source: CredentialSource,
    settings: &KubeSettings,
    stats: &Arc<ApiStats>,
) -> Result<Client, ConnectError> {
    let transport = Arc::new(Transport {
        connection: Connection::new(source, Arc::clone(stats)).await?,
        start: Instant::now(),
        bucket: Mutex::new(TokenBucket::new(settings.qps, settings.burst, Duration::ZERO)),
        watches: Mutex::default(),
        stats: Arc::clone(stats),
    });
    Ok(Client::new(service_fn(move |request| Arc::clone(&transport).send(request)), "default"))
}

impl Transport {
    async fn send(self: Arc<Self>, request: Request<Body>) -> Result<Answer, BoxError> {
        let kind = Kind::of_path(request.uri().path());
        let verb = request.extensions().get::<&'static str>().map_or(Verb::Other, |name| Verb::of_name(name));
        self.wait(kind, verb).await;
        let outcome = self.answer(request, kind, verb).await;
        match &outcome {
            Ok(response) => {
                if let Some(reason) = Reason::of_status(response.status().as_u16()) {
                    self.stats.error(kind, reason);
                }
            }
            Err(error) => {
                let reason = error.downcast_ref().map_or(Reason::Connection, TransportError::reason);
                self.stats.error(kind, reason);
                self.connection.failed().await;
            }
        }
        outcome
    }

    /// Keeps to the rate, and to the pace of watches.
    async fn wait(&self, kind: Kind, verb: Verb) {
        let now = self.start.elapsed();
        let mut wait = self.bucket.lock().unwrap_or_else(PoisonError::into_inner).reserve(now);
        if verb == Verb::Watch {
            let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            wait = wait
                .max(watches.get_mut(kind as usize).map_or(Duration::ZERO, |pace| pace.wait(now, random())));
        }
        if !wait.is_zero() {
            sleep(wait).await;
        }
    }

    /// Asks, and once more if the credentials turned out to be old and there are new ones.
    async fn answer(&self, request: Request<Body>, kind: Kind, verb: Verb) -> Result<Answer, BoxError> {
        let again = copy(&request);
        let response = self.ask(request, kind, verb).await?;
        if response.status() != hyper::StatusCode::UNAUTHORIZED || !self.connection.refused().await {
            return Ok(response);
        }
        match again {
            Some(request) => {
                self.stats.error(kind, Reason::Unauthorized);
                self.ask(request, kind, verb).await
            }
            None => Ok(response),
        }
    }

    async fn ask(&self, request: Request<Body>, kind: Kind, verb: Verb) -> Result<Answer, BoxError> {
        self.stats.request(kind, verb);
        let client = self.connection.client().await;
        let asked = timeout(ANSWER_TIME, client.send(request)).await;
        let response = asked.map_err(|_| TransportError::Timeout)??;
        // A watch that is refused is an answer like any other.
        if verb != Verb::Watch || !response.status().is_success() {
            return whole(response).await;
        }
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pace) = watches.get_mut(kind as usize) {
            pace.started = Some(self.start.elapsed());
        }
        Ok(line_by_line(response))
    }
}

/// The answer to a watch, which has no end; each of its events has, before [`MAX_ANSWER`]. kube collects an event until
/// its line ends, however long that is.
fn line_by_line(response: Response<Body>) -> Answer {
    let (head, body) = response.into_parts();
    let mut line = 0_usize;
    let check = move |frame: Frame<Bytes>| {
        if let Some(data) = frame.data_ref() {
            line = match data.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => data.len() - end,
                None => line.saturating_add(data.len()),
            };
        }
        let fits = line <= MAX_ANSWER;
        std::future::ready(if fits { Ok(frame) } else { Err(TransportError::LongEvent.into()) })
    };
    let frames = TryStreamExt::map_err(BodyStream::new(body), BoxError::from).and_then(check);
    Response::from_parts(head, StreamBody::new(frames).boxed_unsync())
}

/// The answer with all of its body.
async fn whole(response: Response<Body>) -> Result<Answer, BoxError> {
    let (head, body) = response.into_parts();
    let body = timeout(ANSWER_TIME, Limited::new(body, MAX_ANSWER).collect()).await;
    let body = body.map_err(|_| TransportError::Timeout)?.map_err(TransportError::Body)?;
    Ok(Response::from_parts(head, Full::from(body.to_bytes()).map_err(|never| match never {}).boxed_unsync()))
}

/// The same request once more.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}

/// When the last watch of a kind began.
#[derive(Debug)]
struct WatchPace {
    started: Option<Duration>,
    backoff: Backoff,
}

impl Default for WatchPace {
    fn default() -> Self {
        Self { started: None, backoff: EARLY_END }
    }
}

impl WatchPace {
    /// How long the next watch has to wait.
    fn wait(&mut self, now: Duration, random: f64) -> Duration {
        let Some(lived) = self.started.take().map(|started| now.saturating_sub(started)) else {
            return Duration::ZERO;
        };
        if lived >= GOOD_WATCH {
            self.backoff.reset();
        }
        if lived >= FULL_WATCH { Duration::ZERO } else { self.backoff.next(random) }
    }
}

#[cfg(test)]
mod tests;
