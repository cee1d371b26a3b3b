//! Why the kubelet gave no answer that can be used.

use std::path::PathBuf;
use std::time::Duration;

use super::kubelet_endpoint::EndpointError;
use super::list_splitter::ListError;
use crate::api::kubelet_config::KubeletConfigError;

/// A request that did not succeed. What was known before it stays.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// The Node was not seen yet.
    #[error("the Node is not known yet, so neither is the kubelet's address")]
    NodeUnknown,
    /// The Node says too little.
    #[error("the kubelet's address is not known")]
    Endpoint(#[from] EndpointError),
    /// The credentials cannot be used.
    #[error("the credentials for the kubelet at {url} cannot be used")]
    Credentials {
        /// Scheme, host and port.
        url: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The CA's file cannot be used.
    #[error("the CA file {} of the kubelet cannot be used", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// No answer came.
    #[error("no answer from {url}")]
    Connection {
        /// What was asked for.
        url: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The answer broke off.
    #[error("the answer from {url} broke off")]
    Body {
        /// What was asked for.
        url: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kubelet refused.
    #[error("{url} answers {code}{hint}: {text}")]
    Status {
        /// What was asked for.
        url: String,
        /// Status code.
        code: u16,
        /// What an operator should look at; empty as a rule.
        hint: &'static str,
        /// Start of its answer.
        text: String,
    },
    /// It took too long.
    #[error("{url} did not answer in full within {timeout:?}")]
    Timeout {
        /// What was asked for.
        url: String,
        /// The limit.
        timeout: Duration,
    },
    /// Not a list of pods.
    #[error("the list of pods from {url} cannot be used")]
    List {
        /// What was asked for.
        url: String,
        /// The cause.
        #[source]
        source: ListError,
    },
    /// Another kubelet answers, at an address that was this node's.
    #[error("{url} lists the pods of {found}, not of this node")]
    AnotherNode {
        /// What was asked for.
        url: String,
        /// The node of one of the pods.
        found: String,
    },
    /// The configuration is longer than any.
    #[error("the kubelet's configuration from {url} is longer than {limit} bytes")]
    ConfigTooLong {
        /// What was asked for.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// It is none.
    #[error("the kubelet's configuration from {url} cannot be used")]
    Config {
        /// What was asked for.
        url: String,
        /// The cause.
        #[source]
        source: KubeletConfigError,
    },
}

impl KubeletError {
    /// The kinds, as the metrics page names them.
    pub const KINDS: [&'static str; 8] =
        ["node", "credentials", "connection", "body", "denied", "status", "timeout", "content"];

    /// Its kind, one of [`Self::KINDS`].
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NodeUnknown | Self::Endpoint(_) => "node",
            Self::Credentials { .. } | Self::CaFile { .. } => "credentials",
            Self::Connection { .. } => "connection",
            Self::Body { .. } => "body",
            Self::Status { code: 401 | 403, .. } => "denied",
            Self::Status { .. } => "status",
            Self::Timeout { .. } => "timeout",
            Self::List { .. }
            | Self::AnotherNode { .. }
            | Self::ConfigTooLong { .. }
            | Self::Config { .. } => "content",
        }
    }
}
