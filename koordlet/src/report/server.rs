//! Both listeners, bound before anything is enforced, so that a second agent or a wrong address is told at
//! once.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::info;

use super::admin::{AdminAsk, AdminPages, AdminSocket, bind_socket};
use super::connections::serve;
use super::http::{Pages, listen};
use super::metrics::Metrics;
use crate::config::Config;
use crate::state::hub::Readers;

/// Questions of the socket that may wait for the agent's loop.
const MAX_ASKS: usize = 8;

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
    _socket: AdminSocket,
}

impl Servers {
    /// Starts both. The receiver gets what the socket asks: the agent's loop answers each with
    /// [`AdminAsk::answer`].
    pub async fn start(
        config: &Config,
        metrics: Arc<Metrics>,
        readers: Readers,
    ) -> Result<(Self, mpsc::Receiver<AdminAsk>), ReportError> {
        let listen_error = |source| ReportError::Listen { addr: config.addr.to_string(), source };
        let listener = listen(&config.addr).await.map_err(listen_error)?;
        let addr = listener.local_addr().map_err(listen_error)?;
        let path = &config.admin_socket;
        let (unix, socket) =
            bind_socket(path).map_err(|source| ReportError::Admin { path: path.clone(), source })?;
        info!(%addr, admin_socket = %path.display(), "listening");

        let (asks, receiver) = mpsc::channel(MAX_ASKS);
        let pages = Pages { metrics, readers: readers.clone() };
        let admin = AdminPages { asks, readers };
        let tasks = vec![
            tokio::spawn(serve(listener, move |request| ready(pages.answer(&request)))),
            tokio::spawn(serve(unix, move |request| admin.clone().answer(request))),
        ];
        Ok((Self { addr, tasks, _socket: socket }, receiver))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
