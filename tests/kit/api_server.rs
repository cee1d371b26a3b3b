//! A stand-in for the API server: real TLS, a token, lists, watches, creation and merge patches of any kind of object,
//! as far as one node's agent asks. It knows no rights and no schemas; what depends on them is tested with the real
//! one. It keeps what was written.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsAcceptor;

use crate::certificates;
use crate::load::own_file;
use crate::object_store::{NOT_FOUND, ObjectStore, Place, Refusal};

/// The stand-in; it ends on drop.
pub struct StandInApiServer {
    address: SocketAddr,
    token: String,
    state: Arc<State>,
    files: TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A write that came over the wire, refused or not.
#[derive(Clone, Debug)]
pub struct Written {
    /// `PATCH /apis/...`, without the query.
    pub what: String,
    /// What was sent.
    pub body: Value,
}

struct State {
    authorization: String,
    store: Mutex<ObjectStore>,
    written: Mutex<Vec<Written>>,
    /// Tells watches that there may be something new.
    version: watch::Sender<u64>,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

impl StandInApiServer {
    /// Serves on a free port of the loopback; whoever has `token` may do everything.
    pub fn start(token: &str) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let tls = certificates::make(files.path(), "stand-in API server")?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            authorization: format!("Bearer {token}"),
            store: Mutex::default(),
            written: Mutex::default(),
            version: watch::channel(0).0,
        });
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::spawn({
            let (state, acceptor) = (Arc::clone(&state), TlsAcceptor::from(Arc::new(tls)));
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, acceptor, state) => {}
                        _ = stopped => {}
                    }
                });
            }
        });
        Ok(Self { address, token: token.to_owned(), state, files, stop: Some(stop), thread: Some(thread) })
    }

    /// A kubeconfig with the token, written anew.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        use std::io::Write as _;
        let path = self.files.path().join("kubeconfig");
        let (address, token, authority) =
            (self.address, &self.token, self.files.path().join(certificates::CA));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://{address}', certificate-authority: {}}}}}]\n\
             users: [{{name: u, user: {{token: {token}}}}}]\n",
            authority.display()
        );
        own_file(&path)?.write_all(text.as_bytes())?;
        Ok(path)
    }

    /// Adds an object to a collection, as its administrator does.
    pub fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        let created = self.state.store().create(collection, object.clone());
        self.state.tell();
        created
            .map_err(|(_, reason)| anyhow::anyhow!("{reason}"))
            .with_context(|| format!("creating {object}"))
    }

    /// An object as it is now.
    pub fn get(&self, collection: &str, name: &str) -> Option<Value> {
        self.state.store().get(collection, name).cloned()
    }

    /// Every write so far that came over the wire.
    pub fn written(&self) -> Vec<Written> {
        lock(&self.state.written).clone()
    }
}

impl Drop for StandInApiServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl State {
    fn store(&self) -> MutexGuard<'_, ObjectStore> {
        lock(&self.store)
    }

    fn tell(&self) {
        self.version.send_replace(self.store().version());
    }
}

async fn accept(listener: std::net::TcpListener, acceptor: TlsAcceptor, state: Arc<State>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, acceptor.clone(), Arc::clone(&state)));
    }
}

/// Errors are the client's going away.
async fn connection(stream: TcpStream, acceptor: TlsAcceptor, state: Arc<State>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(answer(request, state).await) }
    });
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn answer(request: Request<Incoming>, state: Arc<State>) -> Answer {
    let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if authorization != Some(&*state.authorization) {
        return refused((401, "Unauthorized"));
    }
    let Some(place) = Place::of_path(request.uri().path()) else { return refused(NOT_FOUND) };
    if request.method() != Method::GET {
        return write(request, &place, &state).await;
    }
    let query = request.uri().query().unwrap_or_default();
    match &place.name {
        Some(name) => {
            let found = state.store().get(&place.collection, name).cloned();
            found.map_or_else(|| refused(NOT_FOUND), |object| whole(200, &object))
        }
        None if parameter(query, "watch").is_some() => watch_of(place.collection, query, &state),
        None => whole(200, &state.store().list(&place.collection, name_selected(query))),
    }
}

async fn write(request: Request<Incoming>, place: &Place, state: &State) -> Answer {
    let (method, what) = (request.method().clone(), format!("{} {}", request.method(), request.uri().path()));
    let Ok(body) = request.into_body().collect().await else { return refused((400, "BadRequest")) };
    let Ok(body) = serde_json::from_slice::<Value>(&body.to_bytes()) else {
        return refused((400, "BadRequest"));
    };
    lock(&state.written).push(Written { what, body: body.clone() });
    let (code, outcome) = match (&method, &place.name) {
        (&Method::POST, None) => (201, state.store().create(&place.collection, body)),
        (&Method::PATCH, Some(name)) => {
            // The status is a part of its own: nothing else of the object is changed with it.
            let patch = match place.part.as_deref() {
                Some(part) => json!({"metadata": body["metadata"], part: body[part]}),
                None => body,
            };
            (200, state.store().patch(&place.collection, name, &patch))
        }
        _ => (405, Err((405, "MethodNotAllowed"))),
    };
    state.tell();
    outcome.map_or_else(refused, |object| whole(code, &object))
}

/// Changes after the version that was asked for, line by line, until one side ends.
fn watch_of(collection: String, query: &str, state: &Arc<State>) -> Answer {
    let name = name_selected(query).map(str::to_owned);
    let from = parameter(query, "resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
    let (state, news) = (Arc::clone(state), state.version.subscribe());
    let lines = stream::unfold((from, news), move |(from, mut news)| {
        let (state, collection, name) = (Arc::clone(&state), collection.clone(), name.clone());
        async move {
            loop {
                let next = state.store().next_change(&collection, name.as_deref(), from);
                if let Some((version, line)) = next {
                    return Some((format!("{line}\n"), (version, news)));
                }
                news.changed().await.ok()?;
            }
        }
    });
    let frames = lines.map(|line| Ok::<_, Infallible>(Frame::data(Bytes::from(line))));
    respond(200, StreamBody::new(frames).boxed_unsync())
}

fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// The name in `fieldSelector=metadata.name=NAME`.
fn name_selected(query: &str) -> Option<&str> {
    let selector = parameter(query, "fieldSelector")?;
    ["metadata.name=", "metadata.name%3D"].iter().find_map(|prefix| selector.strip_prefix(prefix))
}

fn refused((code, reason): Refusal) -> Answer {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                        "message": reason});
    whole(code, &status)
}

fn whole(code: u16, body: &Value) -> Answer {
    respond(code, Full::new(Bytes::from(body.to_string())).boxed_unsync())
}

fn respond(code: u16, body: UnsyncBoxBody<Bytes, Infallible>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = hyper::StatusCode::from_u16(code).unwrap_or_default();
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    answer
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
