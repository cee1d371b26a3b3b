//! Containers whose CPU limits are scaled by CPU burst (qos.md 10).

use super::exposition::Exposition;
use super::families::Family;
use crate::state::scaled::ScaledContainer;

/// What one family shows of a container.
type Figure = fn(&ScaledContainer) -> Option<i64>;

pub(super) fn show(page: &mut Exposition<'_>, containers: &[ScaledContainer]) {
    let families: [(Family, Figure); 2] = [
        (Family::ContainerScaledCfsBurst, |container| container.burst_us),
        (Family::ContainerScaledCfsQuota, |container| container.quota_us),
    ];
    for (family, figure) in families {
        page.family(family, |series| {
            for container in containers {
                let ScaledContainer { namespace, pod, container: name, id, .. } = container;
                let Some(figure) = figure(container).and_then(|us| u64::try_from(us).ok()) else { continue };
                series.count(&[namespace, pod, id, name], figure);
            }
        });
    }
}
