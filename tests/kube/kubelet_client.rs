//! The client against a stand-in that checks and fails: credentials, certificates, limits, what is told.

use std::io::Write as _;
use std::time::Duration;

use kit::StandInKubelet;
use kit::kubelet::Manner;
use koordlet::kube::kubelet::{CONFIGZ, PODS};
use koordlet::kube::kubelet_error::KubeletError;
use koordlet::kube::pod_list::PodMap;

use crate::kubelet_rig::{client, settings, token, token_file};

fn write_token(file: &mut std::fs::File, token: &str) {
    use std::io::Seek as _;
    file.rewind().unwrap();
    file.write_all(token.as_bytes()).unwrap();
}

#[tokio::test]
async fn two_hundred_pods_come_over_one_connection() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    kubelet.set_pods(200, 5);
    let client = client(&kubelet, settings(), Some(token("secret")));
    let mut known = PodMap::new();
    for _ in 0..3 {
        let list = client.pods(&known).await.unwrap();
        assert_eq!((list.pods.len(), list.refused_count), (200, 0));
        assert_eq!(list.is_same(&known), !known.is_empty());
        known = list.pods;
    }
    assert_eq!(client.configz().await.unwrap().cpu_manager_policy, "static");
    assert_eq!((kubelet.requests(), kubelet.connections(), kubelet.denied()), (4, 1, 0));
    let answers: Vec<_> =
        client.stats().answers().into_iter().map(|(path, code, times)| (path, code, times.count())).collect();
    assert_eq!(answers, [(CONFIGZ, 200, 1), (PODS, 200, 3)]);
}

/// collection.md 15 row 12: not verified without a CA, verified with one.
#[tokio::test]
async fn the_certificate_is_verified_only_with_a_ca_file() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    let other = StandInKubelet::start("secret").unwrap();
    for (ca_file, is_taken) in [(None, true), (Some(kubelet.ca_file()), true), (Some(other.ca_file()), false)]
    {
        let mut settings = settings();
        settings.ca_file.clone_from(&ca_file);
        let outcome = client(&kubelet, settings, Some(token("secret"))).pods(&PodMap::new()).await;
        assert_eq!(outcome.is_ok(), is_taken, "{ca_file:?}: {outcome:?}");
        if let Err(error) = outcome {
            assert_eq!(error.kind(), "connection", "{error:?}");
        }
    }
    assert_eq!(kubelet.denied(), 0);
    let mut settings = settings();
    settings.ca_file = Some("/nowhere/ca.crt".into());
    let error = client(&kubelet, settings, None).pods(&PodMap::new()).await.unwrap_err();
    assert!(matches!(&error, KubeletError::CaFile { path, .. } if path.ends_with("ca.crt")), "{error:?}");
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    let mut config = kube::Config::new("https://api.example:6443".parse().unwrap());
    let (certificate, key) = kubelet.client_files();
    config.auth_info.client_certificate = certificate.to_str().map(str::to_owned);
    config.auth_info.client_key = key.to_str().map(str::to_owned);
    client(&kubelet, settings(), Some(config)).pods(&PodMap::new()).await.unwrap();
    assert_eq!(kubelet.denied(), 0);
}

/// A token that was good and is refused is read again at once, and nobody notices.
#[tokio::test]
async fn a_rotated_token_is_read_again() {
    let kubelet = StandInKubelet::start("token-1").unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write_token(file.as_file_mut(), "token-1");
    let client = client(&kubelet, settings(), Some(token_file(file.path())));
    client.pods(&PodMap::new()).await.unwrap();
    kubelet.set_token("token-2");
    write_token(file.as_file_mut(), "token-2");
    client.pods(&PodMap::new()).await.unwrap();
    assert_eq!((kubelet.requests(), kubelet.denied()), (3, 1));
    assert_eq!(client.stats().renewed.load(std::sync::atomic::Ordering::Relaxed), 1);
    // Without a new one it is an error, after two requests and then one at a time.
    kubelet.set_token("token-3");
    for requests in [5, 6] {
        let error = client.pods(&PodMap::new()).await.unwrap_err();
        assert!(matches!(error, KubeletError::Status { code: 401, .. }), "{error:?}");
        assert_eq!(kubelet.requests(), requests);
    }
    write_token(file.as_file_mut(), "token-3");
    client.pods(&PodMap::new()).await.unwrap();
}

#[tokio::test]
async fn a_refusal_says_what_is_missing() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    let client = client(&kubelet, settings(), Some(token("secret")));
    kubelet.set_manner(Manner::Status(403));
    let error = client.pods(&PodMap::new()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("403") && text.contains("nodes/proxy") && text.contains("Forbidden (user"),
        "{text}"
    );
    assert_eq!(error.kind(), "denied");
    kubelet.set_manner(Manner::Status(500));
    assert_eq!(client.pods(&PodMap::new()).await.unwrap_err().kind(), "status");
    assert!(!format!("{error:?} {client:?}").contains("secret"));
}

