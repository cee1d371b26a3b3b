use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener as StdListener;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::*;
use crate::report::connections::{Crowd, serve};
use crate::state::hub::{Writers, hub};

/// A socket whose agent has nothing to explain and restores one path.
fn start(dir: &TempDir) -> (PathBuf, AdminSocket, Writers) {
    let path = dir.path().join("admin.sock");
    let (listener, socket) = bind_socket(&path).unwrap();
    let (writers, readers) = hub();
    let (asks, mut receiver) = mpsc::channel(1);
    let pages = AdminPages { asks, readers };
    tokio::spawn(serve(listener, Crowd::Wait, move |request| pages.clone().answer(request)));
    tokio::spawn(async move {
        while let Some(ask) = receiver.recv().await {
            match ask {
                AdminAsk::Explain(reply) => reply.send(Ok(Vec::new())).unwrap(),
                AdminAsk::Restore(reply) => {
                    let report = RestoreReport { restored: vec!["/x".into()], ..RestoreReport::default() };
                    reply.send(Ok(report)).unwrap();
                }
            }
        }
    });
    (path, socket, writers)
}

async fn exchange(path: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn ask(path: &Path, method: &str, target: &str) -> String {
    exchange(path, &format!("{method} {target} HTTP/1.1\r\nhost: a\r\n\r\n")).await
}

#[tokio::test]
async fn the_socket_explains_and_restores() {
    let dir = TempDir::new().unwrap();
    let (path, _socket, _writers) = start(&dir);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let all = ask(&path, "GET", "/explain").await;
    assert!(all.starts_with("HTTP/1.1 200") && all.ends_with("{\"targets\":[]}"), "{all}");
    let unknown = ask(&path, "GET", "/explain?target=a/b").await;
    assert!(unknown.starts_with("HTTP/1.1 404") && unknown.contains("a/b"), "{unknown}");
    assert!(ask(&path, "GET", "/explain?target=%zz").await.starts_with("HTTP/1.1 400"));
    let restored = ask(&path, "POST", "/restore").await;
    assert!(restored.ends_with("{\"restored\":[\"/x\"],\"gone\":[],\"failed\":[]}"), "{restored}");
    assert!(ask(&path, "GET", "/restore").await.starts_with("HTTP/1.1 405"));
    let state = ask(&path, "GET", "/state").await;
    assert!(state.contains("\"ready\":false") && state.contains("missing"), "{state}");
    assert!(ask(&path, "GET", "/else").await.starts_with("HTTP/1.1 404"));
}

#[tokio::test]
async fn a_request_that_is_no_http_is_answered_and_others_go_on() {
    let dir = TempDir::new().unwrap();
    let (path, _socket, _writers) = start(&dir);
    let idle = UnixStream::connect(&path).await.unwrap();
    assert!(exchange(&path, "\0\0 nonsense\r\n\r\n").await.contains("400"));
    // A head beyond all bounds: the answer may be lost in the reset, the server is not.
    let mut huge = UnixStream::connect(&path).await.unwrap();
    huge.write_all(format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(40_000)).as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    assert!(huge.read_to_end(&mut rest).await.is_err() || rest.starts_with(b"HTTP/1.1 4"));
    assert!(ask(&path, "GET", "/explain").await.contains("targets"));
    drop(idle);
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_or_a_file_is_not() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("admin.sock");
    drop(StdListener::bind(&path).unwrap());
    assert!(path.exists());
    let (_listener, socket) = bind_socket(&path).unwrap();
    assert!(bind_socket(&path).unwrap_err().to_string().contains("another agent"));
    drop(socket);
    assert!(!path.exists());
    let (_first, one) = bind_socket(&path).unwrap();
    assert!(one.is_in_place());
    std::fs::remove_file(&path).unwrap();
    assert!(!one.is_in_place());
    let (_second, other) = bind_socket(&path).unwrap();
    drop(one);
    assert!(other.is_in_place(), "the socket of another agent stays");
    drop(other);
    std::fs::create_dir(&path).unwrap();
    assert!(bind_socket(&path).unwrap_err().to_string().contains("not a socket"));
    assert!(bind_socket(&dir.path().join("x".repeat(200))).is_err());
}
