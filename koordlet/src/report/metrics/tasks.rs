//! Series of what the tasks of containers were given, hooks.md 16.3: core scheduling cookies and OOM scores. Only
//! directories of pods that are known now have any.

use std::collections::{BTreeSet, HashMap};

use super::exposition::Exposition;
use super::families::Family;
use crate::cgroup::path::CgroupDir;
use crate::executor::tasks::stats::{CookieCount, TaskFigures, TaskStats};
use crate::state::pods::{PodEntry, PodTable};
use crate::units::Nanos;

/// A container, or a sandbox, which has no name.
struct Container<'a> {
    pod: &'a PodEntry,
    name: &'a str,
    id: &'a str,
    figures: &'a TaskFigures,
}

pub(super) fn show(page: &mut Exposition<'_>, stats: &TaskStats, pods: &PodTable, now: Nanos) {
    let figures = stats.figures();
    let containers = if figures.is_empty() { Vec::new() } else { containers(pods, &figures) };
    page.family(Family::ContainerCoreSchedCookie, |series| {
        for Container { pod, name, id, figures } in &containers {
            let Some((group, cookie)) = &figures.cookie else { continue };
            let (meta, cookie) = (&pod.pod.metadata, cookie.to_string());
            series.count(&[id, name, &cookie, group, &meta.name, &meta.namespace, &pod.uid], 1);
        }
    });
    page.family(Family::ContainerOomScoreAdj, |series| {
        for Container { pod, name, figures, .. } in &containers {
            let Some(score) = figures.score else { continue };
            let meta = &pod.pod.metadata;
            series.value(&[name, &meta.name, &meta.namespace, &pod.uid], f64::from(score));
        }
    });
    page.family(Family::CoreSchedCookieManageStatus, |series| {
        for CookieCount { group, succeeded, count } in stats.cookie_counts(now) {
            series.count(&[&group, if succeeded { "succeeded" } else { "failed" }], count);
        }
    });
}

/// Whose the directories are. A manifest may name two containers alike; of these the first counts.
fn containers<'a>(
    pods: &'a PodTable,
    figures: &'a std::collections::BTreeMap<CgroupDir, TaskFigures>,
) -> Vec<Container<'a>> {
    let mut known: HashMap<&CgroupDir, (&PodEntry, &str, &str)> = HashMap::new();
    let mut by_dir: HashMap<&CgroupDir, &PodEntry> = HashMap::new();
    for pod in pods.pods.values() {
        by_dir.insert(&pod.dir, pod);
        for container in &pod.containers {
            if let (Some(dir), Some(id)) = (&container.dir, &container.id) {
                known.insert(dir, (pod, &container.name, id));
            }
        }
    }
    let mut seen = BTreeSet::new();
    let whose = |(dir, figures): (&'a CgroupDir, &'a TaskFigures)| {
        let sandbox = || Some((*by_dir.get(&dir.parent()?)?, "", dir.name()));
        let (pod, name, id) = known.get(dir).copied().or_else(sandbox)?;
        seen.insert((&*pod.uid, name)).then_some(Container { pod, name, id, figures })
    };
    figures.iter().filter_map(whose).collect()
}
