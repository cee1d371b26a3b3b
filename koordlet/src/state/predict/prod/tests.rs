use serde_json::{Value, json};

use super::*;
use crate::cgroup::naming::{CgroupDriver, Naming};
use crate::units::{Bytes, Percent};

const NOW: &str = "2024-01-02T01:00:00Z";

fn amount(cpu: i64, memory: u64) -> CpuMemory {
    CpuMemory { cpu: crate::units::MilliCpu(cpu), memory: Bytes(memory) }
}

/// A prod pod so many hours old with these requests.
fn pod(uid: &str, hours: i64, cpu: &str, memory: &str) -> Value {
    let made = NOW.parse::<Timestamp>().unwrap().as_second() - hours * 3600;
    json!({
        "metadata": {"namespace": "n", "name": uid, "uid": uid, "creationTimestamp": Timestamp::from_second(made).unwrap().to_string()},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]},
        "status": {"phase": "Running", "qosClass": "Burstable"},
    })
}

fn with(mut pod: Value, pointer: &str, value: &str) -> Value {
    let (above, field) = pointer.rsplit_once('/').unwrap();
    pod.pointer_mut(above).unwrap()[field] = value.into();
    pod
}

fn entries(pods: &[Value]) -> Vec<Arc<PodEntry>> {
    let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
    let entry = |pod: &Value| {
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        Arc::new(PodEntry::new(pod, &naming).unwrap())
    };
    pods.iter().map(entry).collect()
}

fn node(cpu: &str, memory: &str) -> Node {
    serde_json::from_value(json!({"status": {"allocatable": {"cpu": cpu, "memory": memory}}})).unwrap()
}

/// The models of example 18, named H in collection.md 17.
fn h(key: &ModelKey) -> Option<CpuMemory> {
    Some(match key.to_string().as_str() {
        "p1" => amount(314, 113_133_819),
        "__node-sys__" => amount(539, 564_708_223),
        "__node-koord-prod__" => amount(1035, 1_097_586_419),
        "__node-__" => amount(25, 5_242_880),
        _ => return None,
    })
}

fn predicted(pods: &[Value], node: Option<&Node>) -> ProdPrediction {
    predict(&entries(pods), node, &ProdSettings::default(), NOW.parse().unwrap(), h)
}

/// Row 73.
#[test]
fn a_pod_that_uses_less_than_it_asks_for() {
    let got = predicted(&[pod("p1", 25, "1", "1Gi")], Some(&node("4", "8Gi")));
    let used = amount(1758, 1_834_291_274);
    assert_eq!(got.by_pod.reclaimable, Ok(amount(655, 949_294_624)));
    assert_eq!(got.by_pod.peak, Ok(amount(345, 124_447_200)));
    assert_eq!((got.by_priority.reclaimable, got.by_priority.peak), (Ok(amount(0, 0)), Ok(used)));
    assert_eq!((got.reported.reclaimable, got.reported.peak), (Ok(amount(0, 0)), Ok(used)));
}

fn p1_and_cold() -> Vec<Value> {
    vec![pod("p1", 25, "2", "2Gi"), pod("cold", 1, "3", "3Gi")]
}

/// Rows 74 and 75.
#[test]
fn what_is_young_or_unknown_counts_with_its_requests() {
    let node = node("4", "8Gi");
    let mut pods = p1_and_cold();
    let got = predicted(&pods, Some(&node)).reported;
    let reclaimable = Ok(amount(1655, 2_023_036_448));
    assert_eq!((got.reclaimable, got.peak), (reclaimable.clone(), Ok(amount(3345, 3_345_672_672))));
    pods.push(pod("new", 25, "500m", "512Mi"));
    pods.push(with(pod("p1", 25, "7", "7Gi"), "/metadata/deletionTimestamp", NOW));
    pods.push(with(pod("batch", 25, "7", "7Gi"), "/metadata/labels", ""));
    let labelled = pods.last_mut().unwrap();
    labelled["metadata"]["labels"] = json!({"koordinator.sh/qosClass": "BE"});
    let got = predicted(&pods, Some(&node)).reported;
    assert_eq!((got.reclaimable, got.peak), (reclaimable, Ok(amount(3845, 3_882_543_584))));
}

