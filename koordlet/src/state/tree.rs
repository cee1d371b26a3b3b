//! The cgroup directories beneath kubepods that exist right now.
//!
//! [`CgroupTree`] is what readers see. [`TreeKeeper`] maintains it from events: on v1 a directory is born
//! and dies once in each hierarchy, and a name may come back under a new id before the old death is heard.

use std::collections::BTreeMap;

use crate::cgroup::path::CgroupDir;
pub use crate::cgroup::place::DirKind;
use crate::cgroup::resource::Controller;
use crate::ebpf::events::CgroupEvent;

/// Directories that exist, in tree order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupTree {
    /// Directory -> what it is.
    pub dirs: BTreeMap<CgroupDir, DirKind>,
}

/// What an event meant for the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeChange {
    /// Nothing: a directory outside kubepods, one that was known, or a late death of an old id.
    None,
    /// The directory appeared (in its first hierarchy), or came back under a new id.
    Appeared,
    /// The directory is gone from the last of its hierarchies.
    Vanished,
    /// Events were lost: scan the hierarchies and call [`TreeKeeper::replace`].
    Rescan,
}

/// A directory as a scan of one hierarchy finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDir {
    /// Controllers of the hierarchy.
    pub controllers: Vec<Controller>,
    /// Cgroup id in that hierarchy.
    pub id: u64,
    /// Its path.
    pub dir: CgroupDir,
}

/// Maintains a [`CgroupTree`]. `classify` says what a directory is, `None` for one outside kubepods.
#[derive(Debug)]
pub struct TreeKeeper<F> {
    classify: F,
    tree: CgroupTree,
    /// Ids by controller: a directory exists while one is left.
    ids: BTreeMap<CgroupDir, BTreeMap<Controller, u64>>,
}

impl<F: Fn(&CgroupDir) -> Option<DirKind>> TreeKeeper<F> {
    /// An empty tree.
    pub fn new(classify: F) -> Self {
        Self { classify, tree: CgroupTree::default(), ids: BTreeMap::new() }
    }

    /// The tree as it is now.
    pub fn tree(&self) -> &CgroupTree {
        &self.tree
    }

    /// Id of a directory in the hierarchy of `controller`.
    pub fn id(&self, dir: &CgroupDir, controller: Controller) -> Option<u64> {
        self.ids.get(dir)?.get(&controller).copied()
    }

    /// Takes one event.
    pub fn apply(&mut self, event: &CgroupEvent) -> TreeChange {
        match event {
            CgroupEvent::Born { controllers, id, dir } => self.born(controllers, *id, dir),
            CgroupEvent::Died { controllers, id, dir } => self.died(controllers, *id, dir),
            CgroupEvent::Lost { .. } => TreeChange::Rescan,
        }
    }

    /// Takes a full scan of all hierarchies; whether the tree is another one now.
    pub fn replace(&mut self, found: impl IntoIterator<Item = FoundDir>) -> bool {
        let before = std::mem::take(&mut self.tree);
        self.ids.clear();
        for FoundDir { controllers, id, dir } in found {
            self.born(&controllers, id, &dir);
        }
        before != self.tree
    }

    fn born(&mut self, controllers: &[Controller], id: u64, dir: &CgroupDir) -> TreeChange {
        let Some(kind) = (self.classify)(dir) else { return TreeChange::None };
        let ids = self.ids.entry(dir.clone()).or_default();
        let mut reborn = false;
        for controller in controllers {
            reborn |= ids.insert(*controller, id).is_some_and(|old| old != id);
        }
        let is_new = self.tree.dirs.insert(dir.clone(), kind).is_none();
        if is_new || reborn { TreeChange::Appeared } else { TreeChange::None }
    }

