//! Why a request failed, as a label of few values.

use kube::Error;
use kube::runtime::watcher;

use super::transport::TransportError;

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// 401: the token is not good (any more).
    Unauthorized,
    /// 403: the RBAC rules do not allow it.
    Forbidden,
    /// 404: no such object, or no such kind.
    NotFound,
    /// 409: somebody else was first.
    Conflict,
    /// 410: the version to go on from is too old.
    Gone,
    /// 422 and 400: the object is refused.
    Invalid,
    /// 429: too many requests.
    TooMany,
    /// 5xx.
    Server,
    /// No connection, or it broke.
    Connection,
    /// No answer in time.
    Timeout,
    /// The answer cannot be read.
    Decode,
    /// Anything else.
    Other,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::Conflict,
        Self::Gone,
        Self::Invalid,
        Self::TooMany,
        Self::Server,
        Self::Connection,
        Self::Timeout,
        Self::Decode,
        Self::Other,
    ];

    /// Name of the label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Gone => "gone",
            Self::Invalid => "invalid",
            Self::TooMany => "too_many_requests",
            Self::Server => "server",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Decode => "decode",
            Self::Other => "other",
        }
    }

    /// By HTTP status; `None` for success.
    pub fn of_status(status: u16) -> Option<Self> {
        Some(match status {
            ..400 => return None,
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            409 => Self::Conflict,
            410 => Self::Gone,
            400 | 422 => Self::Invalid,
            429 => Self::TooMany,
            500.. => Self::Server,
            _ => Self::Other,
        })
    }

    /// Of a request.
    pub fn of(error: &Error) -> Self {
        match error {
            Error::Api(status) => Self::of_status(status.code).unwrap_or(Self::Other),
            Error::SerdeError(_) | Error::FromUtf8(_) | Error::LinesCodecMaxLineLengthExceeded => {
                Self::Decode
            }
            Error::HyperError(_) | Error::ReadEvents(_) => Self::Connection,
            Error::Service(cause) => cause.downcast_ref().map_or(Self::Connection, TransportError::reason),
            _ => Self::Other,
        }
    }

    /// Of a watcher.
    pub fn of_watch(error: &watcher::Error) -> Self {
        match error {
            watcher::Error::InitialListFailed(cause)
            | watcher::Error::WatchStartFailed(cause)
            | watcher::Error::WatchFailed(cause) => Self::of(cause),
            watcher::Error::WatchError(status) => Self::of_status(status.code).unwrap_or(Self::Other),
            watcher::Error::NoResourceVersion => Self::Decode,
        }
    }
}
