//! Both listeners, bound before anything is enforced, so that a second agent or a wrong address is told at
//! once.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::admin::{AdminAsk, AdminPages, AdminSocket, bind_socket};
use super::audit::page::EventsPage;
use super::connections::{Crowd, serve};
use super::http::{Pages, listen};
use super::metrics::Metrics;
use crate::config::Config;
use crate::state::hub::Readers;

/// Questions of the socket that may wait for the agent's loop.
const MAX_ASKS: usize = 8;

/// Between two looks whether the socket's file is still there.
const LOOK: Duration = Duration::from_secs(10);

/// Why a listener cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// `--addr`
    #[error("cannot listen on {addr}")]
    Listen {
        /// Address as asked for.
        addr: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// `--admin-socket`
    #[error("cannot bind the admin socket {path}")]
    Admin {
        /// Path of the socket.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The running listeners; dropping them ends both and removes the socket.
#[derive(Debug)]
pub struct Servers {
    /// The address of metrics and health as it really is.
    pub addr: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

impl Servers {
    /// Starts both; `events` is the audit log, if it is served. The receiver gets what the socket asks: the agent's loop answers each with
    /// [`AdminAsk::answer`].
    pub async fn start(
        config: &Config,
        metrics: Arc<Metrics>,
        readers: Readers,
        events: Option<EventsPage>,
    ) -> Result<(Self, mpsc::Receiver<AdminAsk>), ReportError> {
        let listen_error = |source| ReportError::Listen { addr: config.addr.to_string(), source };
        let listener = listen(&config.addr).await.map_err(listen_error)?;
        let addr = listener.local_addr().map_err(listen_error)?;
        let path = &config.admin_socket;
        let (unix, socket) =
            bind_socket(path).map_err(|source| ReportError::Admin { path: path.clone(), source })?;
        info!(%addr, admin_socket = %path.display(), "listening");

        let (asks, receiver) = mpsc::channel(MAX_ASKS);
        let shared = Arc::default();
        let pages = Pages { metrics, shared, readers: readers.clone(), events };
        let admin = AdminPages { asks, readers };
        let tasks = vec![
            tokio::spawn(serve(listener, Crowd::CutOldest, move |request| pages.clone().answer(request))),
            tokio::spawn(serve_admin(path.clone(), unix, socket, admin)),
        ];
        Ok((Self { addr, tasks }, receiver))
    }
}

/// Serves the admin socket for ever, also when its file is removed: then it is bound anew.
async fn serve_admin(path: PathBuf, listener: UnixListener, socket: AdminSocket, pages: AdminPages) {
    let (mut listener, mut socket, mut told) = (listener, socket, false);
    loop {
        let pages = pages.clone();
        let serving = serve(listener, Crowd::Wait, move |request| pages.clone().answer(request));
        tokio::select! {
            () = serving => return,
            () = gone(&socket) => {}
        }
        (listener, socket) = loop {
            match bind_socket(&path) {
                Ok(bound) => break bound,
                Err(error) if !told => {
                    warn!(%error, socket = %path.display(), "the admin socket was removed and cannot be bound anew");
                    told = true;
                }
                Err(_) => {}
            }
            tokio::time::sleep(LOOK).await;
        };
        told = false;
        info!(socket = %path.display(), "the admin socket was removed, and is bound anew");
    }
}

async fn gone(socket: &AdminSocket) {
    while socket.is_in_place() {
        tokio::time::sleep(LOOK).await;
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
