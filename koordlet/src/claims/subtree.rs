//! Which write group a directory belongs to: one pod's subtree, or the class directories above all pods.

use std::collections::HashMap;
use std::sync::Arc;

use super::plan::Subtree;
use crate::cgroup::path::CgroupDir;
use crate::state::pods::PodTable;
use crate::state::tree::{CgroupTree, DirKind};

/// Pod directories by path.
pub(super) struct Subtrees<'a> {
    pods: HashMap<&'a str, Arc<str>>,
}

impl<'a> Subtrees<'a> {
    /// Pod directories of the tree, keyed by their path while their pod is not known, and those of known pods.
    pub(super) fn new(pods: &'a PodTable, tree: &'a CgroupTree) -> Self {
        let in_tree = tree.dirs.iter().filter(|(_, kind)| **kind == DirKind::Pod);
        let unknown = in_tree.map(|(dir, _)| (dir.as_str(), Arc::from(dir.as_str())));
        let known = pods.pods.values().map(|pod| (pod.dir.as_str(), Arc::clone(&pod.uid)));
        Self { pods: unknown.chain(known).collect() }
    }

    /// The group of `dir`: that of the nearest pod directory at or above it.
    pub(super) fn of(&self, dir: &CgroupDir) -> Subtree {
        let mut path = dir.as_str();
        loop {
            if let Some(pod) = self.pods.get(path) {
                return Subtree::Pod(Arc::clone(pod));
            }
            match path.rsplit_once('/') {
                Some((above, _)) => path = above,
                None => return Subtree::Class,
            }
        }
    }
}
