//! kube's own client, made anew when its credentials were refused, when the token file holds another token, and
//! now and then while the server cannot be reached: a certificate or the server's address may have changed, too.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::attempt::{Attempt, AttemptError};
use super::credentials::{CredentialError, CredentialSource, Credentials, TokenFile};
use super::stats::ApiStats;
use crate::error_chain::chain;

/// How often the token file is looked at.
const TOKEN_LOOK: Duration = Duration::from_secs(10);
/// Least age at which refused credentials are read again.
const AFTER_REFUSAL: Duration = Duration::from_secs(5);
/// Least age at which credentials are read again because the server cannot be reached.
const AFTER_FAILURE: Duration = Duration::from_mins(1);

/// How long the credentials are waited for: a kubeconfig may name a program that makes tokens, and asks another server
/// for them. After that the ones before stay in use until the new ones come.
const PATIENCE: Duration = Duration::from_secs(10);

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
    /// They do not come, or not yet.
    #[error("the credentials of {of} are not to be had")]
    Attempt {
        /// Where they are.
        of: CredentialSource,
        /// What is wrong.
        #[source]
        source: AttemptError,
    },
}

/// The client in use.
#[derive(Debug)]
pub(super) struct Connection {
    source: CredentialSource,
    stats: Arc<ApiStats>,
    patience: Duration,
    state: Mutex<State>,
}

/// A client, and the token file that its token came from.
type Made = (Client, Option<TokenFile>);

struct State {
    client: Client,
    token: Option<TokenFile>,
    made: Instant,
    looked: Instant,
    renewal: Attempt<Result<Made, ConnectError>>,
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
        let (client, token) = connect(&source, PATIENCE, &mut Attempt::default()).await?;
        stats.connected();
        let now = Instant::now();
        let state = State { client, token, made: now, looked: now, renewal: Attempt::default(), told: None };
        Ok(Self { source, stats, patience: PATIENCE, state: Mutex::new(state) })
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
        match connect(&self.source, self.patience, &mut state.renewal).await {
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

/// Credentials as they are now, read by another thread.
///
/// # Errors
/// Those that cannot be used, or do not come.
pub async fn load(source: &CredentialSource) -> Result<Credentials, ConnectError> {
    let (of, runtime) = (source.clone(), Handle::current());
    let loaded = Attempt::default().run(PATIENCE, move || runtime.block_on(of.load())).await;
    Ok(loaded.map_err(|error| ConnectError::Attempt { of: source.clone(), source: error })??)
}

async fn connect(
    source: &CredentialSource,
    patience: Duration,
    attempt: &mut Attempt<Result<Made, ConnectError>>,
) -> Result<Made, ConnectError> {
    let (of, runtime) = (source.clone(), Handle::current());
    // kube waits for the program that makes tokens, if there is one.
    let make = move || {
        let Credentials { config, token } = runtime.block_on(of.load())?;
        let made = {
            let _inside = runtime.enter();
            Client::try_from(config)
        };
        Ok((made.map_err(|error| ConnectError::Client { of, source: Box::new(error) })?, token))
    };
    let made = attempt.run(patience, make).await;
    made.map_err(|error| ConnectError::Attempt { of: source.clone(), source: error })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_hangs_leaves_the_client_that_there_is() {
        let dir = tempfile::tempdir().unwrap();
        let (path, hangs, runs) =
            (dir.path().join("kubeconfig"), dir.path().join("hangs"), dir.path().join("runs"));
        let program = format!(
            r#"echo >> {}; while [ -e {} ]; do sleep 0.1; done; echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "t"}}}}'"#,
            runs.display(),
            hangs.display()
        );
        let user = serde_json::json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
                                               "args": ["-c", program], "interactiveMode": "Never"}});
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:1'}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        );
        put(&path, &text);
        let stats = Arc::<ApiStats>::default();
        let mut connection = Connection::new(CredentialSource::File(path), Arc::clone(&stats)).await.unwrap();
        connection.patience = Duration::from_millis(1);
        // kube runs it for each thing that may be in its answer.
        let runs_of_one = std::fs::read_to_string(&runs).unwrap();
        put(&hangs, "");
        for _ in 0..50 {
            assert!(!connection.refused_after_a_while().await, "there is nothing new to ask with");
            connection.client().await;
        }
        assert_eq!(stats.connects(), 1);
        std::fs::remove_file(&hangs).unwrap();
        while !connection.refused_after_a_while().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(stats.connects(), 2);
        assert_eq!(std::fs::read_to_string(&runs).unwrap(), runs_of_one.repeat(2), "not for each request");
    }

    impl Connection {
        async fn refused_after_a_while(&self) -> bool {
            self.state.lock().await.made -= AFTER_REFUSAL;
            self.refused().await
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    fn put(path: &std::path::Path, text: &str) {
        std::fs::write(path, text).unwrap();
    }
}
