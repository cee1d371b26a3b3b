//! What becomes of lists, at moments made up here. When they are asked for is tested in `sync_pace`, both over a real
//! connection in the crate of tests.

use serde_json::json;

use super::super::pod_list::PodListReader;
use super::super::pod_trigger::PodTrigger;
use super::*;
use crate::cgroup::naming::{CgroupDriver, Naming};

const INTERVAL: Duration = Duration::from_secs(10);

struct Rig {
    keeper: Keeper,
    sender: watch::Sender<PodLists>,
    start: Instant,
}

impl Rig {
    fn new() -> Self {
        let keeper = Keeper::new(INTERVAL, Arc::default());
        Self { keeper, sender: watch::channel(None).0, start: Instant::now() }
    }

    /// A list comes a number of milliseconds after the start.
    fn list(&mut self, ms: u64, uids: &[&str]) {
        let items: Vec<_> = uids.iter().map(|uid| json!({"metadata": {"uid": uid}})).collect();
        let mut reader = PodListReader::new(&self.keeper.pods);
        reader.feed(json!({ "items": items }).to_string().as_bytes()).unwrap();
        let list = reader.finish().unwrap();
        self.end(ms, Ok(list));
    }

    fn end(&mut self, ms: u64, outcome: Result<PodList, KubeletError>) {
        let now = self.start + Duration::from_millis(ms);
        self.keeper.begin(Cause::Regular, now);
        self.keeper.end(outcome, now, &self.sender);
    }

    fn known(&self) -> Option<Vec<String>> {
        self.sender.borrow().as_ref().map(|list| list.pods.keys().cloned().collect())
    }

    fn counts(&self) -> Vec<u64> {
        self.keeper.stats.syncs().map(|(_, count)| count).collect()
    }
}

#[test]
fn each_list_is_handed_on_and_shares_what_is_unchanged() {
    let mut rig = Rig::new();
    rig.list(0, &["a", "b"]);
    let first = rig.sender.borrow().clone().unwrap();
    rig.list(10_000, &["b", "a"]);
    let second = rig.sender.borrow().clone().unwrap();
    rig.list(20_000, &["b", "c"]);
    let third = rig.sender.borrow().clone().unwrap();
    assert_eq!([first.number, second.number, third.number], [1, 2, 3]);
    assert_eq!([first.is_changed, second.is_changed, third.is_changed], [true, false, true]);
    assert!(Arc::ptr_eq(&first.pods, &second.pods) && !Arc::ptr_eq(&second.pods, &third.pods));
    assert!(Arc::ptr_eq(&first.pods["b"], &third.pods["b"]));
    assert_eq!(rig.counts(), [2, 1, 0, 0]);
}

#[test]
fn failures_keep_the_list() {
    let mut rig = Rig::new();
    rig.end(0, Err(KubeletError::NodeUnknown));
    assert_eq!(rig.known(), None);
    rig.list(1000, &["a"]);
    for second in 2..100 {
        rig.end(second * 1000, Err(KubeletError::NodeUnknown));
    }
    assert_eq!((rig.known(), rig.counts()), (Some(vec!["a".to_owned()]), vec![1, 0, 0, 99]));
}

/// Events of a kubelet's restart make it asked often, which must not confirm what they come from.
#[test]
fn c144_an_empty_list_is_believed_after_three_and_not_in_a_hurry() {
    let mut rig = Rig::new();
    rig.list(0, &["a"]);
    for request in 0..20 {
        rig.list(10_000 + request * 200, &[]);
    }
    assert_eq!((rig.known(), rig.counts()[2]), (Some(vec!["a".to_owned()]), 20));
    rig.list(20_000, &[]);
    assert_eq!(rig.known(), Some(vec!["a".to_owned()]));
    rig.list(30_000, &[]);
    assert_eq!(rig.known(), Some(Vec::new()));
    rig.list(40_000, &[]);
    assert_eq!(rig.known(), Some(Vec::new()));
}

#[test]
fn an_empty_list_between_others_counts_for_nothing() {
    let mut rig = Rig::new();
    for turn in 0..10 {
        rig.list(turn * 30_000, &["a"]);
        rig.list(turn * 30_000 + 10_000, &[]);
        rig.list(turn * 30_000 + 20_000, &[]);
    }
    assert_eq!(rig.known(), Some(vec!["a".to_owned()]));
}

#[test]
fn a_node_without_pods_becomes_ready() {
    let mut rig = Rig::new();
    rig.list(0, &[]);
    rig.list(10_000, &[]);
    assert_eq!(rig.known(), None);
    rig.list(20_000, &[]);
    assert_eq!((rig.known(), rig.counts()), (Some(Vec::new()), vec![1, 0, 2, 0]));
}

#[tokio::test]
async fn without_an_interval_nothing_is_ever_asked() {
    let settings = crate::config::kubelet::KubeletSettings {
        address_type: crate::config::kubelet::AddressType::InternalIp,
        interval: None,
        timeout: Duration::from_secs(3),
        read_only_port: None,
        query_config: false,
        ca_file: None,
    };
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    let endpoint = super::super::kubelet_endpoint::NodeEndpoint::of(&node);
    let (_node, node) = watch::channel(Some(Arc::new(endpoint)));
    let stats: Arc<KubeletStats> = Arc::default();
    let client = KubeletClient::new(settings, node, None, Arc::clone(&stats));
    let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
    let pods = PodSync::start(Arc::new(client), PodTrigger::channel(naming, Arc::clone(&stats)).1);
    tokio::task::yield_now().await;
    assert!(pods.borrow().is_none() && pods.has_changed().is_ok(), "the sender is still there");
    assert_eq!(stats.failures().map(|(_, count)| count).sum::<u64>(), 0);
}
