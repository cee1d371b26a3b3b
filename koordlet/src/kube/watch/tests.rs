use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::kube::testing::{Answer, Log, list, object, refusal, scripted, status};

struct Followed {
    seen: mpsc::UnboundedReceiver<Option<String>>,
    log: Log,
    stats: Arc<ApiStats>,
    task: JoinHandle<()>,
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows `n1` at a server that gives these answers, without waiting between tries.
fn follow(answers: Vec<Answer>) -> Followed {
    follow_quietly(answers, STANDS)
}

/// The same, where a watch that has been silent for this long stands.
fn follow_quietly(answers: Vec<Answer>, stands: Duration) -> Followed {
    follow_from_lists(answers, stands, LIST_AGE)
}

/// The same, where a list is good for this long.
fn follow_from_lists(answers: Vec<Answer>, stands: Duration, list_age: Duration) -> Followed {
    let (client, log) = scripted(answers);
    let stats = Arc::new(ApiStats::default());
    let api = Api::all_with(client, &Kind::NodeSlo.resource());
    let (sender, seen) = mpsc::unbounded_channel();
    let mut following = Following::new(Kind::NodeSlo, api, "n1", Arc::clone(&stats));
    following.watch_seconds = 1;
    let deliver = move |object: Option<Value>| {
        let version = |object: Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let bad = object.as_ref().is_some_and(|object| object["spec"]["bad"] == true);
        sender.send(object.map(version)).unwrap();
        if bad { Err("spec.bad".to_owned()) } else { Ok(()) }
    };
    let mut state = FollowState::new(following, deliver);
    (state.stands, state.list_age) = (stands, list_age);
    let short = Backoff::full_jitter(Duration::from_millis(1), Duration::from_millis(1));
    (state.retry, state.retry_unknown) = (short.clone(), short);
    let task = tokio::spawn(async move {
        loop {
            state.one_watcher().await;
        }
    });
    Followed { seen, log, stats, task }
}

impl Followed {
    /// Versions seen until the script is done; `-` is absence.
    async fn versions(&mut self, n: usize) -> Vec<String> {
        let mut versions = Vec::new();
        for _ in 0..n {
            let seen = timeout(Duration::from_mins(1), self.seen.recv()).await.expect("a delivery").unwrap();
            versions.push(seen.unwrap_or_else(|| "-".to_owned()));
        }
        versions
    }

