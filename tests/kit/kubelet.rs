//! A stand-in for the kubelet's port: real TLS with a CA of its own, tokens and client certificates checked, pods in
//! any number, and the ways in which a kubelet fails. It counts what it is asked.
//!
//! It writes its answers by hand, so that they can be broken anywhere.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::certificates;

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As it should.
    Right,
    /// In full, so much later.
    Slow(Duration),
    /// With a body that ends in the middle of its JSON, as if it were whole.
    HalfJson,
    /// With a body that breaks off before the length that was told.
    BreaksOff,
    /// Not at all: the connection is closed.
    Closes,
    /// With the head alone, and nothing after it.
    Hangs,
    /// With a status.
    Status(u16),
}

/// The stand-in; it ends on drop.
pub struct StandInKubelet {
    address: SocketAddr,
    state: Arc<State>,
    files: TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    /// What may ask; `None`: everybody.
    token: Mutex<Option<String>>,
    manner: Mutex<Manner>,
    pods: Mutex<Arc<String>>,
    configz: Mutex<Arc<String>>,
    requests: AtomicUsize,
    /// When pods were asked for.
    asked: Mutex<Vec<Instant>>,
    denied: AtomicUsize,
    connections: AtomicUsize,
}

impl StandInKubelet {
    /// Serves over TLS on a free port of the loopback; whoever has `token` or a certificate of its CA may ask.
    pub fn start(token: &str) -> Result<Self> {
        let files = tempfile::tempdir()?;
        let tls = certificates::make(files.path(), "stand-in kubelet")?;
        Self::serve(files, Some(tls), Some(token.to_owned()))
    }

    /// Serves plain HTTP, to everybody, as the read-only port does.
    pub fn start_read_only() -> Result<Self> {
        Self::serve(tempfile::tempdir()?, None, None)
    }

