//! Set `paths`: names of directories and files, both ways (collection.md 3.1, 3.3, 3.4).

use koordlet::api::node_slo::HostApplication;
use koordlet::api::qos::KubeQos;
use koordlet::cgroup::naming::{CgroupDriver, Naming};
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::place;
use koordlet::cgroup::resource::Resource;
use serde_json::json;

use crate::set::{self, Check, Row, Verdict};

fn naming(row: &Row) -> Naming {
    let driver: CgroupDriver = row.text("driver").parse().unwrap();
    Naming::new(driver, "").unwrap()
}

fn kube_qos(row: &Row) -> KubeQos {
    serde_json::from_value(row.input["kubeQOS"].clone()).unwrap()
}

fn qos_dir(row: &Row) -> Verdict {
    let naming = naming(row);
    row.compare(Ok::<_, String>(json!({"dir": naming.qos_dir(kube_qos(row)).as_str()})))
}

fn pod_dir(row: &Row) -> Verdict {
    let dir = naming(row).pod_dir(kube_qos(row), row.text("uid"));
    row.compare(dir.map(|dir| json!({"dir": dir.as_str()})))
}

fn container_dir(row: &Row) -> Verdict {
    let (naming, id) = (naming(row), row.text("containerID"));
    let pod = CgroupDir::new(row.text("podDir")).unwrap();
    let dir = naming.container_dir(&pod, id);
    if id.ends_with("://") && naming.driver() == CgroupDriver::Cgroupfs {
        assert!(dir.is_err(), "row {}", row.id);
        return Verdict::NotApplicable("an empty id would name the pod's own directory: refused (C052)");
    }
    row.compare(dir.map(|dir| json!({"dir": dir.as_str()})))
}

fn parse_pod_dir(row: &Row) -> Verdict {
    let naming = naming(row);
    let uid = naming.parse_pod_dir(row.text("name")).ok_or("no pod's directory");
    row.compare(uid.map(|uid| json!({ "podID": uid })))
}

fn parse_container_dir(row: &Row) -> Verdict {
    let name = row.text("name");
    let id = place::container_id_of(naming(row).driver(), name);
    if row.is_error() && name.starts_with("pouch-") {
        // Not parsed back by the reference (C16).
        return row.compare_with(
            &json!(name.strip_prefix("pouch-").and_then(|name| name.strip_suffix(".scope"))),
            &json!(id),
        );
    }
    row.compare(id.ok_or("no container's directory").map(|id| json!({ "containerID": id })))
}

fn host_app_dir(row: &Row) -> Verdict {
    let app: HostApplication = serde_json::from_value(row.input.clone()).unwrap();
    let dir = naming(row).host_app_dir(&app);
    let part = |key: &str| row.input["cgroupPath"][key].as_str().unwrap_or("");
    let parts = [part("parentDir"), part("relativePath")];
    if parts.iter().any(|part| part.starts_with('/') || part.split('/').any(|name| name == "..")) {
        assert!(dir.is_err(), "row {}", row.id);
        return Verdict::NotApplicable("`..` and absolute parts from the API are refused (hooks.md 16.1)");
    }
    if row.out.as_ref().is_some_and(|out| out["dir"] == "") {
        assert!(dir.is_err(), "row {}", row.id);
        return Verdict::NotApplicable("the root group is never a target");
    }
    row.compare(dir.map(|dir| json!({"dir": dir.as_str()})))
}

fn kube_qos_of_dir(row: &Row) -> Verdict {
    row.compare(Ok::<_, String>(json!({"kubeQOS": place::kube_qos_of_path(row.text("dir"))})))
}

fn resource_path(row: &Row) -> Verdict {
    let name = row.text("resource");
    if name.starts_with("blkio.") || name.starts_with("net_cls.") {
        return Verdict::NotApplicable("no block I/O or network class resources yet: nothing uses them");
    }
    let host = set::layout(row.text("cgroup"));
    let root = host.hierarchies()[0].root();
    let root = if row.text("cgroup") == "v2" { root } else { root.parent().unwrap() };
    let dir = CgroupDir::new(row.text("dir")).unwrap();
    let path = Resource::from_v1_name(name)
        .and_then(|resource| host.file(&dir, resource))
        .and_then(|loc| host.path(&loc))
        .and_then(|path| Some(path.strip_prefix(root).ok()?.to_str()?.to_owned()));
    row.compare(path.ok_or("no such resource").map(|path| json!({ "path": path })))
}

/// The check of each function, and its rows in the set.
pub(crate) const CHECKS: &[(&str, usize, Check)] = &[
    ("container_dir", 9, container_dir),
    ("host_app_dir", 14, host_app_dir),
    ("kube_qos_of_dir", 4, kube_qos_of_dir),
    ("parse_container_dir", 12, parse_container_dir),
    ("parse_pod_dir", 11, parse_pod_dir),
    ("pod_dir", 13, pod_dir),
    ("qos_dir", 2, qos_dir),
    ("resource_path", 39, resource_path),
];

#[test]
fn vector_paths() {
    set::check("paths", CHECKS);
}