#[tokio::test]
async fn broken_answers_are_errors_of_their_kind() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    kubelet.set_pods(50, 2);
    let client = client(&kubelet, settings(), Some(token("secret")));
    for (manner, kind) in [
        (Manner::HalfJson, "content"),
        (Manner::BreaksOff, "body"),
        (Manner::Closes, "connection"),
        (Manner::Status(200), "content"),
    ] {
        kubelet.set_manner(manner);
        let error = client.pods(&PodMap::new()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{manner:?}: {error:?}");
        kubelet.set_manner(Manner::Right);
        assert_eq!(client.pods(&PodMap::new()).await.unwrap().pods.len(), 50, "{manner:?}");
    }
    kubelet.set_manner(Manner::Status(200));
    assert_eq!(client.configz().await.unwrap_err().kind(), "content");
    let failures: Vec<_> = client.stats().failures().filter(|(_, count)| *count > 0).collect();
    assert_eq!(failures, [("connection", 1), ("body", 1), ("content", 3)]);
}

/// The limit is for the whole request: also for a body that does not come.
#[tokio::test]
async fn what_takes_too_long_is_given_up() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    let mut short = settings();
    short.timeout = Duration::from_millis(300);
    let client = client(&kubelet, short, Some(token("secret")));
    for manner in [Manner::Slow(Duration::from_hours(1)), Manner::Hangs] {
        kubelet.set_manner(manner);
        let error = client.pods(&PodMap::new()).await.unwrap_err();
        assert!(matches!(error, KubeletError::Timeout { .. }), "{manner:?}: {error:?}");
        assert!(error.to_string().contains("/pods/"), "{error}");
    }
}

/// What is known of our pods must not give way to those of whoever got the node's address.
#[tokio::test]
async fn the_pods_of_another_node_are_refused() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    let client = client(&kubelet, settings(), Some(token("secret")));
    let list = |node: &str| {
        let pod =
            |uid: &str, node: &str| serde_json::json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}});
        serde_json::json!({"kind": "PodList", "items": [pod("u1", ""), pod("u2", "n1"), pod("u3", node)]})
            .to_string()
    };
    kubelet.set_list(list("n1"));
    assert_eq!(client.pods(&PodMap::new()).await.unwrap().pods.len(), 3);
    kubelet.set_list(list("n2"));
    let error = client.pods(&PodMap::new()).await.unwrap_err();
    assert!(matches!(&error, KubeletError::AnotherNode { found, .. } if found == "n2"), "{error}");
}

/// The agent has one thread, which nothing that lies where the token should be may hold up.
#[tokio::test]
async fn a_token_file_that_turns_into_something_else_leaves_the_token_in_use() {
    let kubelet = StandInKubelet::start("token-1").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let write = |token: &str| write_token(&mut std::fs::File::create_new(&path).unwrap(), token);
    write("token-1");
    let client = client(&kubelet, settings(), Some(token_file(&path)));
    client.pods(&PodMap::new()).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    client.pods(&PodMap::new()).await.unwrap();
    kubelet.set_token("token-2");
    for _ in 0..3 {
        assert!(client.pods(&PodMap::new()).await.is_err(), "neither the old token is good nor a FIFO");
    }
    std::fs::remove_file(&path).unwrap();
    write("token-2");
    client.pods(&PodMap::new()).await.unwrap();
}

#[tokio::test]
async fn the_read_only_port_gets_no_credentials() {
    let kubelet = StandInKubelet::start_read_only().unwrap();
    kubelet.set_pods(2, 1);
    let mut open = settings();
    open.read_only_port = Some(kubelet.address().port());
    // Nothing listens where the token would go.
    let mut absent = token("secret");
    absent.auth_info.token_file = Some("/nowhere/token".into());
    let list = client(&kubelet, open, Some(absent)).pods(&PodMap::new()).await.unwrap();
    assert_eq!(list.pods.len(), 2);
}

#[tokio::test]
async fn credentials_that_cannot_be_read_are_named() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    let config = token_file(std::path::Path::new("/nowhere/token"));
    let error = client(&kubelet, settings(), Some(config)).pods(&PodMap::new()).await.unwrap_err();
    assert_eq!(error.kind(), "credentials");
    let text = koordlet::error_chain::chain(&error);
    assert!(text.contains("/nowhere/token"), "{text}");
    assert_eq!(kubelet.requests(), 0);
}

#[tokio::test]
async fn a_kubelet_that_is_away_is_told_with_its_cause() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    let client = client(&kubelet, settings(), Some(token("secret")));
    drop(kubelet);
    let error = client.pods(&PodMap::new()).await.unwrap_err();
    let text = koordlet::error_chain::chain(&error);
    assert!(text.contains("https://127.0.0.1:") && text.contains("refused"), "{text}");
}
