//! Which directory is a pod's sandbox: its only container directory that is no known container's, collection.md 3.3.

use std::collections::BTreeSet;

use super::pods::PodEntry;
use super::tree::{CgroupTree, DirKind};
use crate::cgroup::path::CgroupDir;

/// Why the sandbox of a pod is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// A container has no id yet, so that its directory cannot be told from the sandbox's.
    #[error("container {0} has not started yet")]
    NotStarted(String),
    /// None or several directories are left.
    #[error("{0} directories are no container's, instead of one")]
    Ambiguous(usize),
}

/// The sandbox directory of a pod as the tree has it; `None` while the pod has no container statuses.
pub fn sandbox_dir<'a>(pod: &PodEntry, tree: &'a CgroupTree) -> Result<Option<&'a CgroupDir>, SandboxError> {
    if pod.pod.status.container_statuses.is_empty() {
        return Ok(None);
    }
    let mut known = BTreeSet::new();
    for container in &pod.containers {
        match &container.dir {
            Some(dir) => _ = known.insert(dir),
            None if pod.pod.container_status(&container.name).is_some() => {
                return Err(SandboxError::NotStarted(container.name.clone()));
            }
            None => {}
        }
    }
    // Names that merely begin like the pod's may lie between it and what is beneath it.
    let near = tree.dirs.range(&pod.dir..).take_while(|(dir, _)| dir.as_str().starts_with(pod.dir.as_str()));
    let candidates: Vec<&CgroupDir> = near
        .filter(|(dir, kind)| **kind == DirKind::Container && pod.dir.contains(dir))
        .map(|(dir, _)| dir)
        .filter(|dir| !known.contains(dir))
        .collect();
    match candidates[..] {
        [sandbox] => Ok(Some(sandbox)),
        _ => Err(SandboxError::Ambiguous(candidates.len())),
    }
}
