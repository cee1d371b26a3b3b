//! HTTP/1 connections within bounds: few at a time, one request each, a deadline for everything. Shared by
//! the TCP address, where anybody may connect, and the admin socket, where root alone does.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::shared_page::PageBody;

/// Most connections at a time.
const MAX_CONNECTIONS: usize = 32;
/// Time in which a request's head must arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a connection is cut, answered or not. A restore may take its while.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(1);
/// Pause after a failure to accept, e.g. for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Least time between two lines about such failures.
const QUIET: Duration = Duration::from_mins(1);
/// Largest head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Most headers of a request.
const MAX_HEADERS: usize = 64;

/// An answer: of its own, or a page that others read, too.
pub type Answer = Response<Either<Full<Bytes>, PageBody>>;

/// An answer of the given type.
pub fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    answer_with(status, content_type, Either::Left(Full::new(body.into())))
}

/// An answer with a page that is shared.
pub fn page(content_type: &'static str, body: PageBody) -> Answer {
    answer_with(StatusCode::OK, content_type, Either::Right(body))
}

fn answer_with(
    status: StatusCode,
    content_type: &'static str,
    body: Either<Full<Bytes>, PageBody>,
) -> Answer {
    let mut answer = Response::new(body);
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

/// What becomes of one connection more than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowd {
    /// It waits in the kernel's queue: what an administrator has asked for is not cut.
    Wait,
    /// It is served, and the oldest one is cut. Answers take no time here, so the oldest are those of slow or
    /// silent clients, which must not keep a health check waiting.
    CutOldest,
}

/// Serves for ever: `handler` answers each request.
pub async fn serve<L, H, F>(listener: L, crowd: Crowd, handler: H)
where
    L: Listener,
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::with_capacity(MAX_CONNECTIONS);
    let mut told: Option<Instant> = None;
    loop {
        make_room(&mut open, crowd).await;
        match listener.next().await {
            Ok(stream) => open.push_back(tokio::spawn(connection(stream, handler.clone()))),
            Err(error) => {
                // In between some succeed, so that one success is no end of it.
                if told.is_none_or(|told| told.elapsed() >= QUIET) {
                    warn!(%error, "cannot accept connections; trying again");
                    told = Some(Instant::now());
                }
                // Descriptors are what lacks, and the oldest connection has one.
                if crowd == Crowd::CutOldest
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn make_room(open: &mut VecDeque<JoinHandle<()>>, crowd: Crowd) {
    open.retain(|connection| !connection.is_finished());
    if open.len() < MAX_CONNECTIONS {
        return;
    }
    match crowd {
        // Each gets its turn before it can be the oldest one.
        Crowd::CutOldest => {
            tokio::task::yield_now().await;
            open.retain(|connection| !connection.is_finished());
            if open.len() >= MAX_CONNECTIONS
                && let Some(oldest) = open.pop_front()
            {
                oldest.abort();
            }
        }
        Crowd::Wait => {
            let ended = std::future::poll_fn(|context| {
                let at = open.iter_mut().position(|each| Pin::new(each).poll(context).is_ready());
                at.map_or(Poll::Pending, Poll::Ready)
            })
            .await;
            drop(open.remove(ended));
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

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn server(crowd: Crowd) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, crowd, |_| ready(text(StatusCode::OK, "ok"))));
        address
    }

    async fn ask(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn silent(address: SocketAddr) -> Vec<TcpStream> {
        let mut clients = Vec::new();
        for _ in 0..2 * MAX_CONNECTIONS {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(b"GET / HT").await.unwrap();
            clients.push(client);
        }
        clients
    }

    #[tokio::test]
    async fn silent_clients_keep_nobody_waiting_where_anybody_may_connect() {
        let address = server(Crowd::CutOldest).await;
        let mut clients = silent(address).await;
        assert!(ask(address).await.ends_with("ok"));
        let newest = clients.pop().unwrap();
        let error = newest.try_read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "no deadline has passed");
        let mut rest = Vec::new();
        assert_eq!(clients.remove(0).read_to_end(&mut rest).await.unwrap_or(0), 0, "the oldest was cut");
    }

    /// Has a descriptor for one connection, and for another only after it was refused once.
    struct Starved(TcpListener, AtomicUsize);

    impl Listener for Starved {
        type Stream = TcpStream;

        async fn next(&self) -> io::Result<TcpStream> {
            match self.1.fetch_add(1, Ordering::Relaxed) {
                1 => Err(io::Error::from_raw_os_error(libc::EMFILE)),
                _ => self.0.next().await,
            }
        }
    }

    #[tokio::test]
    async fn where_descriptors_lack_the_oldest_connection_gives_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let starved = Starved(listener, AtomicUsize::new(0));
        tokio::spawn(serve(starved, Crowd::CutOldest, |_| ready(text(StatusCode::OK, "ok"))));
        let mut silent = TcpStream::connect(address).await.unwrap();
        assert!(ask(address).await.ends_with("ok"));
        let mut byte = [0; 1];
        tokio::select! {
            biased;
            read = silent.read(&mut byte) => assert_eq!(read.unwrap_or(0), 0),
            _ = ask(address) => panic!("it is still there, which only its own deadline will end"),
        }
    }

    #[tokio::test]
    async fn a_crowd_that_waits_is_served_as_others_go() {
        let address = server(Crowd::Wait).await;
        let clients = silent(address).await;
        let waiting = tokio::spawn(ask(address));
        tokio::task::yield_now().await;
        drop(clients);
        assert!(waiting.await.unwrap().ends_with("ok"));
    }
}
