//! The loop against a stand-in over TLS: what is asked when, what is kept through failures, how much is asked.

use std::sync::Arc;
use std::time::Duration;

use kit::StandInKubelet;
use kit::kubelet::Manner;
use koordlet::config::kubelet::KubeletSettings;
use koordlet::kube::{kubelet_config, kubelet_endpoint::NodeEndpoint};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::kubelet_rig::{Rig, client, endpoint, settings, token, until};

fn rig(kubelet: &StandInKubelet, settings: KubeletSettings) -> Rig {
    let rig = Rig::new(settings, token("secret"));
    rig.node.send_replace(Some(Arc::new(endpoint(kubelet))));
    rig
}

#[tokio::test]
async fn c132_nothing_is_asked_before_the_node_is_known() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    kubelet.set_pods(3, 1);
    let rig = Rig::new(settings(), token("secret"));
    rig.born("poduid-0");
    sleep(Duration::from_millis(300)).await;
    assert_eq!((kubelet.connections(), rig.known()), (0, None));
    // A Node without an address is none that can be asked; the next one is, at once.
    rig.node.send_replace(Some(Arc::new(NodeEndpoint { node: "n1".into(), addresses: Vec::new(), port: 0 })));
    until("the lack is counted", || rig.failures("node") > 0).await;
    assert_eq!(kubelet.connections(), 0);
    rig.node.send_replace(Some(Arc::new(endpoint(&kubelet))));
    until("the list", || rig.known() == Some(3)).await;
}

/// mkdir and rmdir of a pod's directory: one request and one list handed on for each.
#[tokio::test]
async fn c147_a_birth_and_a_death_are_one_request_each() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    kubelet.set_pods(1, 1);
    let rig = rig(&kubelet, settings());
    until("the first list", || rig.known() == Some(1)).await;
    let number = |rig: &Rig| rig.pods.borrow().as_ref().map_or(0, |list| list.number);
    kubelet.set_pods(2, 1);
    rig.born("poduid-1");
    until("the birth", || rig.known() == Some(2)).await;
    kubelet.set_pods(1, 1);
    rig.died("poduid-1");
    until("the death", || rig.known() == Some(1)).await;
    sleep(Duration::from_millis(300)).await;
    assert_eq!((kubelet.requests(), number(&rig), kubelet.connections()), (3, 3, 1));
}

/// Whatever the machine is doing meanwhile: at most five for each second that has begun, and what was born last is
/// seen. `sync_pace` has the same at exact moments.
#[tokio::test]
async fn c148_a_burst_of_200_births_is_five_requests_a_second() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    kubelet.set_pods(1, 1);
    let rig = rig(&kubelet, settings());
    until("the first list", || rig.known() == Some(1)).await;
    let before = kubelet.requests();
    let begin = Instant::now();
    for pod in 0..200 {
        kubelet.set_pods(pod + 2, 1);
        rig.born(&format!("poduid-{}", pod + 1));
        sleep(Duration::from_millis(10)).await;
    }
    until("the last pod", || rig.known() == Some(201)).await;
    let seconds = usize::try_from(begin.elapsed().as_secs()).unwrap() + 1;
    let requests = kubelet.requests() - before;
    assert!(requests <= 5 * seconds, "{requests} requests in {seconds} s");
    let triggers = rig.stats.triggers();
    assert_eq!(triggers[0], ("event", 200));
    assert!(triggers[1].1 > 0, "none was deferred: {triggers:?}");
    kit::skip::note(format_args!(
        "200 births: {requests} requests within {seconds} s, {} deferred",
        triggers[1].1
    ));
}

/// An event that never came is made up for by the next regular list.
#[tokio::test]
async fn c149_without_any_event_the_next_regular_list_is_right() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    kubelet.set_pods(1, 1);
    let mut often = settings();
    often.interval = Some(Duration::from_secs(1));
    let rig = rig(&kubelet, often);
    until("the first list", || rig.known() == Some(1)).await;
    kubelet.set_pods(2, 1);
    until("the second list", || rig.known() == Some(2)).await;
    assert_eq!(rig.stats.triggers().map(|(_, count)| count), [0, 0, 0]);
}

