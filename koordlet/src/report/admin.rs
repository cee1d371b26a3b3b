//! The admin socket, for root alone: `GET /explain?target=...`, `GET /state`, `POST /restore`, as HTTP/1 on
//! a Unix socket of the run directory. The agent's loop answers; this file asks it.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::sys::stat::{Mode, fchmod};
use serde::Serialize;
use serde_json::json;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

use super::connections::{Answer, answer, text};
use super::explanation::{query_value, select};
use crate::executor::{Executor, RestoreReport, TargetReport};
use crate::state::hub::Readers;

/// How long the agent may take to explain.
const EXPLAIN_DEADLINE: Duration = Duration::from_secs(10);
/// How long it may take to put everything back: memory limits may reclaim.
const RESTORE_DEADLINE: Duration = Duration::from_secs(50);

/// What the socket asks of the agent's loop. A dropped sender is the answer "stopping".
#[derive(Debug)]
pub enum AdminAsk {
    /// The state of all targets.
    Explain(oneshot::Sender<Result<Vec<TargetReport>, String>>),
    /// Put everything back and enforce nothing from then on.
    Restore(oneshot::Sender<Result<RestoreReport, String>>),
}

impl AdminAsk {
    /// Has the executor answer.
    pub async fn answer(self, executor: &Executor) {
        // Whoever asked may have gone away meanwhile, which is no trouble.
        let heard = match self {
            Self::Explain(reply) => {
                let reports = executor.explain().await.map_err(|error| super::chain(&error));
                reply.send(reports).is_ok()
            }
            Self::Restore(reply) => {
                let report = executor.restore_all().await.map_err(|error| super::chain(&error));
                reply.send(report).is_ok()
            }
        };
        if !heard {
            tracing::debug!("nobody waits for the answer any more");
        }
    }
}

/// Answers the requests on the socket.
#[derive(Clone, Debug)]
pub struct AdminPages {
    /// To the agent's loop.
    pub asks: mpsc::Sender<AdminAsk>,
    /// Snapshots: names of pods, readiness.
    pub readers: Readers,
}

impl AdminPages {
    /// Answers one request.
    pub async fn answer(self, request: Request<Incoming>) -> Answer {
        let query = request.uri().query().unwrap_or_default();
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/explain") => {
                // Without a question it is about everything, but a question that cannot be read is an error.
                match query_value(query, "target").or_else(|| query.is_empty().then(String::new)) {
                    Some(question) => self.explain(&question).await,
                    None => failure(StatusCode::BAD_REQUEST, "the target cannot be read"),
                }
            }
            (&Method::GET, "/state") => self.state(),
            (&Method::POST, "/restore") => match self.ask(AdminAsk::Restore, RESTORE_DEADLINE).await {
                Ok(report) => success(&report),
                Err(error) => failure(StatusCode::SERVICE_UNAVAILABLE, &error),
            },
            (_, "/explain" | "/state" | "/restore") => {
                failure(StatusCode::METHOD_NOT_ALLOWED, "GET /explain and /state, POST /restore")
            }
            _ => failure(StatusCode::NOT_FOUND, "there are /explain, /state and /restore"),
        }
    }

    async fn explain(&self, question: &str) -> Answer {
        let reports = match self.ask(AdminAsk::Explain, EXPLAIN_DEADLINE).await {
            Ok(reports) => reports,
            Err(error) => return failure(StatusCode::SERVICE_UNAVAILABLE, &error),
        };
        match select(reports, question, &self.readers.snapshot()) {
            Some(targets) => success(&json!({ "targets": targets })),
            None => failure(
                StatusCode::NOT_FOUND,
                &format!(
                    "{question:?} is no pod (NAMESPACE/NAME or UID) and no cgroup path that is known here"
                ),
            ),
        }
    }

    fn state(&self) -> Answer {
        let snapshot = self.readers.snapshot();
        let readiness = self.readers.readiness();
        success(&json!({
            "ready": readiness.is_ready(),
            "missing": readiness.missing,
            "notes": readiness.notes,
            "pods": snapshot.pods.pods.len(),
            "cgroups": snapshot.tree.dirs.len(),
        }))
    }

    async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, String>>) -> AdminAsk,
        deadline: Duration,
    ) -> Result<T, String> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            self.asks.send(ask(reply)).await.map_err(|_| "the agent is stopping".to_owned())?;
            answer.await.map_err(|_| "the agent is stopping".to_owned())?
        };
        let late = |_| Err(format!("the agent did not answer within {} s", deadline.as_secs()));
        tokio::time::timeout(deadline, asked).await.unwrap_or_else(late)
    }
}

fn success(body: &impl Serialize) -> Answer {
    match serde_json::to_vec(body) {
        Ok(body) => answer(StatusCode::OK, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn failure(status: StatusCode, error: &str) -> Answer {
    answer(status, "application/json", json!({ "error": error }).to_string())
}

/// The bound socket; its file goes with it.
#[derive(Debug)]
pub struct AdminSocket {
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl AdminSocket {
    /// Whether the path still leads to this socket.
    pub fn is_in_place(&self) -> bool {
        identity(&self.path).is_ok_and(|there| there == self.file)
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        if !self.is_in_place() {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, path = %self.path.display(), "the admin socket stays behind");
        }
    }
}

/// Binds the socket at `path` with mode 0600, in place of one that nobody listens on any more.
pub fn bind_socket(path: &Path) -> io::Result<(UnixListener, AdminSocket)> {
    remove_stale(path)?;
    let fd = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    // The file takes the mode of the descriptor, so that there is no moment in which others may connect.
    fchmod(&fd, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen(&fd, Backlog::new(16)?)?;
    let listener = UnixListener::from_std(std::os::unix::net::UnixListener::from(fd))?;
    Ok((listener, AdminSocket { path: path.to_owned(), file: identity(path)? }))
}

fn remove_stale(path: &Path) -> io::Result<()> {
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !meta.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is not a socket"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another agent answers there")),
        Err(_) => std::fs::remove_file(path),
    }
}

#[cfg(test)]
mod tests;
