use std::path::Path;

use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::watch;

use super::*;
use crate::report::audit::AuditWriter;
use crate::report::audit::event::{Event, Level};

fn settings(dir: &Path) -> AuditSettings {
    AuditSettings {
        enabled: true,
        http: true,
        dir: dir.to_owned(),
        verbose: 3,
        max_disk_mib: 16,
        max_readers: 2,
        max_events: 2048,
    }
}

struct Rig {
    _folder: tempfile::TempDir,
    writer: AuditWriter,
    page: EventsPage,
}

/// Status, token, content type, body.
type Seen = (u16, Option<String>, String, String);

impl Rig {
    fn new(events: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path());
        let writer = AuditWriter::start(&settings, watch::channel(Arc::default()).1).unwrap();
        for n in 0..events {
            writer.log().record(Level::EVICTION, Event::evicted("shop", &n.to_string(), String::new()));
        }
        let page = EventsPage::new(&settings, Some(writer.log().clone()));
        Self { _folder: folder, writer, page }
    }

    async fn get(&self, query: &str, accept: Option<&str>) -> Seen {
        get(&self.page, query, accept).await
    }
}

async fn get(page: &EventsPage, query: &str, accept: Option<&str>) -> Seen {
    let mut headers = HeaderMap::new();
    if let Some(accept) = accept {
        headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
    }
    let answer = page.answer(&Method::GET, query, &headers).await;
    let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (status, token) = (answer.status().as_u16(), header(TOKEN_HEADER));
    let content_type = header("content-type").unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, token, content_type, String::from_utf8(body.to_vec()).unwrap())
}

fn names(events: &str) -> Vec<usize> {
    let of = |line: &str| serde_json::from_str::<Event>(line).unwrap().name.parse().unwrap();
    events.lines().map(of).collect()
}

#[tokio::test]
async fn text_pages_follow_each_other_until_the_token_is_empty() {
    let rig = Rig::new(5);
    let (status, token, content_type, body) = rig.get("size=3", None).await;
    assert_eq!((status, content_type.as_str()), (200, "text/plain; charset=utf-8"));
    assert_eq!(names(&body), [4, 3, 2]);
    let token = token.unwrap();
    assert_eq!(token.len(), 36);
    // Newer events are none of this reader's.
    rig.writer.log().record(Level::EVICTION, Event::evicted("shop", "9", String::new()));
    let (_, end, _, body) = rig.get(&format!("pageToken={token}&size=9"), Some("text/html")).await;
    assert_eq!((end.as_deref(), names(&body)), (Some(""), vec![1, 0]));
    assert_eq!(rig.get(&format!("pageToken={token}"), None).await.0, 409, "it is at its end");
    let first = rig.get("size=1", None).await;
    assert_eq!(names(&first.3), [9], "written although nobody waited for it");
}

#[tokio::test]
async fn json_is_answered_to_exactly_one_accept() {
    let rig = Rig::new(2);
    let (status, token, content_type, body) = rig.get("size=1", Some("application/json")).await;
    assert_eq!((status, token, content_type.as_str()), (200, None, "application/json; charset=utf-8"));
    let value: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(value["Events"][0]["name"], "1");
    let token = value["NextPageToken"].as_str().unwrap();
    let last = rig.get(&format!("pageToken={token}"), Some("application/json")).await.3;
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!((&last["NextPageToken"], last["Events"].as_array().unwrap().len()), (&"".into(), 1));
    for accept in ["application/json, text/plain", "Application/JSON", "*/*"] {
        assert!(rig.get("", Some(accept)).await.2.starts_with("text/plain"), "{accept}");
    }
}

#[tokio::test]
async fn an_empty_log_has_a_token_and_an_empty_list() {
    let rig = Rig::new(0);
    let (status, token, _, body) = rig.get("", None).await;
    assert_eq!((status, token.as_deref(), body.as_str()), (200, Some(""), ""));
    let json = rig.get("", Some("application/json")).await.3;
    assert_eq!(json, r#"{"NextPageToken":"","Events":[]}"#);
}

#[tokio::test]
async fn collection_row_77_and_defect_17_statuses() {
    let rig = Rig::new(300);
    assert_eq!(names(&rig.get("size=abc", None).await.3).len(), 256);
    assert_eq!(rig.get("size=2048", None).await.0, 200);
    for query in ["size=2049", "size=-1", "size=99999999999999999999", "size=%", "size=1&size=2"] {
        let (status, token, _, body) = rig.get(query, Some("application/json")).await;
        assert_eq!((status, token), (400, None), "{query}: {body}");
    }
    let (status, token, _, body) = rig.get("pageToken=unknown", Some("application/json")).await;
    assert_eq!((status, token, body.lines().count()), (409, None, 1), "{body}");
    let answer = rig.page.answer(&Method::POST, "", &HeaderMap::new()).await;
    assert_eq!(answer.status(), 405);
}

#[tokio::test]
async fn there_are_only_so_many_readers_and_the_oldest_one_goes() {
    let rig = Rig::new(10);
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(rig.get("size=1", None).await.1.unwrap());
    }
    let mut statuses = Vec::new();
    for token in &tokens {
        statuses.push(rig.get(&format!("size=1&pageToken={token}"), None).await.0);
    }
    assert_eq!(statuses, [409, 200, 200]);
}

#[tokio::test]
async fn without_a_log_the_page_is_empty_and_bad_queries_are_still_bad() {
    let folder = tempfile::tempdir().unwrap();
    let page = EventsPage::new(&settings(folder.path()), None);
    assert_eq!((get(&page, "", None).await.0, get(&page, "", None).await.3), (200, String::new()));
    assert_eq!(get(&page, "size=-1", None).await.0, 400);
}
