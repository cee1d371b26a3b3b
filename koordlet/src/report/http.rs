//! The TCP address: metrics, health, and the audit log where it is asked for. No explanations here, they name what
//! runs on the node (design.md 5).

use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderMap, HeaderValue, VARY};
use hyper::{Method, Request, StatusCode};
use tokio::net::TcpListener;

use super::audit::page::EventsPage;
use super::connections::{self, Answer, text};
use super::metrics::{Format, Metrics, Scope};
use super::shared_page::SharedPages;
use crate::config::ListenAddr;
use crate::state::hub::Readers;

/// What the paths show.
#[derive(Clone, Debug)]
pub struct Pages {
    /// Series.
    pub metrics: Arc<Metrics>,
    /// Pages of series that are being read.
    pub shared: Arc<SharedPages<(Format, Scope)>>,
    /// Snapshots, for readiness.
    pub readers: Readers,
    /// The audit log, if it is served (gate AuditEventsHTTPHandler).
    pub events: Option<EventsPage>,
}

impl Pages {
    /// Answers one request.
    pub async fn answer(self, request: Request<Incoming>) -> Answer {
        if let ("/events", Some(events)) = (request.uri().path(), &self.events) {
            let query = request.uri().query().unwrap_or_default();
            return events.answer(request.method(), query, request.headers()).await;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        }
        self.page(request.uri().path(), request.headers()).await
    }

    async fn page(&self, path: &str, headers: &HeaderMap) -> Answer {
        match path {
            "/metrics" => self.metrics(Scope::All, headers).await,
            "/internal-metrics" => self.metrics(Scope::Internal, headers).await,
            "/external-metrics" => self.metrics(Scope::External, headers).await,
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => {
                let readiness = self.readers.readiness();
                let status =
                    if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                text(status, readiness.to_string())
            }
            _ => text(
                StatusCode::NOT_FOUND,
                "there are /metrics, /internal-metrics, /external-metrics, /healthz and /readyz\n",
            ),
        }
    }

    /// Written by another thread: a thousand containers make a page of milliseconds, and the agent's loop shares
    /// this one. They also make one of 9 MiB, which slow readers share.
    async fn metrics(&self, scope: Scope, headers: &HeaderMap) -> Answer {
        let accept = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
        let format = Format::asked_for(accept);
        let metrics = Arc::clone(&self.metrics);
        let Ok(page) = self.shared.get((format, scope), move || metrics.page(format, scope)).await else {
            return text(StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be written\n");
        };
        let mut page = connections::page(format.content_type(), page);
        page.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        page
    }
}

/// Listens on `addr`; without a host on every address of both families.
pub async fn listen(addr: &ListenAddr) -> io::Result<TcpListener> {
    match &addr.host {
        Some(host) => TcpListener::bind((host.as_str(), addr.port)).await,
        None => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, addr.port)).await {
            Ok(listener) => Ok(listener),
            // No IPv6 on this host, most likely; else the same error comes again.
            Err(_) => TcpListener::bind(("0.0.0.0", addr.port)).await,
        },
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::report::metrics::Gated;
    use crate::state::facts::Facts;
    use crate::state::hub::hub;
    use crate::state::pods::PodTable;

    async fn get(pages: &Pages, path: &str) -> (u16, String) {
        let answer = pages.page(path, &HeaderMap::new()).await;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_paths_answer_with_what_is_known() {
        let (writers, readers) = hub();
        let metrics = Arc::new(Metrics::new("n1", &readers, &Facts::default(), Gated::default()));
        let pages = Pages { metrics, shared: Arc::default(), readers, events: None };
        assert_eq!(get(&pages, "/healthz").await, (200, "ok\n".to_owned()));
        let (status, body) = get(&pages, "/readyz").await;
        assert!(status == 503 && body.contains("missing pods"), "{body}");
        writers.pods.set(Arc::new(PodTable { synced: true, ..PodTable::default() }));
        assert!(!get(&pages, "/readyz").await.1.contains("missing pods"));
        for path in ["/metrics", "/internal-metrics"] {
            assert!(get(&pages, path).await.1.contains("koordlet_start_time{node=\"n1\"}"));
        }
        assert_eq!(get(&pages, "/external-metrics").await.0, 200);
        assert_eq!(get(&pages, "/explain").await.0, 404);
    }

    #[tokio::test]
    async fn it_listens_on_every_address_and_on_one() {
        let every = listen(&ListenAddr { host: None, port: 0 }).await.unwrap();
        assert_ne!(every.local_addr().unwrap().port(), 0);
        let one = listen(&ListenAddr { host: Some("127.0.0.1".into()), port: 0 }).await.unwrap();
        let port = one.local_addr().unwrap().port();
        let taken = listen(&ListenAddr { host: Some("127.0.0.1".into()), port }).await;
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
