//! What the agent does for the series beside writing them: makes them as the flags say, and drops those of pods,
//! containers and host applications that are gone.

use std::collections::HashSet;

use crate::config::collect::CollectSettings;
use crate::state::pods::PodTable;
use crate::state::series::key::SeriesKey;
use crate::state::series::settings::SeriesSettings;
use crate::state::series::shared::SharedSeries;
use crate::units::Nanos;

/// Series with the paces and bounds of the flags.
pub(super) fn new_series(collect: &CollectSettings) -> SharedSeries {
    let usual = SeriesSettings::default();
    SharedSeries::new(SeriesSettings {
        usage: collect.usage,
        cold_memory: collect.cold_memory.unwrap_or(usual.cold_memory),
        pressure: collect.pressure.unwrap_or(usual.pressure),
        cpi: collect.cpi.as_ref().map_or(usual.cpi, |cpi| cpi.interval),
        resctrl: collect.resctrl.unwrap_or(usual.resctrl),
        retention: collect.retention,
        max_bytes: collect.max_bytes,
    })
}

/// Drops series without a sample in their window at `now`, and those of what is gone. Before a source of pods has
/// delivered, nothing is known to be gone.
pub(super) fn tidy<'a>(
    series: &SharedSeries,
    pods: &PodTable,
    host_apps: impl Iterator<Item = &'a str>,
    now: Nanos,
) {
    series.expire(now);
    if !pods.synced {
        return;
    }
    let containers: HashSet<&str> = pods
        .pods
        .values()
        .flat_map(|pod| &pod.containers)
        .filter_map(|container| container.id.as_deref())
        .collect();
    let apps: HashSet<&str> = host_apps.collect();
    series.retire(|key: &SeriesKey| {
        key.pod_uid().is_none_or(|uid| pods.pods.contains_key(uid))
            && key.container_id().is_none_or(|id| containers.contains(id))
            && key.host_app_name().is_none_or(|name| apps.contains(name))
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::api::pod::Pod;
    use crate::cgroup::naming::{CgroupDriver, Naming};
    use crate::state::series::key::{PsiDegree, PsiResource};
    use crate::state::series::metric::Metric;

    const ID: &str = "containerd://1";

    fn table(pods: &[(&str, &str)]) -> PodTable {
        let pods = pods.iter().map(|(uid, container)| {
            serde_json::from_value::<Pod>(json!({
                "metadata": {"namespace": "n", "name": uid, "uid": uid},
                "spec": {"containers": [{"name": "a"}]},
                "status": {
                    "qosClass": "Burstable", "containerStatuses": [{"name": "a", "containerID": container}],
                },
            }))
            .unwrap()
        });
        let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
        PodTable::build(pods, &naming, &PodTable::default()).0
    }

    fn keys() -> Vec<SeriesKey> {
        let (pod, container): (Arc<str>, Arc<str>) = ("u".into(), ID.into());
        vec![
            SeriesKey::node(Metric::NodeCpuUsage),
            SeriesKey::numa(Metric::NodeNumaCpuUsage, 0),
            SeriesKey::pod(Metric::PodCpuUsage, &pod),
            SeriesKey::container(Metric::ContainerCpuUsage, &container),
            SeriesKey::container_psi(&pod, &container, PsiResource::Cpu, PsiDegree::Some),
            SeriesKey::host_app(Metric::HostAppCpuUsage, &"app".into()),
        ]
    }

    fn left(pods: &PodTable, apps: &[&str], now: Nanos) -> Vec<SeriesKey> {
        let series = SharedSeries::new(SeriesSettings::default());
        assert_eq!(series.append(Nanos(1), keys().into_iter().map(|key| (key, 1.0))), 0);
        tidy(&series, pods, apps.iter().copied(), now);
        keys().into_iter().filter(|key| series.newest(key, Nanos(0), now).is_some()).collect()
    }

    #[test]
    fn series_go_with_what_they_are_about() {
        let now = Nanos(10_000_000_000);
        let (all, there) = (keys(), table(&[("u", ID)]));
        assert_eq!(left(&there, &["app"], now), all);
        assert_eq!(left(&there, &[], now), all[..5], "the application is gone");
        let restarted = table(&[("u", "containerd://2")]);
        assert_eq!(left(&restarted, &[], now), all[..3], "the container came back as another");
        assert_eq!(left(&table(&[("v", "")]), &[], now), all[..2], "the pod is gone");
    }

    #[test]
    fn nothing_is_gone_before_anybody_has_told_of_pods() {
        let now = Nanos(10_000_000_000);
        assert_eq!(left(&PodTable::default(), &[], now), keys());
    }

    #[test]
    fn series_that_nobody_writes_any_more_go_after_their_window() {
        let hour = Nanos(3_600_000_000_000);
        assert_eq!(left(&table(&[("u", ID)]), &["app"], hour), []);
    }
}
