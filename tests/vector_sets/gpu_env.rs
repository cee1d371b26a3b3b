//! Rows `gpu_env` of `inject.jsonl`: what a container that gets GPUs is given.

use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::rules::{PluginKind, RuleSettings, Rules};
use koordlet::state::pods::PodEntry;
use serde_json::{Value, json};

use crate::set::{Row, Verdict};

/// An error keeps what was set before it: the row says both.
pub(crate) fn gpu_env(row: &Row) -> Verdict {
    let part = |name: &str| row.input.get(name).cloned().unwrap_or_else(|| json!({}));
    let pod = serde_json::from_value(json!({
        "metadata": {"uid": "u", "labels": part("labels"), "annotations": part("annotations")},
        "spec": {"containers": [{"name": "c"}]},
    }));
    let pod: koordlet::api::pod::Pod = pod.expect("a pod");
    let naming = Naming::new(CgroupDriver::Systemd, "").expect("a naming");
    let pod = PodEntry::new(pod, &naming).expect("a directory");
    let rules = Rules::new(&RuleSettings { plugins: [PluginKind::GpuEnv].into(), ..RuleSettings::default() });
    let container = pod.containers.first().expect("a container");
    let (injection, errors) = rules.injection(&pod, container);
    let envs = json!(injection.envs);
    let mounts: Vec<&str> = injection.mounts.iter().map(|mount| mount.source.as_str()).collect();
    let recorded = row.out.as_ref().and_then(|out| out.get("mounts")).and_then(Value::as_array);
    // Mounts are recorded by path alone or as objects.
    let path = |mount: &Value| mount.as_str().or_else(|| mount.get("source")?.as_str()).map(str::to_owned);
    let wanted: Vec<String> = recorded.into_iter().flatten().filter_map(path).collect();
    if mounts != wanted {
        return Verdict::Wrong(format!("mounts {mounts:?}"));
    }
    let got = json!({ "envs": envs, "error": !errors.is_empty() });
    let out = row.out.clone().unwrap_or_default();
    row.compare_with(&json!({ "envs": out["envs"], "error": out["error"] }), &got)
}
