//! Makes the HTTP client of one kubelet: reads token, certificate and CA, and runs the program that makes tokens if
//! there is one. All of that may take long, so that it is another thread's work. Nothing is sent yet.

use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tower::{BoxError, ServiceExt as _};

use super::credentials::TokenFile;
use super::kubelet_error::KubeletError;
use crate::config::kubelet::KubeletSettings;

/// Bytes of an answer that are read at a time.
pub(super) const READ_BYTES: usize = 64 << 10;
/// How long an unused connection is kept; the kubelet closes it after 90 s.
const IDLE: Duration = Duration::from_secs(80);

/// What the client is made of.
pub(super) struct LinkMaker {
    /// Scheme, host and port.
    base: String,
    config: kube::Config,
}

impl LinkMaker {
    /// The API client's configuration with another server. None of its credentials go to a read-only port.
    pub(super) fn new(
        settings: &KubeletSettings,
        credentials: Option<&kube::Config>,
        base: &str,
    ) -> Result<Self, KubeletError> {
        let url = base.parse().map_err(|error: hyper::http::uri::InvalidUri| KubeletError::Connection {
            url: base.to_owned(),
            source: error.into(),
        })?;
        let mut config = kube::Config::new(url);
        if let Some(credentials) = credentials.filter(|_| settings.read_only_port.is_none()) {
            config.auth_info = credentials.auth_info.clone();
            config.headers.clone_from(&credentials.headers);
        }
        // None of the system's CAs counts: either the file's or no verification.
        config.root_cert = Some(Vec::new());
        config.root_cert_file.clone_from(&settings.ca_file);
        config.accept_invalid_certs = settings.ca_file.is_none();
        Ok(Self { base: base.to_owned(), config })
    }

    /// The client, and the file that its token came from.
    pub(super) fn make(mut self) -> Result<(kube::Client, Option<TokenFile>), KubeletError> {
        let refused = |source: BoxError| KubeletError::Credentials { url: self.base.clone(), source };
        let token = TokenFile::put_into(&mut self.config).map_err(|error| refused(error.into()))?;
        let config = &self.config;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = config.rustls_https_connector_with_connector(tcp).map_err(|error| {
            match &config.root_cert_file {
                Some(path) => KubeletError::CaFile { path: path.clone(), source: error.into() },
                None => refused(error.into()),
            }
        })?;
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .http1_max_buf_size(READ_BYTES)
            .build::<_, Body>(connector);
        let http = http.map_err(|error| -> BoxError { error.into() });
        let builder = ClientBuilder::new(http, "default");
        let headers = config.extra_headers_layer().map_err(|error| refused(error.into()))?;
        let builder = builder.with_layer(&headers);
        let client = match config.auth_layer().map_err(|error| refused(error.into()))? {
            Some(auth) => builder.with_layer(&auth).build(),
            None => builder.build(),
        };
        Ok((client, token))
    }
}
