//! What the agent does for the series beside writing them: makes them as the flags say, drops those of pods,
//! containers and host applications that are gone, and tells of samples that they refused. And it lets go of what only
//! the start needed.

use std::collections::HashSet;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::config::collect::CollectSettings;
use crate::state::pods::PodTable;
use crate::state::series::key::SeriesKey;
use crate::state::series::settings::SeriesSettings;
use crate::state::series::shared::SharedSeries;
use crate::sys::{trim_heap, trim_program};
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

/// So many series that go at once are those of many pods, which leave holes all over the heap.
const MANY: usize = 64;

/// How long the start takes at most: first lists, first looks, a first report at the shortest interval.
const START: Duration = Duration::from_mins(1);

/// Gives back the memory that the start took and nobody needs later: parsers of flags and credentials, the kernel's
/// type information.
pub(super) async fn after_the_start() {
    sleep(START).await;
    let trim = || {
        trim_heap();
        trim_program();
    };
    // It ends with the agent.
    drop(spawn_blocking(trim).await);
}

/// Drops series without a sample in their window at `now`, and those of what is gone. Before a source of pods has
/// delivered, nothing is known to be gone. Where many go, the memory that they and their pods took goes back to the
/// kernel.
pub(super) fn tidy<'a>(
    series: &SharedSeries,
    pods: &PodTable,
    host_apps: impl Iterator<Item = &'a str>,
    now: Nanos,
) {
    let before = series.stats().series;
    series.expire(now);
    if pods.synced {
        retire(series, pods, host_apps);
    }
    if before.saturating_sub(series.stats().series) >= MANY {
        trim_heap();
    }
}

fn retire<'a>(series: &SharedSeries, pods: &PodTable, host_apps: impl Iterator<Item = &'a str>) {
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

/// Least time between two lines about refused samples: a full store refuses some in every round.
const QUIET: Nanos = Nanos(600_000_000_000);

/// Tells of refused samples for all who write, none of whom does it himself.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Refused so far, as told last.
    told: u64,
    /// When that was.
    told_at: Option<Nanos>,
}

impl Refusals {
    /// Logs how many samples were refused since the last line, and why the last one was.
    pub(super) fn tell(&mut self, series: &SharedSeries, now: Nanos) {
        if let Some((refused, why)) = self.news(series, now) {
            tracing::warn!(refused, why, "samples are not kept");
        }
    }

    fn news(&mut self, series: &SharedSeries, now: Nanos) -> Option<(u64, String)> {
        let refused = series.stats().refused;
        let quiet = self.told_at.is_some_and(|told_at| now - told_at < QUIET);
        if refused == self.told || quiet {
            return None;
        }
        let news = refused - self.told;
        (self.told, self.told_at) = (refused, Some(now));
        Some((news, series.last_refusal().map_or_else(String::new, |refusal| refusal.to_string())))
    }
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
    fn refused_samples_are_told_at_once_then_summed_up_and_never_twice() {
        let series = SharedSeries::new(SeriesSettings::default());
        let refuse = |value: f64| series.append(Nanos(1), [(SeriesKey::node(Metric::NodeCpuUsage), value)]);
        let mut refusals = Refusals::default();
        let mut news = |seconds: u64| refusals.news(&series, Nanos(seconds * 1_000_000_000));
        assert_eq!(news(0), None);
        assert_eq!(refuse(f64::NAN), 1);
        let (count, why) = news(10).unwrap();
        assert!(count == 1 && why.contains("NaN") && why.contains("node_cpu_usage"), "{count} {why}");
        refuse(f64::INFINITY);
        refuse(f64::INFINITY);
        assert_eq!(news(20), None, "not yet again");
        assert!(news(610).is_some_and(|(count, why)| count == 2 && why.contains("inf")));
        assert_eq!(news(2000), None, "nothing new");
    }

    #[test]
    fn series_that_nobody_writes_any_more_go_after_their_window() {
        let hour = Nanos(3_600_000_000_000);
        assert_eq!(left(&table(&[("u", ID)]), &["app"], hour), []);
    }
}
