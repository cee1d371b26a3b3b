//! kube's own client, made anew when its credentials were refused, when the token file holds another token, and
//! now and then while the server cannot be reached: a certificate or the server's address may have changed, too.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::credentials::{CredentialError, CredentialSource, Credentials, TokenFile};
use super::stats::ApiStats;
use crate::error_chain::chain;

/// How often the token file is looked at.
const TOKEN_LOOK: Duration = Duration::from_secs(10);
/// Least age at which refused credentials are read again.
const AFTER_REFUSAL: Duration = Duration::from_secs(5);
/// Least age at which credentials are read again because the server cannot be reached.
const AFTER_FAILURE: Duration = Duration::from_mins(1);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Credentials.
    #[error("cannot log in to the API server")]
    Credentials(#[from] CredentialError),
    /// A certificate, a key, a plugin.
    #[error("cannot make a client of {of}")]
    Client {
        /// Where the credentials are.
        of: CredentialSource,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The runtime is stopping.
    #[error("the agent is stopping")]
    Stopping,
}

/// The client in use.
#[derive(Debug)]
pub(super) struct Connection {
    source: CredentialSource,
    stats: Arc<ApiStats>,
    state: Mutex<State>,
}

struct State {
    client: Client,
    token: Option<TokenFile>,
    made: Instant,
    looked: Instant,
    /// The last trouble with new credentials that was told.
    told: Option<String>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("token", &self.token).field("made", &self.made).finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads the credentials. The server is not asked.
    pub(super) async fn new(source: CredentialSource, stats: Arc<ApiStats>) -> Result<Self, ConnectError> {
        let (client, token) = connect(&source).await?;
        stats.connected();
        let now = Instant::now();
        let state = State { client, token, made: now, looked: now, told: None };
        Ok(Self { source, stats, state: Mutex::new(state) })
    }

    /// The client, with the token that is in its file now.
    pub(super) async fn client(&self) -> Client {
        let mut state = self.state.lock().await;
        if state.looked.elapsed() >= TOKEN_LOOK {
            state.looked = Instant::now();
            if state.token.as_ref().is_some_and(TokenFile::has_changed) {
                self.renew(&mut state).await;
            }
        }
        state.client.clone()
    }

    /// The server does not know who asks: whether there is a new client to ask again with.
    pub(super) async fn refused(&self) -> bool {
        let mut state = self.state.lock().await;
        let changed = state.token.as_ref().is_some_and(TokenFile::has_changed);
        (changed || state.made.elapsed() >= AFTER_REFUSAL) && self.renew(&mut state).await
    }

    /// The server cannot be reached.
    pub(super) async fn failed(&self) {
        let mut state = self.state.lock().await;
        if state.made.elapsed() >= AFTER_FAILURE {
            self.renew(&mut state).await;
        }
    }

    async fn renew(&self, state: &mut State) -> bool {
        state.made = Instant::now();
        match connect(&self.source).await {
            Ok((client, token)) => {
                self.stats.connected();
                (state.client, state.token, state.told) = (client, token, None);
                true
            }
            Err(error) => {
                let what = chain(&error);
                if state.told.as_ref() != Some(&what) {
                    tracing::warn!(
                        error = what,
                        "credentials cannot be read again; the last ones stay in use"
                    );
                    state.told = Some(what);
                }
                false
            }
        }
    }
}

async fn connect(source: &CredentialSource) -> Result<(Client, Option<TokenFile>), ConnectError> {
    let Credentials { config, token } = source.load().await?;
    // A kubeconfig may name a program that makes tokens, and kube waits for it.
    let made = tokio::task::spawn_blocking(move || Client::try_from(config)).await;
    let client = made.map_err(|_| ConnectError::Stopping)?;
    let wrap = |error| ConnectError::Client { of: source.clone(), source: Box::new(error) };
    Ok((client.map_err(wrap)?, token))
}
