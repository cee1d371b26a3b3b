//! The connection to the kubelet of this node: `GET /pods/` and `GET /configz`, each within a time limit, over one
//! connection that is kept. It knows neither when to ask nor what follows from the answer.
//!
//! Credentials are those of the API server's client (bearer token or client certificate). A token file is looked at
//! every few seconds; when the kubelet refuses, everything is read again at once and the request is repeated once. The
//! kubelet's certificate is not verified without a CA file, as with the reference (collection.md 7.5, 15 row 12).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::{Request, Response};
use kube::client::Body;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};

use super::attempt::Attempt;
use super::credentials::TokenFile;
use super::kubelet_endpoint::NodeEndpoint;
use super::kubelet_error::KubeletError;
use super::kubelet_link::{LinkMaker, READ_BYTES};
use super::kubelet_stats::KubeletStats;
use super::pod_list::{PodList, PodListReader, PodMap};
use crate::api::kubelet_config::KubeletConfig;
use crate::config::kubelet::KubeletSettings;

/// Path of the pods.
pub const PODS: &str = "/pods/";
/// Path of the kubelet's configuration.
pub const CONFIGZ: &str = "/configz";
/// Longest configuration, in bytes; real ones have some 5 KiB.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;
/// Bytes of a refusal that are shown.
const MAX_REFUSAL_BYTES: usize = 300;

/// How often the token file is looked at.
const TOKEN_LOOK: Duration = Duration::from_secs(10);

/// A client of the kubelet.
pub struct KubeletClient {
    settings: KubeletSettings,
    node: watch::Receiver<Option<Arc<NodeEndpoint>>>,
    credentials: Option<kube::Config>,
    stats: Arc<KubeletStats>,
    link: Mutex<Links>,
}

/// The link in use, and the one being made.
#[derive(Default)]
struct Links {
    kept: Option<Arc<Link>>,
    next: Attempt<Result<Link, KubeletError>>,
    looked: Option<Instant>,
}

/// The connection to one address with what the credentials were when it was made.
struct Link {
    base: String,
    client: kube::Client,
    token: Option<TokenFile>,
    /// Whether a request was answered other than with 401.
    is_proven: AtomicBool,
}

impl KubeletClient {
    /// A client of the kubelet that `node` tells of. `credentials` are the API client's; none are sent to a read-only
    /// port.
    pub fn new(
        settings: KubeletSettings,
        node: watch::Receiver<Option<Arc<NodeEndpoint>>>,
        credentials: Option<kube::Config>,
        stats: Arc<KubeletStats>,
    ) -> Self {
        Self { settings, node, credentials, stats, link: Mutex::default() }
    }

    /// How it asks.
    pub fn settings(&self) -> &KubeletSettings {
        &self.settings
    }

    /// What the Node says of the kubelet, as it changes.
    pub fn node(&self) -> watch::Receiver<Option<Arc<NodeEndpoint>>> {
        self.node.clone()
    }

    /// Its counters.
    pub fn stats(&self) -> &Arc<KubeletStats> {
        &self.stats
    }

    /// All pods of this node. Those that are as in `known` are its objects.
    pub async fn pods(&self, known: &PodMap) -> Result<PodList, KubeletError> {
        self.within_limit(PODS, self.read_pods(known)).await
    }

    /// The kubelet's configuration, as `/configz` tells it.
    pub async fn configz(&self) -> Result<KubeletConfig, KubeletError> {
        self.within_limit(CONFIGZ, self.read_configz()).await
    }

    async fn within_limit<T>(
        &self,
        path: &'static str,
        request: impl Future<Output = Result<T, KubeletError>>,
    ) -> Result<T, KubeletError> {
        let limit = self.settings.timeout;
        let outcome = timeout(limit, request).await.unwrap_or_else(|_| {
            let url = self.base().unwrap_or_default() + path;
            Err(KubeletError::Timeout { url, timeout: limit })
        });
        if let Err(error) = &outcome {
            self.stats.failed(error);
        }
        outcome
    }

    async fn read_pods(&self, known: &PodMap) -> Result<PodList, KubeletError> {
        let (url, mut body) = self.get(PODS).await?;
        let mut reader = PodListReader::new(known);
        let bad_list = |source| KubeletError::List { url: url.clone(), source };
        while let Some(chunk) = next_chunk(&mut body, &url).await? {
            for part in chunk.chunks(READ_BYTES) {
                reader.feed(part).map_err(bad_list)?;
                // The agent has one thread: whoever waits for it comes in between.
                tokio::task::yield_now().await;
            }
        }
        let list = reader.finish().map_err(bad_list)?;
        match self.foreign_node(&list) {
            Some(found) => Err(KubeletError::AnotherNode { url, found }),
            None => Ok(list),
        }
    }

    /// Another node than ours that pods say they are on. A kubelet lists none but its own.
    fn foreign_node(&self, list: &PodList) -> Option<String> {
        let ours = self.node.borrow().as_ref().map(|endpoint| endpoint.node.clone())?;
        let names = list.pods.values().map(|pod| &pod.spec.node_name);
        names.filter(|name| !name.is_empty()).find(|name| **name != ours).cloned()
    }

