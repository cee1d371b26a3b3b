//! What the reference's pages showed, `tests/vectors/metrics-export.txt`, against what ours show: names, types,
//! labels and pages. Each family that is missing or differs stands here with its reason; nothing else may.

use std::collections::{BTreeMap, BTreeSet};

use koordlet::report::metrics::Format;
use koordlet::report::metrics::families::{Family, Origin};

use crate::metrics_scene::{Shown, families};
use crate::set;

/// Families that no part of the agent has figures for, by the beginning of their name. A line goes when its part is
/// built: a family that is shown must not stand here.
const NOT_BUILT: [(&str, &str); 3] = [
    ("koordlet_pod_eviction", "no eviction yet"),
    ("koordlet_runtime_hook_invoked_", "no hooks yet"),
    ("koordlet_runtime_hook_reconciler_", "no hooks yet"),
];

/// Families of the reference's libraries, which tell of its own process: one of another language has none of these.
const OF_ITS_LIBRARIES: [(&str, &str); 10] = [
    ("aggregator_", "its API machinery"),
    ("apiserver_", "its API machinery"),
    ("cardinality_enforcement_", "its metrics library"),
    ("disabled_metrics_", "its metrics library"),
    ("go_", "Go's runtime"),
    ("hidden_metrics_", "its metrics library"),
    ("kubelet_", "kubelet code that it links"),
    ("process_", "Go's runtime; the agent's use stands in its own cgroup"),
    ("prometheus_tsdb_", "the store that it embeds; ours has own series"),
    ("registered_metrics_", "its metrics library"),
];

/// Why `name` is not shown, if it need not be.
pub(crate) fn not_built(name: &str) -> Option<&'static str> {
    NOT_BUILT.iter().find(|(start, _)| name.starts_with(start)).map(|(_, why)| *why)
}

fn of_its_libraries(name: &str) -> bool {
    OF_ITS_LIBRARIES.iter().any(|(start, _)| name.starts_with(start))
}

/// The reference's families.
fn exported() -> BTreeMap<String, Shown> {
    let text = set::file("metrics-export.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let family = |line: &str| {
        let [name, kind, page, _gates, labels] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let labels: BTreeSet<String> =
            labels.split(',').filter(|label| *label != "-").map(str::to_owned).collect();
        let page = if page == "ext" { "external" } else { "internal" };
        (name.to_owned(), Shown { kind: kind.to_owned(), labels, page })
    };
    let mut families = BTreeMap::new();
    for (name, shown) in lines.map(family) {
        // A library's name may have several sets of labels.
        let first = families.insert(name.clone(), shown.clone());
        assert!(first.is_none_or(|first| first == shown || of_its_libraries(&name)), "{name} has two shapes");
    }
    families
}

#[test]
fn every_family_of_the_reference_is_shown_alike_or_has_a_reason() {
    let (reference, ours) = (exported(), families(Format::Classic));
    assert!(reference.len() > 200, "{}", reference.len());
    let mut wrong = Vec::new();
    let (mut alike, mut absent) = (0, 0);
    for (name, family) in reference.iter().filter(|(name, _)| !of_its_libraries(name)) {
        match (ours.get(name), not_built(name)) {
            (Some(shown), None) if shown == family => alike += 1,
            (Some(shown), None) => wrong.push(format!("{name}: {shown:?}, the reference has {family:?}")),
            (Some(_), Some(_)) => wrong.push(format!("{name} is shown, and listed as not built")),
            (None, Some(_)) => absent += 1,
            (None, None) => wrong.push(format!("{name} is neither shown nor listed")),
        }
    }
    println!("{alike} families alike, {absent} not built");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Families that the table says are the reference's, but that its pages did not show, as the hardware was lacking or
/// nothing had happened: they stand in collection.md 12.
const NOT_IN_THE_EXPORT: [&str; 8] = [
    "koordlet_collect_node_local_storage_info_status",
    "koordlet_container_core_sched_cookie",
    "koordlet_container_cpi",
    "koordlet_container_oom_score_adj",
    "koordlet_container_scaled_cfs_quota_us",
    "koordlet_core_sched_cookie_manage_status",
    "koordlet_resctrl_llc_occupancy",
    "koordlet_resctrl_memory_bandwidth",
];

#[test]
fn the_table_says_truly_whose_a_name_is() {
    let reference = exported();
    for family in Family::ALL.iter().map(|family| family.descriptor()) {
        let known = reference.contains_key(family.name) || NOT_IN_THE_EXPORT.contains(&family.name);
        assert_eq!(known, family.origin == Origin::Reference, "{}", family.name);
    }
}

/// Both formats show the same families; only counters are named and typed as OpenMetrics demands.
#[test]
fn both_formats_show_the_same_families() {
    let (classic, open) = (families(Format::Classic), families(Format::OpenMetrics));
    assert_eq!(classic.len(), open.len());
    for (name, family) in &classic {
        let counter = family.kind == "counter";
        let base = name.strip_suffix("_total").filter(|_| counter);
        let kind = if counter && base.is_none() { "unknown" } else { &family.kind };
        let found = &open[base.unwrap_or(name)];
        assert_eq!((found.kind.as_str(), &found.labels), (kind, &family.labels), "{name}");
    }
}

/// Families whose source runs in a real agent alone; a test that starts one looks for them.
const OF_A_RUNNING_AGENT: [&str; 2] = ["koordlet_ebpf_", "koordlet_manifest_"];

/// The table promises nothing that no code shows.
#[test]
fn every_family_of_the_table_is_shown_as_it_says() {
    let shown = families(Format::Classic);
    for family in Family::ALL.iter().map(|family| family.descriptor()) {
        if OF_A_RUNNING_AGENT.iter().any(|start| family.name.starts_with(start)) {
            continue;
        }
        let found = shown.get(family.name).unwrap_or_else(|| panic!("{} is never shown", family.name));
        let labels: BTreeSet<String> = family.labels.iter().map(|label| (*label).to_owned()).collect();
        let told = Shown { kind: family.kind.name().to_owned(), labels, page: family.page.name() };
        assert_eq!(*found, told, "{}", family.name);
    }
}
