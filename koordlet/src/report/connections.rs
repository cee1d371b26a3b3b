//! HTTP/1 connections within bounds: few at a time, one request each, a deadline for everything. Shared by
//! the TCP address and the admin socket.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tracing::{debug, warn};

/// Most connections at a time; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 32;
/// Time in which a request's head must arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a connection is cut, answered or not. A restore may take its while.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(1);
/// Pause after a failure to accept, e.g. for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Largest head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Most headers of a request.
const MAX_HEADERS: usize = 64;

/// An answer.
pub type Answer = Response<Full<Bytes>>;

/// An answer of the given type.
pub fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// A plain text answer.
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, "text/plain; charset=utf-8", body)
}

/// Something that accepts connections.
pub trait Listener: Send + 'static {
    /// What it yields.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Waits for the next connection.
    fn next(&self) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

/// Serves for ever: `handler` answers each request.
pub async fn serve<L, H, F>(listener: L, handler: H)
where
    L: Listener,
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut told = None;
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match listener.next().await {
            Ok(stream) => {
                told = None;
                let handler = handler.clone();
                tokio::spawn(async move {
                    connection(stream, handler).await;
                    drop(permit);
                });
            }
            Err(error) => {
                if told != Some(error.kind()) {
                    warn!(%error, "cannot accept connections; trying again");
                }
                told = Some(error.kind());
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection<S, H, F>(stream: S, handler: H)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request<Incoming>) -> F + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answer = handler(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "connection"),
        Err(_) => debug!("connection cut after {} s", CONNECTION_TIMEOUT.as_secs()),
    }
}
