//! Which directory is a pod's sandbox: its only container directory that is no known container's, collection.md 3.3.

use super::pods::PodEntry;
use super::tree::{CgroupTree, DirKind};
use crate::cgroup::naming::split_container_id;
use crate::cgroup::path::CgroupDir;

/// Why the sandbox of a pod is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// A container has no usable id yet, so that its directory cannot be told from the sandbox's.
    #[error("container {0} has not started yet")]
    NotStarted(String),
    /// None or several directories are left.
    #[error("{0} directories are no container's, instead of one")]
    Ambiguous(usize),
}

/// The sandbox directory of a pod as the tree has it; `None` while the pod has no container statuses.
///
/// Each status must have a usable id. A directory is a container's by its id, also where the containers of a pod in a
/// virtual machine have no directories of their own, and is taken as it is found (hooks.md 17 row 29).
pub fn sandbox_dir<'a>(pod: &PodEntry, tree: &'a CgroupTree) -> Result<Option<&'a CgroupDir>, SandboxError> {
    let status = &pod.pod.status;
    if status.container_statuses.is_empty() {
        return Ok(None);
    }
    let mut ids = Vec::new();
    for status in status.container_statuses.iter().chain(&status.init_container_statuses) {
        match split_container_id(&status.container_id) {
            Ok((_, id)) if !id.is_empty() => ids.push(id),
            _ => return Err(SandboxError::NotStarted(status.name.clone())),
        }
    }
    let is_known = |name: &str| ids.iter().any(|id| is_of_container(name, id));
    // Names that merely begin like the pod's may lie between it and what is beneath it.
    let near = tree.dirs.range(&pod.dir..).take_while(|(dir, _)| dir.as_str().starts_with(pod.dir.as_str()));
    let candidates: Vec<&CgroupDir> = near
        .filter(|(dir, kind)| **kind == DirKind::Container && pod.dir.contains(dir))
        .map(|(dir, _)| dir)
        .filter(|dir| !is_crio_scope(dir.name()) && !is_known(dir.name()))
        .collect();
    match candidates[..] {
        [sandbox] => Ok(Some(sandbox)),
        _ => Err(SandboxError::Ambiguous(candidates.len())),
    }
}

/// Whether a directory's name is of the container with this id: the id itself, or one runtime's scope for it.
fn is_of_container(name: &str, id: &str) -> bool {
    let before = name.strip_suffix(".scope").unwrap_or(name).strip_suffix(id);
    before.is_some_and(|before| before.is_empty() || before.ends_with('-'))
}

/// cri-o gives containers scopes, and sandboxes plain directories.
fn is_crio_scope(name: &str) -> bool {
    name.starts_with("crio-") && name.strip_suffix(".scope").is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cgroup::naming::{CgroupDriver, Naming};

    /// The name of the sandbox's directory in a pod with these ids and directories.
    fn sandbox(class: &str, ids: &[&str], dirs: &[&str]) -> Result<Option<String>, SandboxError> {
        let statuses: Vec<_> = ids.iter().map(|id| json!({"name": "c", "containerID": id})).collect();
        let object = json!({
            "metadata": {"uid": "u"},
            "spec": {"containers": [{"name": "c"}], "runtimeClassName": class},
            "status": {"containerStatuses": statuses},
        });
        let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
        let pod: crate::api::pod::Pod = serde_json::from_value(object).unwrap();
        let pod = PodEntry::new(pod, &naming).unwrap();
        let mut tree = CgroupTree::default();
        tree.dirs.insert(pod.dir.clone(), DirKind::Pod);
        for dir in dirs {
            tree.dirs.insert(pod.dir.join(dir).unwrap(), DirKind::Container);
        }
        Ok(sandbox_dir(&pod, &tree)?.map(|dir| dir.name().to_owned()))
    }

    #[test]
    fn h29_the_sandboxes_of_crio_and_pouch_are_taken_as_they_are_found() {
        let found = |ids: &[&str], dirs: &[&str]| sandbox("", ids, dirs).unwrap().unwrap();
        assert_eq!(found(&["cri-o://c1"], &["crio-c1.scope", "crio-sb"]), "crio-sb");
        assert_eq!(found(&["pouch://c1"], &["pouch-c1.scope", "pouch-sb.scope"]), "pouch-sb.scope");
        // A scope that cri-o is still setting up is no sandbox.
        assert_eq!(found(&["cri-o://c1"], &["crio-c1.scope", "crio-c2.scope", "crio-sb"]), "crio-sb");
    }

    #[test]
    fn a_pod_in_a_virtual_machine_has_a_sandbox_and_nothing_beside_it() {
        let ids = ["containerd://c1"];
        let dirs = ["cri-containerd-sb.scope"];
        assert_eq!(sandbox("kata", &ids, &dirs).unwrap().unwrap(), dirs[0]);
        let both = ["cri-containerd-sb.scope", "cri-containerd-c1.scope"];
        assert_eq!(sandbox("kata", &ids, &both).unwrap().unwrap(), dirs[0]);
    }

    #[test]
    fn without_ids_nothing_is_known() {
        assert_eq!(sandbox("", &[], &["docker-c1.scope"]), Ok(None));
        for ids in [["", "docker://c1"], ["docker://c1", "c2"], ["docker://", "docker://c1"]] {
            let error = sandbox("", &ids, &["docker-c1.scope", "docker-sb.scope"]).unwrap_err();
            assert!(matches!(error, SandboxError::NotStarted(_)), "{ids:?}");
        }
        assert_eq!(sandbox("", &["docker://c1"], &["docker-c1.scope"]), Err(SandboxError::Ambiguous(0)));
    }
}
