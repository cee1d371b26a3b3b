//! Set `sandbox`: which of a pod's directories is its sandbox's (collection.md 3.3, hooks.md 1).

use koordlet::api::pod::Pod;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::place::container_id_of;
use koordlet::state::pods::PodEntry;
use koordlet::state::sandbox::sandbox_dir;
use koordlet::state::tree::{CgroupTree, DirKind};
use serde_json::{Value, json};

use crate::set::{self, Row, Verdict};

fn texts(row: &Row, key: &str) -> Vec<String> {
    serde_json::from_value(row.input[key].clone()).unwrap()
}

fn statuses(ids: &[String], prefix: &str) -> Value {
    let status =
        |(index, id): (usize, &String)| json!({"name": format!("{prefix}{index}"), "containerID": id});
    ids.iter().enumerate().map(status).collect()
}

/// The full id of the sandbox, empty where the pod has no statuses yet. H29: what is found is the answer.
fn sandbox_id(row: &Row) -> Verdict {
    let driver: CgroupDriver = row.text("driver").parse().unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"uid": "u"},
        "status": {
            "containerStatuses": statuses(&texts(row, "containerIDs"), "a"),
            "initContainerStatuses": statuses(&texts(row, "initContainerIDs"), "i"),
        },
    }))
    .unwrap();
    let pod = PodEntry::new(pod, &Naming::new(driver, "").unwrap()).unwrap();
    let mut tree = CgroupTree::default();
    for name in texts(row, "podSubdirs") {
        tree.dirs.insert(pod.dir.join(&name).unwrap(), DirKind::Container);
    }
    let got = sandbox_dir(&pod, &tree).map(|dir| {
        let id = dir.and_then(|dir| container_id_of(driver, dir.name()));
        json!({"id": id.map_or_else(String::new, |id| format!("{}://{id}", row.text("runtime")))})
    });
    let found = || texts(row, "podSubdirs").into_iter().find(|name| name.contains("sb"));
    match (row.defect.as_deref(), got) {
        // The reference takes the directory's name apart and loses it.
        (Some("H29"), got) => match (got, found()) {
            (Ok(got), Some(_)) => {
                row.compare_with(&json!({"id": format!("{}://sb", row.text("runtime"))}), &got)
            }
            (got, _) => row.compare(got),
        },
        (_, got) => row.compare(got),
    }
}

#[test]
fn vector_sandbox() {
    set::check("sandbox", &[("sandbox_id", 24, sandbox_id)]);
}
