use std::path::Path;

use futures_util::StreamExt as _;
use kube::Api;
use kube::api::{DynamicObject, WatchParams};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

const SETTINGS: fn() -> KubeSettings = || KubeSettings {
    kubeconfig: None,
    qps: 100.0,
    burst: 100,
    config_namespace: "ns".to_owned(),
    config_name: "c".to_owned(),
};

#[expect(clippy::disallowed_methods, reason = "a test's own file")]
fn put(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// Serves one request a connection: the object for whoever bears `token`, else 401. The address is returned.
async fn serve(token: &'static str, body: String) -> String {
    serve_or_refuse(token, body, crate::kube::testing::status(401).to_string()).await
}

/// The same with this body for everybody else.
async fn serve_or_refuse(token: &'static str, body: String, refused: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).await.unwrap() == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            assert!(head.contains("user-agent: koordlet\r\n"), "{head}");
            let known = head.contains(&format!("authorization: Bearer {token}\r\n"));
            let (status, body) = if known { ("200 OK", &body) } else { ("401 Unauthorized", &refused) };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            // The client may have had enough.
            drop(stream.write_all(answer.as_bytes()).await);
        }
    });
    address
}

async fn api(dir: &Path, address: &str, stats: &Arc<ApiStats>) -> Api<DynamicObject> {
    let token = dir.join("token");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
         users: [{{name: u, user: {{tokenFile: {}}}}}]\n",
        token.display()
    );
    let path = dir.join("kubeconfig");
    put(&path, &text);
    let client = client(CredentialSource::File(path), &SETTINGS(), stats).await.unwrap();
    Api::all_with(client, &Kind::Node.resource())
}

#[tokio::test]
async fn a_token_that_was_replaced_is_read_at_the_first_refusal() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("token"), "first\n");
    let address = serve("second", crate::kube::testing::object("n1", 1).to_string()).await;
    let stats = Arc::default();
    let api = api(dir.path(), &address, &stats).await;
    let error = api.get("n1").await.unwrap_err();
    assert_eq!(Reason::of(&error), Reason::Unauthorized, "{error}");
    put(&dir.path().join("token"), "second\n");
    api.get("n1").await.unwrap();
    assert_eq!(
        stats.requests(Kind::Node, Verb::Get),
        3,
        "refused, refused again, and once more with the new token"
    );
    assert_eq!(stats.errors(Kind::Node, Reason::Unauthorized), 2);
    assert_eq!(stats.connects(), 2);
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("token"), "t");
    let address = serve("t", " ".repeat(MAX_ANSWER + 1)).await;
    let stats = Arc::default();
    let api = api(dir.path(), &address, &stats).await;
    let error = api.get("n1").await.unwrap_err();
    assert_eq!(Reason::of(&error), Reason::Connection, "{error}");
    assert_eq!(stats.errors(Kind::Node, Reason::Connection), 1);
}

/// An event that never ends filled the memory with 90 MiB a second.
#[tokio::test]
async fn an_event_without_end_is_given_up_and_many_that_have_one_are_not() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("token"), "t");
    let watch = async |body: String| {
        let address = serve("t", body).await;
        let api = api(dir.path(), &address, &Arc::default()).await;
        let events = api.watch(&WatchParams::default(), "1").await.unwrap();
        events.collect::<Vec<_>>().await
    };
    let filled = |bytes| {
        let mut object = crate::kube::testing::object("n1", 1);
        object["spec"] = serde_json::json!({"text": "x".repeat(bytes)});
        serde_json::json!({"type": "ADDED", "object": object}).to_string() + "\n"
    };
    let events = watch(filled(MAX_ANSWER / 4).repeat(5)).await;
    assert_eq!(events.iter().filter(|event| event.is_ok()).count(), 5);
    let events = watch(filled(10) + &filled(2 * MAX_ANSWER) + &filled(10)).await;
    let [Ok(_), Err(error)] = &events[..] else { panic!("{}", events.len()) };
    assert_eq!(Reason::of(error), Reason::Connection, "{error}");
    assert!(crate::error_chain::chain(error).contains("longer than 16 MiB"), "{error}");
}

/// kube collects the text of a refusal, all of it.
#[tokio::test]
async fn the_refusal_of_a_watch_has_an_end_too() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("token"), "t");
    let address = serve_or_refuse("another", String::new(), "x".repeat(MAX_ANSWER + 1)).await;
    let stats = Arc::default();
    let api = api(dir.path(), &address, &stats).await;
    assert!(api.watch(&WatchParams::default(), "1").await.is_err());
    assert_eq!(stats.errors(Kind::Node, Reason::Connection), 1, "it was not read to its end");
}

#[tokio::test]
async fn a_server_that_is_away_is_a_failed_connection() {
    let dir = tempfile::tempdir().unwrap();
    put(&dir.path().join("token"), "t");
    let stats = Arc::default();
    let api = api(dir.path(), "127.0.0.1:1", &stats).await;
    let error = api.get("n1").await.unwrap_err();
    assert_eq!(Reason::of(&error), Reason::Connection, "{error}");
}

#[test]
fn a_watch_that_ends_early_waits_longer_each_time_and_one_that_served_its_time_not_at_all() {
    let mut pace = WatchPace::default();
    let mut now = Duration::ZERO;
    let mut next = |lives: u64| {
        let wait = pace.wait(now, 1.0);
        now += wait;
        pace.started = Some(now);
        now += Duration::from_secs(lives);
        wait.as_secs()
    };
    let waits: Vec<_> = [1, 1, 1, 1, 60, 300, 1].map(&mut next).into();
    // Each wait follows from how long the watch before it lived.
    assert_eq!(waits, [0, 3, 6, 8, 8, 3, 0]);
}

#[test]
fn a_request_is_copied_whole() {
    let mut request =
        Request::patch("/api/v1/nodes/n").header("x", "y").body(Body::from(vec![1, 2])).unwrap();
    request.extensions_mut().insert("patch");
    let copy = copy(&request).unwrap();
    assert_eq!(
        (copy.method(), copy.uri(), copy.headers()),
        (request.method(), request.uri(), request.headers())
    );
    assert_eq!(copy.extensions().get(), Some(&"patch"));
}
