//! Where the API server is and how to log in: `--kubeconfig`, `KUBECONFIG`, the pod's service account,
//! `~/.kube/config`, in this order (collection.md 1.2).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::header::{HeaderValue, USER_AGENT};
use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use secrecy::{ExposeSecret as _, SecretString};

use crate::host::text_file;

/// How long a connection may take to come about.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Name under which the agent asks, collection.md 1.2.
const AGENT: &str = "koordlet";

/// Where the credentials are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// `--kubeconfig`, or the one in the home directory.
    File(PathBuf),
    /// `KUBECONFIG`, which may name several files.
    Environment,
    /// The pod's service account.
    InCluster,
}

/// What the search looks at, so that tests need no environment.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Whether `KUBECONFIG` names a file.
    pub kubeconfig: bool,
    /// Whether `KUBERNETES_SERVICE_HOST` and `_PORT` are set, as in a pod.
    pub in_cluster: bool,
    /// `~/.kube/config`, if there is one.
    pub home: Option<PathBuf>,
}

impl Surroundings {
    /// The process's own.
    pub fn of_process() -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let home = std::env::home_dir().map(|home| home.join(".kube/config"));
        Self {
            kubeconfig: is_set("KUBECONFIG"),
            in_cluster: is_set("KUBERNETES_SERVICE_HOST") && is_set("KUBERNETES_SERVICE_PORT"),
            home: home.filter(|file| file.is_file()),
        }
    }
}

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// A kubeconfig.
    #[error("cannot use the kubeconfig of {of}")]
    Kubeconfig {
        /// Where it is.
        of: CredentialSource,
        /// The cause.
        #[source]
        source: KubeconfigError,
    },
    /// The service account.
    #[error("cannot use the pod's service account")]
    InCluster(#[from] InClusterError),
    /// A token file.
    #[error("cannot read the token in {}", .path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A token.
    #[error("the token of {of} is none: it is empty, or has characters that none has")]
    NoToken {
        /// Where it is.
        of: String,
    },
}

/// A configuration for kube, and the token file that it came from.
#[derive(Debug)]
pub struct Credentials {
    /// For kube, with the token in it.
    pub config: Config,
    /// Its token file.
    pub token: Option<TokenFile>,
}

/// A file with a token, which others replace before the token expires.
#[derive(Clone)]
pub struct TokenFile {
    path: PathBuf,
    text: String,
}

impl TokenFile {
    /// Puts a token where kube looks for it: what its token file holds, unless it has one already. kube itself would
    /// read the file again and again, whatever lies there, and wait for it. The file that it came from is the answer.
    pub(super) fn put_into(config: &mut Config) -> Result<Option<Self>, CredentialError> {
        let auth = &mut config.auth_info;
        let file = auth.token_file.take().filter(|_| auth.token.is_none());
        let file = file.map(|path| Self::read(path.into())).transpose()?;
        if let Some(file) = &file {
            auth.token = Some(file.text.clone().into());
        }
        Ok(file)
    }

    /// The file in place of the token, for whoever calls [`put_into`](Self::put_into) later.
    pub fn put_back(&self, config: &mut Config) {
        config.auth_info.token = None;
        config.auth_info.token_file = Some(self.path.to_string_lossy().into_owned());
    }

    fn read(path: PathBuf) -> Result<Self, CredentialError> {
        match text_file::read(&path) {
            // An editor's line end is no part of the token.
            Ok(text) if is_token(text.trim()) => Ok(Self { path, text: text.trim().to_owned() }),
            Ok(_) => Err(CredentialError::NoToken { of: path.display().to_string() }),
            Err(source) => Err(CredentialError::Token { path, source }),
        }
    }

    /// Whether there is another token in it now. A file that cannot be read has no news.
    pub fn has_changed(&self) -> bool {
        text_file::read(&self.path).is_ok_and(|text| is_token(text.trim()) && text.trim() != self.text)
    }
}

/// Whether a text can be sent as a token; kube panics over one that cannot.
fn is_token(text: &str) -> bool {
    !text.is_empty() && HeaderValue::from_str(text).is_ok()
}

impl fmt::Debug for TokenFile {
    /// Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl CredentialSource {
    /// The first there is.
    pub fn find(flag: Option<&Path>, around: &Surroundings) -> Option<Self> {
        if let Some(path) = flag {
            return Some(Self::File(path.to_owned()));
        }
        if around.kubeconfig {
            return Some(Self::Environment);
        }
        if around.in_cluster {
            return Some(Self::InCluster);
        }
        around.home.clone().map(Self::File)
    }

    /// Reads them, anew each time: all of this can change while the agent runs.
    pub async fn load(&self) -> Result<Credentials, CredentialError> {
        let mut config = match self {
            Self::InCluster => Config::incluster()?,
            Self::File(path) => self.of_kubeconfig(Kubeconfig::read_from(path)).await?,
            Self::Environment => {
                self.of_kubeconfig(Kubeconfig::from_env().map(Option::unwrap_or_default)).await?
            }
        };
        self.check_token(config.auth_info.token.as_ref())?;
        let token = TokenFile::put_into(&mut config)?;
        config.connect_timeout = Some(CONNECT_TIME);
        // Retries are this room's own, with jitter and an end.
        config.default_retry = false;
        config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
        Ok(Credentials { config, token })
    }

