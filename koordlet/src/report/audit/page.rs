//! `GET /events`, collection.md 13.2: pages of the log as text or JSON. Files are read on another thread, one
//! request at a time.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{ACCEPT, HeaderMap, HeaderValue};
use hyper::{Method, StatusCode};
use tokio::sync::Semaphore;

use super::AuditLog;
use super::query::{EventsQuery, uuid};
use super::reader::Page;
use super::readers::{ReaderTable, SharedReader};
use crate::config::audit::AuditSettings;
use crate::report::connections::{Answer, answer, text};

/// How long a first page waits for the newest events to be in the file.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);
/// Between two looks for readers that have expired.
const SWEEP: Duration = Duration::from_mins(1);
/// Header with the token, in text answers.
const TOKEN_HEADER: &str = "next-page-token";

/// The page. Clone freely.
#[derive(Clone)]
pub struct EventsPage {
    /// `None`: nothing is logged.
    log: Option<AuditLog>,
    dir: PathBuf,
    max_events: usize,
    readers: Arc<Mutex<ReaderTable>>,
    turn: Arc<Semaphore>,
    /// Whether a task looks after expired readers.
    sweeping: Arc<AtomicBool>,
}

/// Why a page cannot be shown.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("no random token can be had: {0}")]
    Token(getrandom::Error),
    #[error("no reader has this token, or it expired: begin anew without a token")]
    UnknownToken,
    #[error("the audit log cannot be read: {0}")]
    Read(io::Error),
    #[error("the agent is stopping")]
    Stopping,
}

impl PageError {
    fn status(&self) -> StatusCode {
        match self {
            Self::UnknownToken => StatusCode::CONFLICT,
            Self::Token(_) | Self::Read(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl EventsPage {
    /// The page of a log; without one (gate AuditEvents off) it is empty.
    pub fn new(settings: &AuditSettings, log: Option<AuditLog>) -> Self {
        Self {
            log,
            dir: settings.dir.clone(),
            max_events: settings.max_events,
            readers: Arc::new(Mutex::new(ReaderTable::new(settings.max_readers))),
            turn: Arc::new(Semaphore::new(1)),
            sweeping: Arc::default(),
        }
    }

    /// Answers one request.
    pub async fn answer(&self, method: &Method, query: &str, headers: &HeaderMap) -> Answer {
        if *method != Method::GET {
            return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
        }
        let query = match EventsQuery::parse(query, self.max_events) {
            Ok(query) => query,
            Err(error) => return text(StatusCode::BAD_REQUEST, format!("{error}\n")),
        };
        let Some(log) = &self.log else { return text(StatusCode::OK, "") };
        match self.page(log, query).await {
            Ok((token, page)) => show(&token, &page, wants_json(headers)),
            Err(error) => text(error.status(), format!("{error}\n")),
        }
    }

    /// A page and the token for the next one, empty if it is the last.
    async fn page(&self, log: &AuditLog, query: EventsQuery) -> Result<(String, Page), PageError> {
        // One at a time, also where the client has gone away and the reading goes on.
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|_| PageError::Stopping)?;
        let (token, reader, fresh) = self.reader(query.token)?;
        let (log, size) = (log.clone(), query.size);
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            if fresh {
                log.flush(FLUSH_LIMIT);
            }
            reader.lock().unwrap_or_else(PoisonError::into_inner).page(size)
        });
        let page = match reading.await {
            Ok(Ok(page)) => page,
            Ok(Err(error)) => {
                self.lock().remove(&token);
                return Err(PageError::Read(error));
            }
            Err(_) => return Err(PageError::Stopping),
        };
        if page.is_last {
            self.lock().remove(&token);
            return Ok((String::new(), page));
        }
        Ok((token, page))
    }

    /// The reader of a token, or a new one, and whether it is new.
    fn reader(&self, token: Option<String>) -> Result<(String, SharedReader, bool), PageError> {
        let now = Instant::now();
        if let Some(token) = token {
            let reader = self.lock().get(&token, now).ok_or(PageError::UnknownToken)?;
            return Ok((token, reader, false));
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(PageError::Token)?;
        let token = uuid(random);
        let reader = self.lock().add(token.clone(), &self.dir, now);
        if !self.sweeping.swap(true, Ordering::AcqRel) {
            self.sweep_while_there_are_readers();
        }
        Ok((token, reader, true))
    }

    /// A reader holds a file, so that it must not be forgotten until somebody asks again.
    fn sweep_while_there_are_readers(&self) {
        let page = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                let mut readers = page.lock();
                if readers.sweep(Instant::now()) == 0 {
                    // Under the lock: whoever adds a reader from now on starts a task anew.
                    page.sweeping.store(false, Ordering::Release);
                    return;
                }
            }
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ReaderTable> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for EventsPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventsPage").field("dir", &self.dir).finish_non_exhaustive()
    }
}

fn wants_json(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT).is_some_and(|accept| accept.as_bytes() == b"application/json")
}

/// Lines are events as they stand in the file: each is one JSON object.
fn show(token: &str, page: &Page, json: bool) -> Answer {
    if json {
        let mut body = format!("{{\"NextPageToken\":\"{token}\",\"Events\":[").into_bytes();
        body.extend_from_slice(&page.lines.join(&b','));
        body.extend_from_slice(b"]}");
        return answer(StatusCode::OK, "application/json; charset=utf-8", body);
    }
    let mut body = page.lines.join(&b'\n');
    if !body.is_empty() {
        body.push(b'\n');
    }
    let mut answer = text(StatusCode::OK, body);
    if let Ok(token) = HeaderValue::from_str(token) {
        answer.headers_mut().insert(TOKEN_HEADER, token);
    }
    answer
}

#[cfg(test)]
mod tests;
