//! Random pods for property tests.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::entry;
use crate::api::keys;
use crate::state::pods::PodEntry;

/// One of some texts, or none.
pub(crate) fn amount(of: &'static [&'static str]) -> impl Strategy<Value = Option<&'static str>> + Clone {
    prop::option::of(prop::sample::select(of))
}

/// What the containers of a pod ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Native,
    Batch,
    Mixed,
}

fn resources(kind: Kind) -> impl Strategy<Value = Json> {
    let cpu = amount(&["5m", "100m", "500m", "1", "2"]);
    let batch = amount(&["5", "500", "1000", "3000"]);
    (cpu, amount(&["64Mi", "1Gi"]), batch.clone(), batch, amount(&["1Mi", "2Gi"])).prop_map(
        move |(cpu, memory, batch_request, batch_limit, batch_memory)| {
            let native = |pair: (&'static str, Option<&'static str>)| (pair, kind != Kind::Batch);
            let batch = |pair: (&'static str, Option<&'static str>)| (pair, kind != Kind::Native);
            let list =
                |pairs: &[((&'static str, Option<&'static str>), bool)]| -> BTreeMap<String, &'static str> {
                    let wanted = pairs.iter().filter(|(_, wanted)| *wanted);
                    wanted.filter_map(|((name, amount), _)| Some(((*name).to_owned(), (*amount)?))).collect()
                };
            let requests = list(&[native((keys::CPU, cpu)), batch((keys::BATCH_CPU, batch_request))]);
            let limits = list(&[
                native((keys::CPU, cpu)),
                native((keys::MEMORY, memory)),
                batch((keys::BATCH_CPU, batch_limit)),
                batch((keys::BATCH_MEMORY, batch_memory)),
            ]);
            json!({"requests": requests, "limits": limits})
        },
    )
}

/// Any pod, with the UID `u`.
pub(crate) fn pod_entry() -> impl Strategy<Value = PodEntry> {
    prop::sample::select(vec![Kind::Native, Kind::Batch, Kind::Mixed]).prop_flat_map(pod_of)
}

fn pod_of(kind: Kind) -> impl Strategy<Value = PodEntry> {
    let containers = prop::collection::vec(resources(kind), 1..4);
    let init = prop::collection::vec((resources(kind), any::<bool>()), 0..3);
    let labels = if kind == Kind::Batch { vec!["BE"] } else { vec!["", "LS", "BE", "LSR"] };
    let label = prop::sample::select(labels);
    let applied = prop::option::of(resources(kind));
    let odd =
        (any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (containers, init, label, applied, odd).prop_map(
        |(containers, init, label, applied, (hooks_live, kata, pinned, pod_level))| {
            let named = |prefix: &str, index: usize, resources: Json, sidecar: bool| {
                let mut container = json!({"name": format!("{prefix}{index}"), "resources": resources});
                if sidecar {
                    container["restartPolicy"] = json!("Always");
                }
                container
            };
            let apps: Vec<_> =
                containers.into_iter().enumerate().map(|(i, r)| named("a", i, r, false)).collect();
            let init: Vec<_> = init.into_iter().enumerate().map(|(i, (r, s))| named("i", i, r, s)).collect();
            let mut spec = json!({"containers": apps, "initContainers": init});
            if kata {
                spec["runtimeClassName"] = json!("kata");
            }
            if pod_level {
                // At least as large as any container's, which the API server insists on.
                spec["resources"] = json!({"limits": {"cpu": "8"}, "requests": {"cpu": "4"}});
            }
            let status = if pinned { r#"{"cpuset":"2-3"}"# } else { "{}" };
            let mut pod = entry(json!({
                "metadata": {
                    "uid": "u",
                    "labels": {keys::QOS_CLASS: label},
                    "annotations": {keys::RESOURCE_STATUS: status},
                },
                "spec": spec,
                "status": {
                    "phase": "Running",
                    "containerStatuses": [{"name": "a0", "resources": applied}],
                },
            }));
            pod.hooks_live = hooks_live;
            pod
        },
    )
}

/// The pod under a UID of its own.
pub(crate) fn renamed(pod: &PodEntry, index: usize) -> PodEntry {
    let mut object = pod.pod.as_ref().clone();
    object.metadata.uid = format!("u{index}");
    let renamed = entry(serde_json::to_value(&object).unwrap());
    PodEntry { hooks_live: pod.hooks_live, ..renamed }
}
