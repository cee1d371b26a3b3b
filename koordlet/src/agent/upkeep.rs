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