    fn serve(files: TempDir, tls: Option<ServerConfig>, token: Option<String>) -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            token: Mutex::new(token),
            manner: Mutex::new(Manner::Right),
            pods: Mutex::new(Arc::new(pods_text(0, 0))),
            configz: Mutex::new(Arc::new(configz_text(&json!({"cpuManagerPolicy": "static"})))),
            requests: AtomicUsize::new(0),
            asked: Mutex::default(),
            denied: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::spawn({
            let state = Arc::clone(&state);
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, tls, state) => {}
                        _ = stopped => {}
                    }
                });
            }
        });
        Ok(Self { address, state, files, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its CA, in PEM.
    pub fn ca_file(&self) -> PathBuf {
        self.files.path().join(certificates::CA)
    }

    /// A client's certificate and key that it takes, in PEM.
    pub fn client_files(&self) -> (PathBuf, PathBuf) {
        let (certificate, key) = certificates::CLIENT;
        (self.files.path().join(certificate), self.files.path().join(key))
    }

    /// Requests so far, denied ones too.
    pub fn requests(&self) -> usize {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// When each request for pods arrived.
    pub fn asked_for_pods(&self) -> Vec<Instant> {
        lock(&self.state.asked).clone()
    }

    /// Requests without good credentials.
    pub fn denied(&self) -> usize {
        self.state.denied.load(Ordering::Relaxed)
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// Takes another token from now on.
    pub fn set_token(&self, token: &str) {
        *lock(&self.state.token) = Some(token.to_owned());
    }

    /// Answers otherwise from now on.
    pub fn set_manner(&self, manner: Manner) {
        *lock(&self.state.manner) = manner;
    }

    /// Has so many pods of so many containers from now on.
    pub fn set_pods(&self, pods: usize, containers: usize) {
        self.set_list(pods_text(pods, containers));
    }

    /// Has this list of pods from now on.
    pub fn set_list(&self, text: String) {
        *lock(&self.state.pods) = Arc::new(text);
    }

    /// Is configured so from now on.
    pub fn set_config(&self, config: &Value) {
        *lock(&self.state.configz) = Arc::new(configz_text(config));
    }
}

impl Drop for StandInKubelet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// A list of running pods, as the kubelet writes it.
pub fn pods_text(pods: usize, containers: usize) -> String {
    let pod = |pod: usize| {
        let specs: Vec<_> = (0..containers)
            .map(
                |c| json!({"name": format!("c{c}"), "image": "web:1", "resources": {"limits": {"cpu": "1"}}}),
            )
            .collect();
        let statuses: Vec<_> = (0..containers)
            .map(|c| json!({"name": format!("c{c}"), "containerID": format!("containerd://{pod:x}-{c:x}")}))
            .collect();
        json!({
            "metadata": {"name": format!("web-{pod}"), "namespace": "shop", "uid": format!("uid-{pod}")},
            "spec": {"containers": specs},
            "status": {"phase": "Running", "qosClass": "Burstable", "containerStatuses": statuses},
        })
    };
    let items: Vec<_> = (0..pods).map(pod).collect();
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}).to_string()
}

/// The answer of `/configz`.
fn configz_text(config: &Value) -> String {
    json!({"kubeletconfig": config}).to_string()
}

async fn accept(listener: std::net::TcpListener, tls: Option<ServerConfig>, state: Arc<State>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let acceptor = tls.map(|tls| TlsAcceptor::from(Arc::new(tls)));
    while let Ok((stream, _)) = listener.accept().await {
        state.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(connection(stream, acceptor.clone(), Arc::clone(&state)));
    }
}

/// Errors are the client's going away.
async fn connection(stream: TcpStream, acceptor: Option<TlsAcceptor>, state: Arc<State>) {
    drop(match acceptor {
        None => talk(stream, false, &state).await,
        Some(acceptor) => match acceptor.accept(stream).await {
            Ok(stream) => {
                let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                talk(stream, has_certificate, &state).await
            }
            Err(error) => Err(error),
        },
    });
}

async fn talk(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    has_certificate: bool,
    state: &State,
) -> std::io::Result<()> {
    while let Some(head) = read_head(&mut stream).await? {
        state.requests.fetch_add(1, Ordering::Relaxed);
        if head.starts_with("GET /pods/ ") {
            lock(&state.asked).push(Instant::now());
        }
        let manner = *lock(&state.manner);
        match manner {
            Manner::Slow(delay) => tokio::time::sleep(delay).await,
            Manner::Closes => return Ok(()),
            _ => {}
        }
        let (status, body) = answer(&head, has_certificate, manner, state);
        let told = if manner == Manner::HalfJson { body.len() / 2 } else { body.len() };
        let written = match manner {
            Manner::Hangs => 0,
            Manner::HalfJson | Manner::BreaksOff => body.len() / 2,
            _ => body.len(),
        };
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {told}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes().get(..written).unwrap_or_default()).await?;
        stream.flush().await?;
        match manner {
            Manner::BreaksOff => return Ok(()),
            Manner::Hangs => std::future::pending::<()>().await,
            _ => {}
        }
    }
    Ok(())
}

fn answer(head: &str, has_certificate: bool, manner: Manner, state: &State) -> (String, Arc<String>) {
    let refusal = |status: &str, text: &str| (status.to_owned(), Arc::new(text.to_owned()));
    let authorization = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("authorization").then(|| value.trim().to_owned())
    });
    let is_good = |token: &String| authorization == Some(format!("Bearer {token}"));
    if !has_certificate && !lock(&state.token).as_ref().is_none_or(is_good) {
        state.denied.fetch_add(1, Ordering::Relaxed);
        return refusal("401 Unauthorized", "Unauthorized");
    }
    if let Manner::Status(code) = manner {
        return refusal(&format!("{code} Refused"), "Forbidden (user=system:serviceaccount:k:koordlet)");
    }
    match head.split(' ').nth(1) {
        Some("/pods/") => ("200 OK".to_owned(), Arc::clone(&lock(&state.pods))),
        Some("/configz") => ("200 OK".to_owned(), Arc::clone(&lock(&state.configz))),
        _ => refusal("404 Not Found", "404 page not found"),
    }
}

/// The next request's head; `None` at the end of the connection.
async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) if head.len() < 64 << 10 => head.push(byte),
            _ => return Ok(None),
        }
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