/// Row 76.
#[test]
fn what_the_node_offers_bounds_it() {
    let pods = p1_and_cold();
    let mut small = node("2", "2Gi");
    let of = |node: Option<&Node>| predicted(&pods, node).reported;
    assert_eq!(of(Some(&small)).reclaimable, Ok(amount(242, 313_192_374)));
    small.metadata.annotations.insert("node.koordinator.sh/raw-allocatable".into(), r#"{"cpu":"2"}"#.into());
    assert_eq!(of(Some(&small)).reclaimable, Ok(amount(242, 0)));
    for node in [None, Some(&Node::default())] {
        let got = of(node);
        assert_eq!(got.reclaimable, Err(PredictError::NoAllocatable));
        assert_eq!(got.peak, Ok(amount(3345, 3_345_672_672)));
    }
    let none = ModelKey::Class(None);
    let without = |key: &ModelKey| h(key).filter(|_| *key != none);
    let node = node("4", "8Gi");
    let got = predict(&entries(&pods), Some(&node), &ProdSettings::default(), NOW.parse().unwrap(), without);
    let missing = PredictError::NoModel(none.clone());
    assert_eq!((got.reported.reclaimable, got.reported.peak), (Err(missing.clone()), Err(missing)));
    assert!(got.by_pod.reclaimable.is_ok() && got.by_pod.peak.is_ok());
}

#[test]
fn an_annotation_that_cannot_be_read_is_told_and_does_not_count() {
    let mut node = node("2", "2Gi");
    node.metadata.annotations.insert("node.koordinator.sh/raw-allocatable".into(), "{bad".into());
    let got = predicted(&p1_and_cold(), Some(&node));
    assert_eq!(got.reported.reclaimable, Ok(amount(242, 313_192_374)));
    assert!(got.notice.unwrap().contains("raw-allocatable"));
}

#[test]
fn c21_pods_that_have_ended_take_no_part_however_young() {
    let node = node("4", "8Gi");
    let alone = predicted(&p1_and_cold(), Some(&node));
    let mut pods = p1_and_cold();
    for (uid, phase) in [("done", "Succeeded"), ("broken", "Failed")] {
        pods.push(with(pod(uid, 1, "1", "1Gi"), "/status/phase", phase));
    }
    assert_eq!(predicted(&pods, Some(&node)), alone);
}

/// While it ends it still runs, and nobody can say how much it will use.
#[test]
fn a_young_pod_that_is_ending_counts_for_the_peak_and_lends_nothing() {
    let node = node("4", "8Gi");
    let alone = predicted(&p1_and_cold(), Some(&node));
    let mut pods = p1_and_cold();
    pods.push(with(pod("going", 1, "1", "1Gi"), "/metadata/deletionTimestamp", NOW));
    let got = predicted(&pods, Some(&node));
    assert_eq!(got.by_priority, alone.by_priority);
    assert_eq!(got.by_pod.reclaimable, alone.by_pod.reclaimable);
    assert_eq!(got.by_pod.peak, Ok(amount(4345, 3_345_672_672 + 1_073_741_824)));
}

#[test]
fn the_age_decides_up_to_the_very_second_and_one_without_an_age_is_old() {
    let node = node("4", "8Gi");
    let at_most = predicted(&[pod("p1", 24, "2", "2Gi")], Some(&node));
    assert_eq!(at_most.by_pod.reclaimable, Ok(amount(0, 0)));
    let mut static_pod = pod("p1", 24, "2", "2Gi");
    static_pod["metadata"]["creationTimestamp"] = Value::Null;
    assert_eq!(predicted(&[static_pod], Some(&node)).by_pod.reclaimable, Ok(amount(1655, 2_023_036_448)));
    let ahead = predicted(&[pod("p1", -5, "2", "2Gi")], Some(&node));
    assert_eq!(ahead.by_pod.reclaimable, Ok(amount(0, 0)), "made in time to come: young");
}

/// C106: order and missing figures are no matter.
#[test]
fn c106_a_pod_without_a_model_neither_panics_nor_hides_others() {
    let pods = [pod("x", 25, "1", "1Gi"), pod("p1", 25, "2", "2Gi"), pod("y", 25, "1", "1Gi")];
    let got = predicted(&pods, Some(&node("4", "8Gi"))).by_pod;
    assert_eq!(got.peak, Ok(amount(2345, 2 * 1_073_741_824 + 124_447_200)));
    assert_eq!(got.reclaimable, Ok(amount(1655, 2_023_036_448)));
}

#[test]
fn figures_beyond_all_measure_saturate() {
    let settings = ProdSettings { margin: Percent(i64::MAX), ..ProdSettings::default() };
    let huge = |_: &ModelKey| Some(amount(i64::MAX, u64::MAX));
    let pods = entries(&[pod("p1", 25, "9E", "9E"), pod("p2", 25, "9E", "9E")]);
    let got = predict(&pods, Some(&node("9E", "9E")), &settings, NOW.parse().unwrap(), huge);
    assert!(got.reported.peak.is_ok());
}
