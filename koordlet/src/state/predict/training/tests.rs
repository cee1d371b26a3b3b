use serde_json::json;

use super::*;
use crate::api::pod::Pod;
use crate::cgroup::naming::{CgroupDriver, Naming};
use crate::state::series::settings::SeriesSettings;

const SECOND: u64 = 1_000_000_000;

fn table(uids: &[&str]) -> PodTable {
    let pods = uids.iter().map(|uid| {
        serde_json::from_value::<Pod>(json!({
            "metadata": {"namespace": "n", "name": uid, "uid": uid}, "status": {"qosClass": "Burstable"},
        }))
        .unwrap()
    });
    PodTable::build(pods, &Naming::new(CgroupDriver::Systemd, "").unwrap(), &PodTable::default()).0
}

#[test]
fn a_round_is_the_p90_of_the_last_interval_of_pods_with_both_figures() {
    let series = SharedSeries::new(SeriesSettings::default());
    let [whole, half]: [Arc<str>; 2] = ["u1".into(), "u2".into()];
    for second in 1..=100 {
        series.append(
            Nanos(second * SECOND),
            [
                (SeriesKey::pod(Metric::PodCpuUsage, &whole), second as f64),
                (SeriesKey::pod(Metric::PodMemoryUsage, &whole), 4096.0),
                (SeriesKey::pod(Metric::PodCpuUsage, &half), 1.0),
                (SeriesKey::node(Metric::NodeCpuUsage), 200.0),
                (SeriesKey::node(Metric::NodeMemoryUsage), 1e9),
            ],
        );
    }
    let pods = table(&["u1", "u2", "u3"]);
    let minute = Duration::from_mins(1);
    let round = TrainingRound::of_series(&series, &pods, minute, Nanos(100 * SECOND));
    // 61 samples of 40 to 100 s: the one at index 61 * 90 / 100 - 1 = 53.
    let sample = PodSample { uid: whole, class: PriorityClass::Prod, cores: 93.0, bytes: 4096.0 };
    assert_eq!(round.pods, [sample]);
    assert_eq!((round.node, round.of_system()), (Some((200.0, 1e9)), Some((107.0, 1e9 - 4096.0))));
    let early = TrainingRound::of_series(&series, &pods, minute, Nanos(SECOND / 2));
    assert_eq!(early, TrainingRound::default());
}

#[test]
fn pods_above_the_node_leave_no_less_than_nothing_to_the_system() {
    let pod = PodSample { uid: "u".into(), class: PriorityClass::Mid, cores: 2.0, bytes: 20.0 };
    let round = TrainingRound { pods: vec![pod.clone(), pod], node: Some((3.0, 50.0)) };
    assert_eq!(round.of_system(), Some((0.0, 10.0)));
    assert_eq!(round.of_class(Some(PriorityClass::Mid)), (4.0, 40.0));
    assert_eq!(round.of_class(None), (0.0, 0.0));
}