    fn check_token(&self, token: Option<&SecretString>) -> Result<(), CredentialError> {
        match token {
            Some(token) if !is_token(token.expose_secret()) => {
                Err(CredentialError::NoToken { of: self.to_string() })
            }
            _ => Ok(()),
        }
    }

    async fn of_kubeconfig(
        &self,
        read: Result<Kubeconfig, KubeconfigError>,
    ) -> Result<Config, CredentialError> {
        let wrap = |source| CredentialError::Kubeconfig { of: self.clone(), source };
        Config::from_custom_kubeconfig(read.map_err(wrap)?, &KubeConfigOptions::default()).await.map_err(wrap)
    }
}

impl fmt::Display for CredentialSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment => f.write_str("the environment variable KUBECONFIG"),
            Self::InCluster => f.write_str("the pod's service account"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::error_chain::chain;

    #[test]
    fn the_first_source_counts() {
        let all =
            Surroundings { kubeconfig: true, in_cluster: true, home: Some("/root/.kube/config".into()) };
        let find = |flag: Option<&str>, around: &Surroundings| {
            CredentialSource::find(flag.map(Path::new), around).map(|source| source.to_string())
        };
        assert_eq!(find(Some("/etc/kc"), &all).as_deref(), Some("/etc/kc"));
        assert_eq!(find(None, &all).as_deref(), Some("the environment variable KUBECONFIG"));
        let pod = Surroundings { kubeconfig: false, ..all.clone() };
        assert_eq!(find(None, &pod).as_deref(), Some("the pod's service account"));
        let shell = Surroundings { in_cluster: false, ..pod };
        assert_eq!(find(None, &shell).as_deref(), Some("/root/.kube/config"));
        assert_eq!(find(None, &Surroundings::default()), None);
    }

    fn kubeconfig(dir: &Path, user: &str) -> CredentialSource {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        );
        let path = dir.join("kubeconfig");
        put(&path, &text);
        CredentialSource::File(path)
    }

    #[expect(clippy::disallowed_methods, reason = "a test's own file")]
    fn put(path: &Path, text: &str) {
        fs::write(path, text).unwrap();
    }

    #[tokio::test]
    async fn a_token_file_is_read_without_its_line_end_and_watched_for_another() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        put(&file, "first\n");
        let source = kubeconfig(dir.path(), &format!("{{tokenFile: {}}}", file.display()));
        let credentials = source.load().await.unwrap();
        let token = credentials.token.unwrap();
        assert_eq!(token.text, "first");
        assert!(!format!("{token:?}").contains("first"), "a token is never shown");
        assert!(!token.has_changed());
        put(&file, "second\n");
        assert!(token.has_changed());
        put(&file, "");
        assert!(!token.has_changed(), "half written");
        put(&file, "third\nfourth\u{1}");
        assert!(!token.has_changed(), "nothing that can be sent");
    }

    /// kube would wait for a FIFO, read a device to its end, and panic over a token that is no header.
    #[tokio::test]
    async fn whatever_lies_where_the_token_should_be_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let source = kubeconfig(dir.path(), &format!("{{tokenFile: {}}}", file.display()));
        put(&file, "good");
        let good = source.load().await.unwrap().token.unwrap();
        let make: [(&str, &dyn Fn()); 5] = [
            ("empty", &|| put(&file, " \n")),
            ("no header", &|| put(&file, "to\nken")),
            ("a folder", &|| fs::create_dir(&file).unwrap()),
            ("a FIFO", &|| nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap()),
            ("without an end", &|| std::os::unix::fs::symlink("/dev/zero", &file).unwrap()),
        ];
        for (what, make) in make {
            fs::remove_file(&file).or_else(|_| fs::remove_dir(&file)).unwrap();
            make();
            assert!(!good.has_changed(), "{what}");
            let error = chain(&source.load().await.unwrap_err());
            assert!(error.contains(&*file.to_string_lossy()), "{what}: {error}");
        }
        let inline = kubeconfig(dir.path(), r#"{token: "to\nken"}"#).load().await.unwrap_err();
        assert!(chain(&inline).contains("/kubeconfig is none"), "{}", chain(&inline));
    }

    #[tokio::test]
    async fn what_is_wrong_with_credentials_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let missing = CredentialSource::File(dir.path().join("none")).load().await.unwrap_err();
        assert!(chain(&missing).contains("/none"), "{}", chain(&missing));
        let source = kubeconfig(dir.path(), "{tokenFile: /nowhere/token}");
        let error = source.load().await.unwrap_err();
        assert!(chain(&error).contains("/nowhere/token: No such file"), "{}", chain(&error));
    }
}
