//! Asking the running agent on its admin socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

/// Longest wait for an answer; the agent gives up a little sooner.
const DEADLINE: Duration = Duration::from_secs(55);
/// Largest answer that is read.
const MAX_ANSWER: usize = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// Nobody listens: there is no socket, or nobody behind it.
    #[error("no agent answers on {socket}: is it running with this --run-dir or --admin-socket?")]
    NoAgent {
        /// `--admin-socket`
        socket: PathBuf,
    },
    /// The socket cannot be used, e.g. for want of permission.
    #[error("cannot use the admin socket {socket}")]
    Connect {
        /// `--admin-socket`
        socket: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The exchange broke off.
    #[error("the agent's answer was lost: {0}")]
    Lost(String),
    /// It took too long.
    #[error("the agent did not answer within {} s", DEADLINE.as_secs())]
    Late,
    /// The agent's own words.
    #[error("{0}")]
    Refused(String),
}

/// Asks and waits for the JSON answer. An answer that is not a success is an error in the agent's words.
pub(super) fn ask(socket: &Path, method: Method, path: &str) -> Result<Value, AskError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| AskError::Connect { socket: socket.to_owned(), source })?;
    runtime.block_on(async {
        let asked = tokio::time::timeout(DEADLINE, exchange(socket, method, path));
        asked.await.unwrap_or(Err(AskError::Late))
    })
}

async fn exchange(socket: &Path, method: Method, path: &str) -> Result<Value, AskError> {
    let stream = UnixStream::connect(socket).await.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            AskError::NoAgent { socket: socket.to_owned() }
        }
        _ => AskError::Connect { socket: socket.to_owned(), source },
    })?;
    let lost = |error: &dyn std::fmt::Display| AskError::Lost(error.to_string());
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| lost(&error))?;
    let connection = tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "koordlet")
        .body(Empty::<Bytes>::new())
        .map_err(|error| lost(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| lost(&error))?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(|error| lost(&error))?;
    connection.abort();
    let body: Value = serde_json::from_slice(&body.to_bytes()).map_err(|error| lost(&error))?;
    if status == StatusCode::OK {
        return Ok(body);
    }
    let error = body.get("error").and_then(Value::as_str).unwrap_or("the agent gave no reason");
    Err(AskError::Refused(error.to_owned()))
}