/// The kubelet learns of a container some time after its directory is there.
#[tokio::test]
async fn a_new_container_is_asked_for_until_its_status_is_there() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    kubelet.set_pods(1, 1);
    let rig = rig(&kubelet, settings());
    until("the first list", || rig.known() == Some(1)).await;
    rig.born("poduid-0/0-1");
    until("the first look", || kubelet.requests() >= 2).await;
    kubelet.set_pods(1, 2);
    let has_both = |rig: &Rig| {
        let list = rig.pods.borrow().clone();
        list.is_some_and(|list| list.pods["uid-0"].status.container_statuses.len() == 2)
    };
    until("the status", || has_both(&rig)).await;
    let (_, follow_ups) = rig.stats.triggers()[2];
    assert!((1..=3).contains(&follow_ups), "{follow_ups}");
}

#[tokio::test]
async fn chaos_leaves_what_was_known_and_is_caught_up_with() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    kubelet.set_pods(20, 2);
    let mut settings = settings();
    settings.timeout = Duration::from_millis(500);
    settings.interval = Some(Duration::from_secs(1));
    let rig = rig(&kubelet, settings);
    until("the first list", || rig.known() == Some(20)).await;
    let mut pods = 20;
    for (manner, kind) in [
        (Manner::HalfJson, "content"),
        (Manner::BreaksOff, "body"),
        (Manner::Closes, "connection"),
        (Manner::Hangs, "timeout"),
        (Manner::Slow(Duration::from_mins(1)), "timeout"),
        (Manner::Status(503), "status"),
        (Manner::Status(403), "denied"),
    ] {
        kubelet.set_manner(manner);
        let failed = rig.failures(kind);
        until(&format!("{manner:?} is counted as {kind}"), || rig.failures(kind) > failed).await;
        assert_eq!(rig.known(), Some(pods), "{manner:?}");
        pods += 1;
        kubelet.set_pods(pods, 2);
        kubelet.set_manner(Manner::Right);
        until("catching up", || rig.known() == Some(pods)).await;
    }
    kubelet.set_token("another");
    let denied = rig.failures("denied");
    until("the expired token", || rig.failures("denied") > denied).await;
    assert_eq!(rig.known(), Some(pods));
    kubelet.set_token("secret");
    kubelet.set_pods(1, 1);
    until("catching up", || rig.known() == Some(1)).await;
    assert_eq!(rig.syncs("withheld"), 0);
}

/// The kubelet comes back at another port, and the old one is not asked any more.
#[tokio::test]
async fn a_kubelet_that_moves_is_followed_at_once() {
    let (first, second) =
        (StandInKubelet::start("secret").unwrap(), StandInKubelet::start("secret").unwrap());
    first.set_pods(1, 1);
    second.set_pods(2, 1);
    let rig = rig(&first, settings());
    until("the first list", || rig.known() == Some(1)).await;
    rig.node.send_replace(Some(Arc::new(endpoint(&second))));
    until("the second list", || rig.known() == Some(2)).await;
    assert_eq!(first.requests(), 1);
}

#[tokio::test]
async fn the_configuration_is_asked_for_once_and_kept() {
    let kubelet = StandInKubelet::start("secret").unwrap();
    let config = kubelet_config::follow(client(&kubelet, settings(), Some(token("secret"))));
    until("the configuration", || config.borrow().is_some()).await;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(kubelet.requests(), 1);
    assert!(config.borrow().as_deref().is_some_and(|config| config.cpu_manager_policy == "static"));

    let mut unasked = settings();
    unasked.query_config = false;
    let none: watch::Receiver<_> = kubelet_config::follow(client(&kubelet, unasked, Some(token("secret"))));
    sleep(Duration::from_millis(200)).await;
    assert!(none.borrow().is_none() && kubelet.requests() == 1);
}