    async fn read_configz(&self) -> Result<KubeletConfig, KubeletError> {
        let (url, mut body) = self.get(CONFIGZ).await?;
        let mut text = Vec::new();
        while let Some(chunk) = next_chunk(&mut body, &url).await? {
            if text.len() + chunk.len() > MAX_CONFIG_BYTES {
                return Err(KubeletError::ConfigTooLong { url, limit: MAX_CONFIG_BYTES });
            }
            text.extend_from_slice(&chunk);
        }
        // What is not UTF-8 spoils no more than the value that it is in.
        let text = String::from_utf8_lossy(&text);
        KubeletConfig::parse_configz(&text).map_err(|source| KubeletError::Config { url, source })
    }

    /// The body of an answer 200, and its URL.
    async fn get(&self, path: &'static str) -> Result<(String, Body), KubeletError> {
        let mut link = self.link().await?;
        let mut answer = self.ask(&link, path).await?;
        if answer.status() == 401 && link.is_proven.load(Ordering::Relaxed) {
            // The token that was good has expired: there may be another one.
            self.stats.renewed.fetch_add(1, Ordering::Relaxed);
            self.forget(&link).await;
            link = self.link().await?;
            answer = self.ask(&link, path).await?;
        }
        self.settle(&link, answer.status().as_u16()).await;
        let url = link.base.clone() + path;
        match answer.status().as_u16() {
            200 => Ok((url, answer.into_body())),
            code => Err(refusal(url, code, answer.into_body()).await),
        }
    }

    async fn ask(&self, link: &Link, path: &'static str) -> Result<Response<Body>, KubeletError> {
        let url = link.base.clone() + path;
        let failed = |source| KubeletError::Connection { url: url.clone(), source };
        let request = Request::get(&url)
            .header("user-agent", "koordlet")
            .header("accept", "application/json")
            .body(Body::empty())
            .map_err(|error| failed(error.into()))?;
        let begin = Instant::now();
        let answer = link.client.send(request).await.map_err(|error| failed(error.into()))?;
        self.stats.answered(path, answer.status().as_u16(), begin.elapsed());
        Ok(answer)
    }

    /// A link that was refused is not used again, so that credentials are read anew.
    async fn settle(&self, link: &Arc<Link>, code: u16) {
        if code == 401 {
            self.forget(link).await;
        } else {
            link.is_proven.store(true, Ordering::Relaxed);
        }
    }

    async fn forget(&self, link: &Arc<Link>) {
        let kept = &mut self.link.lock().await.kept;
        if kept.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, link)) {
            *kept = None;
        }
    }

    /// The link to where the Node says that its kubelet is, with the token that is in its file now.
    async fn link(&self) -> Result<Arc<Link>, KubeletError> {
        let base = self.base()?;
        let mut links = self.link.lock().await;
        let Links { kept, next, looked } = &mut *links;
        if looked.is_none_or(|looked| looked.elapsed() >= TOKEN_LOOK) {
            *looked = Some(Instant::now());
            kept.take_if(|link| link.token.as_ref().is_some_and(TokenFile::has_changed));
        }
        if let Some(link) = kept.as_ref().filter(|link| link.base == base) {
            return Ok(Arc::clone(link));
        }
        let maker = LinkMaker::new(&self.settings, self.credentials.as_ref(), &base)?;
        let runtime = Handle::current();
        let of = base.clone();
        let make = move || {
            let _inside = runtime.enter();
            let (client, token) = maker.make()?;
            Ok(Link { base: of, client, token, is_proven: AtomicBool::new(false) })
        };
        let made = next.run(self.settings.timeout, make).await;
        let link =
            made.map_err(|error| KubeletError::Credentials { url: base.clone(), source: error.into() })??;
        let link = Arc::new(link);
        // What an earlier request has begun may be for another address; the next request makes another one then.
        if link.base == base {
            *kept = Some(Arc::clone(&link));
        }
        Ok(link)
    }

    fn base(&self) -> Result<String, KubeletError> {
        let node = self.node.borrow().clone().ok_or(KubeletError::NodeUnknown)?;
        Ok(node.base_url(&self.settings)?)
    }
}

impl std::fmt::Debug for KubeletClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeletClient").field("settings", &self.settings).finish_non_exhaustive()
    }
}

async fn next_chunk(body: &mut Body, url: &str) -> Result<Option<bytes::Bytes>, KubeletError> {
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|source| KubeletError::Body { url: url.to_owned(), source: source.into() })?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// What the kubelet says of a request that it refuses.
async fn refusal(url: String, code: u16, mut body: Body) -> KubeletError {
    let mut text = Vec::new();
    while text.len() < MAX_REFUSAL_BYTES {
        match next_chunk(&mut body, &url).await {
            Ok(Some(chunk)) => text.extend_from_slice(chunk.get(..MAX_REFUSAL_BYTES).unwrap_or(&chunk)),
            Ok(None) | Err(_) => break,
        }
    }
    text.truncate(MAX_REFUSAL_BYTES);
    let text: String =
        String::from_utf8_lossy(&text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let hint = match code {
        401 => " (it does not take the credentials of the API server's client)",
        403 => " (the service account needs `get` on nodes/proxy)",
        _ => "",
    };
    KubeletError::Status { url, code, hint, text: text.trim().to_owned() }
}