    async fn asked(&self, n: usize) -> Vec<String> {
        loop {
            let log: Vec<_> = self.log.lock().unwrap().iter().map(|asked| asked.what.clone()).collect();
            if log.len() >= n {
                return log;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

fn change(what: &str, object: &Value) -> Value {
    json!({"type": what, "object": object})
}

#[tokio::test]
async fn a_watch_that_ends_goes_on_from_the_last_bookmark() {
    let bookmark =
        change("BOOKMARK", &json!({"kind": "X", "apiVersion": "v1", "metadata": {"resourceVersion": "8"}}));
    let mut followed = follow(vec![
        list(5, &[object("n1", 3)]),
        Answer::Ends(vec![change("MODIFIED", &object("n1", 6)), bookmark]),
        Answer::Silent(vec![change("DELETED", &object("n1", 9)), change("ADDED", &object("n1", 10))]),
    ]);
    assert_eq!(followed.versions(4).await, ["3", "6", "-", "10"]);
    assert_eq!(followed.asked(3).await, ["list", "watch from 5", "watch from 8"]);
    assert_eq!(followed.stats.events(Kind::NodeSlo).0, 4);
}

#[tokio::test]
async fn c139_after_410_it_lists_anew_and_keeps_nothing_that_was_deleted() {
    let gone = change("ERROR", &status(410));
    for watch in [Answer::Silent(vec![gone]), refusal(410)] {
        let mut followed = follow(vec![
            list(5, &[object("n1", 3)]),
            watch,
            list(20, &[]),
            refusal(404),
            Answer::Silent(vec![change("ADDED", &object("n1", 21))]),
        ]);
        assert_eq!(followed.versions(3).await, ["3", "-", "21"]);
        assert_eq!(followed.asked(5).await, ["list", "watch from 5", "list", "get", "watch from 20"]);
    }
}

#[tokio::test]
async fn c144_an_empty_list_is_believed_only_after_the_object_was_asked_for() {
    let mut followed = follow(vec![
        list(9, &[object("n1", 9)]),
        refusal(410),
        list(5, &[]),
        Answer::Json(200, object("n1", 9)),
        list(11, &[object("n1", 11)]),
    ]);
    assert_eq!(followed.versions(3).await, ["9", "9", "11"]);
    assert_eq!(followed.asked(6).await, ["list", "watch from 9", "list", "get", "list", "watch from 11"]);
}

/// kube's watcher allows a silent server its time and 5 s.
#[tokio::test]
async fn c141_a_silent_connection_is_left() {
    let mut followed = follow(vec![
        list(5, &[object("n1", 3)]),
        Answer::Silent(vec![]),
        Answer::Silent(vec![change("MODIFIED", &object("n1", 6))]),
    ]);
    assert_eq!(followed.versions(2).await, ["3", "6"]);
}

#[tokio::test]
async fn a_kind_that_is_not_installed_is_absent_at_once_and_there_when_it_is() {
    let mut followed =
        follow(vec![refusal(404), refusal(404), list(5, &[object("n1", 3)]), Answer::Silent(vec![])]);
    assert_eq!(followed.versions(2).await, ["-", "3"]);
    assert_eq!(
        followed.stats.errors(Kind::NodeSlo, Reason::NotFound),
        0,
        "counted on its way, which is not here"
    );
    assert_eq!(followed.stats.trouble(Kind::NodeSlo), None);
}

#[tokio::test]
async fn a_server_that_says_for_a_moment_that_it_knows_no_such_kind_takes_nothing_away() {
    let mut followed = follow(vec![
        list(5, &[object("n1", 3)]),
        refusal(404),
        refusal(404),
        list(7, &[object("n1", 7)]),
        Answer::Silent(vec![]),
    ]);
    assert_eq!(followed.versions(2).await, ["3", "7"]);
}

#[tokio::test]
async fn what_was_seen_stays_while_the_server_fails_and_the_trouble_can_be_read() {
    let mut followed = follow(vec![list(5, &[object("n1", 3)]), refusal(500), refusal(403)]);
    assert_eq!(followed.versions(1).await, ["3"]);
    // The fourth request is never answered.
    followed.asked(4).await;
    let trouble = followed.stats.trouble(Kind::NodeSlo).unwrap();
    assert!(trouble.starts_with("cannot watch: failed to start watching"), "{trouble}");
    assert!(followed.seen.try_recv().is_err());
}

#[tokio::test]
async fn a_trouble_ends_with_the_next_watch_and_not_with_the_next_change() {
    let answers = vec![list(5, &[object("n1", 3)]), refusal(500), Answer::Silent(vec![])];
    let mut followed = follow_quietly(answers, Duration::from_millis(500));
    assert_eq!(followed.versions(1).await, ["3"]);
    followed.asked(3).await;
    assert!(followed.stats.trouble(Kind::NodeSlo).is_some());
    while followed.stats.trouble(Kind::NodeSlo).is_some() {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(followed.seen.try_recv().is_err(), "nothing changed");
}

#[tokio::test]
async fn other_objects_are_ignored_and_an_unusable_one_is_reported() {
    let mut bad = object("n1", 7);
    bad["spec"] = json!({"bad": true});
    let events = vec![
        change("ADDED", &object("n2", 6)),
        change("MODIFIED", &bad),
        change("DELETED", &object("n2", 8)),
    ];
    let mut followed = follow(vec![list(5, &[object("n0", 1), object("n1", 3)]), Answer::Silent(events)]);
    assert_eq!(followed.versions(2).await, ["3", "7"]);
    while followed.stats.trouble(Kind::NodeSlo).is_none() {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(followed.stats.trouble(Kind::NodeSlo).unwrap(), "cannot use: spec.bad");
    assert_eq!(followed.stats.errors(Kind::NodeSlo, Reason::Decode), 1);
    assert!(followed.seen.try_recv().is_err(), "the deletion of another node's");
}

/// A store that was put back to an older state: the watch from the version before is accepted and stays silent.
#[tokio::test]
async fn a_server_that_is_silent_for_ever_is_asked_for_a_list_now_and_then() {
    let answers = vec![
        list(900, &[object("n1", 900)]),
        Answer::Silent(vec![]),
        list(500, &[object("n1", 400)]),
        Answer::Silent(vec![]),
        list(501, &[]),
        refusal(404),
        Answer::Silent(vec![]),
    ];
    let mut followed = follow_from_lists(answers, STANDS, Duration::from_millis(10));
    assert_eq!(followed.versions(3).await, ["900", "400", "-"]);
}