    fn died(&mut self, controllers: &[Controller], id: u64, dir: &CgroupDir) -> TreeChange {
        let Some(ids) = self.ids.get_mut(dir) else { return TreeChange::None };
        ids.retain(|controller, known| *known != id || !controllers.contains(controller));
        if !ids.is_empty() {
            return TreeChange::None;
        }
        // The kernel removes children first; any left here died unheard.
        self.ids.retain(|known, _| !dir.contains(known));
        self.tree.dirs.retain(|known, _| !dir.contains(known));
        TreeChange::Vanished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Controller::{Cpu, Cpuset};

    fn dir(path: &str) -> CgroupDir {
        CgroupDir::new(path).unwrap()
    }

    fn keeper() -> TreeKeeper<impl Fn(&CgroupDir) -> Option<DirKind>> {
        TreeKeeper::new(|dir: &CgroupDir| {
            dir.as_str().starts_with("kubepods").then_some(match dir.depth() {
                1 => DirKind::Kubepods,
                2 => DirKind::Pod,
                3 => DirKind::Container,
                _ => DirKind::Nested,
            })
        })
    }

    fn born(controllers: &[Controller], id: u64, path: &str) -> CgroupEvent {
        CgroupEvent::Born { controllers: controllers.to_vec(), id, dir: dir(path) }
    }

    fn died(controllers: &[Controller], id: u64, path: &str) -> CgroupEvent {
        CgroupEvent::Died { controllers: controllers.to_vec(), id, dir: dir(path) }
    }

    #[test]
    fn a_directory_lives_from_its_first_hierarchy_to_its_last() {
        let mut tree = keeper();
        assert_eq!(tree.apply(&born(&[Cpu], 1, "kubepods/pod1")), TreeChange::Appeared);
        assert_eq!(tree.apply(&born(&[Cpuset], 9, "kubepods/pod1")), TreeChange::None);
        assert_eq!(tree.apply(&died(&[Cpu], 1, "kubepods/pod1")), TreeChange::None);
        assert!(tree.tree().dirs.contains_key(&dir("kubepods/pod1")));
        assert_eq!(tree.apply(&died(&[Cpuset], 9, "kubepods/pod1")), TreeChange::Vanished);
        assert!(tree.tree().dirs.is_empty());
    }

    #[test]
    fn a_late_death_of_an_old_id_does_not_remove_its_successor() {
        let mut tree = keeper();
        tree.apply(&born(&[Cpu], 1, "kubepods/pod1"));
        assert_eq!(tree.apply(&born(&[Cpu], 2, "kubepods/pod1")), TreeChange::Appeared);
        assert_eq!(tree.apply(&died(&[Cpu], 1, "kubepods/pod1")), TreeChange::None);
        assert_eq!(tree.id(&dir("kubepods/pod1"), Cpu), Some(2));
    }

    #[test]
    fn other_directories_are_not_in_the_tree_and_a_loss_asks_for_a_scan() {
        let mut tree = keeper();
        assert_eq!(tree.apply(&born(&[Cpu], 1, "system.slice")), TreeChange::None);
        assert_eq!(tree.apply(&CgroupEvent::Lost { count: 3 }), TreeChange::Rescan);
        tree.apply(&born(&[Cpu], 2, "kubepods/pod1"));
        tree.apply(&born(&[Cpu], 3, "kubepods/pod1/c1"));
        let found = [FoundDir { controllers: vec![Cpu], id: 7, dir: dir("kubepods/pod2") }];
        assert!(tree.replace(found.clone()));
        assert!(!tree.replace(found));
        assert_eq!(tree.tree().dirs.keys().map(CgroupDir::as_str).collect::<Vec<_>>(), ["kubepods/pod2"]);
    }

    #[test]
    fn a_parents_death_takes_what_is_beneath_it_along() {
        let mut tree = keeper();
        tree.apply(&born(&[Cpu], 2, "kubepods/pod1"));
        tree.apply(&born(&[Cpu], 3, "kubepods/pod1/c1"));
        tree.apply(&born(&[Cpu], 4, "kubepods/pod10"));
        assert_eq!(tree.apply(&died(&[Cpu], 2, "kubepods/pod1")), TreeChange::Vanished);
        assert_eq!(tree.tree().dirs.keys().map(CgroupDir::as_str).collect::<Vec<_>>(), ["kubepods/pod10"]);
    }
}
