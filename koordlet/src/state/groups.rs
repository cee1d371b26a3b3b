//! The groups that are sampled, in one list that lasts as long as pods and policy stay the same, and figures that
//! stand beside it: a sample of a thousand groups copies no name and builds no map.

use std::sync::Arc;

use super::pods::{ContainerKind, PodTable};
use crate::cgroup::path::CgroupDir;

/// What a group belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// A pod; its name is the UID.
    Pod,
    /// An app container; its name is the full id, `<runtime>://<id>`.
    Container,
    /// A host application; its name is that in the `NodeSLO`.
    HostApp,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What it belongs to.
    pub kind: GroupKind,
    /// UID, id or name.
    pub name: Arc<str>,
    /// Its cgroup directory, which need not exist.
    pub dir: CgroupDir,
}

/// A host application with its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAppDir {
    /// Its name in the `NodeSLO`.
    pub name: String,
    /// Its cgroup directory.
    pub dir: CgroupDir,
}

/// Groups by kind and name, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupList {
    groups: Vec<Group>,
    /// Index after the last pod.
    pods_end: usize,
    /// Index after the last container.
    containers_end: usize,
}

impl Group {
    /// A group with its directory.
    pub fn new(kind: GroupKind, name: &str, dir: CgroupDir) -> Self {
        Self { kind, name: name.into(), dir }
    }
}

impl GroupList {
    /// Sorts the groups. Of two with the same kind and name the first counts.
    pub fn new(mut groups: Vec<Group>) -> Self {
        groups.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        groups.dedup_by(|later, first| (later.kind, &later.name) == (first.kind, &first.name));
        let end = |kind| groups.partition_point(|group| group.kind <= kind);
        let (pods_end, containers_end) = (end(GroupKind::Pod), end(GroupKind::Container));
        Self { groups, pods_end, containers_end }
    }

    /// What is sampled of these pods and applications: pods, their app containers (collection.md 6.3),
    /// applications.
    pub fn of(pods: &PodTable, host_apps: &[HostAppDir]) -> Self {
        let mut groups = Vec::new();
        for pod in pods.pods.values() {
            groups.push(Group { kind: GroupKind::Pod, name: Arc::clone(&pod.uid), dir: pod.dir.clone() });
            for container in pod.containers.iter().filter(|each| each.kind == ContainerKind::App) {
                if let (Some(id), Some(dir)) = (&container.id, &container.dir) {
                    groups.push(Group::new(GroupKind::Container, id, dir.clone()));
                }
            }
        }
        let app = |app: &HostAppDir| Group::new(GroupKind::HostApp, &app.name, app.dir.clone());
        groups.extend(host_apps.iter().map(app));
        Self::new(groups)
    }

    /// All of them: pods, then containers, then host applications, each by name.
    pub fn as_slice(&self) -> &[Group] {
        &self.groups
    }

    fn range(&self, kind: GroupKind) -> std::ops::Range<usize> {
        match kind {
            GroupKind::Pod => 0..self.pods_end,
            GroupKind::Container => self.pods_end..self.containers_end,
            GroupKind::HostApp => self.containers_end..self.groups.len(),
        }
    }

    fn find(&self, kind: GroupKind, name: &str) -> Option<usize> {
        let range = self.range(kind);
        let found = self.groups.get(range.clone())?.binary_search_by(|group| (*group.name).cmp(name)).ok()?;
        Some(range.start + found)
    }
}

/// A figure for each group of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct PerGroup<T> {
    list: Arc<GroupList>,
    /// As many as the list has groups, in its order.
    figures: Vec<T>,
}

impl<T> Default for PerGroup<T> {
    fn default() -> Self {
        Self { list: Arc::default(), figures: Vec::new() }
    }
}

impl<T> PerGroup<T> {
    /// The figure of each group of the list, in its order.
    pub fn new(list: Arc<GroupList>, figure: impl FnMut(&Group) -> T) -> Self {
        let figures = list.groups.iter().map(figure).collect();
        Self { list, figures }
    }

    /// The list.
    pub fn list(&self) -> &Arc<GroupList> {
        &self.list
    }

    /// Each group with its figure: pods, then containers, then host applications, each by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Group, &T)> {
        self.list.groups.iter().zip(&self.figures)
    }

    /// Each group of one kind with its figure, by name.
    pub fn of_kind(&self, kind: GroupKind) -> impl Iterator<Item = (&Group, &T)> {
        let range = self.list.range(kind);
        let groups = self.list.groups.get(range.clone()).unwrap_or_default();
        groups.iter().zip(self.figures.get(range).unwrap_or_default())
    }

    /// The figure of one group.
    pub fn get(&self, kind: GroupKind, name: &str) -> Option<&T> {
        self.figures.get(self.list.find(kind, name)?)
    }

    /// Sets the figure of one group; a group that is not in the list is added. For records that are made by
    /// hand: it copies the list.
    pub fn set(&mut self, group: Group, figure: T) {
        let mut groups: Vec<(Group, T)> =
            self.list.groups.iter().cloned().zip(std::mem::take(&mut self.figures)).collect();
        groups.retain(|(each, _)| (each.kind, &each.name) != (group.kind, &group.name));
        groups.push((group, figure));
        groups.sort_by(|(a, _), (b, _)| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        let (groups, figures) = groups.into_iter().unzip();
        *self = Self { list: Arc::new(GroupList::new(groups)), figures };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(kind: GroupKind, name: &str) -> Group {
        Group::new(kind, name, CgroupDir::new("kubepods/x").unwrap())
    }

    #[test]
    fn groups_are_found_by_kind_and_name_and_stand_in_that_order() {
        let groups = [
            group(GroupKind::HostApp, "a"),
            group(GroupKind::Pod, "b"),
            group(GroupKind::Container, "a"),
            group(GroupKind::Pod, "a"),
            group(GroupKind::Pod, "b"),
        ];
        let figures = PerGroup::new(Arc::new(GroupList::new(groups.into())), |group| {
            format!("{:?} {}", group.kind, group.name)
        });
        assert_eq!(figures.iter().count(), 4);
        for kind in [GroupKind::Pod, GroupKind::Container, GroupKind::HostApp] {
            for (group, figure) in figures.of_kind(kind) {
                assert_eq!(*figure, format!("{kind:?} {}", group.name));
                assert_eq!(figures.get(kind, &group.name), Some(figure));
            }
        }
        assert_eq!(figures.of_kind(GroupKind::Pod).count(), 2);
        assert_eq!(figures.get(GroupKind::HostApp, "b"), None);
    }

    #[test]
    fn a_figure_that_is_set_replaces_or_adds() {
        let mut figures = PerGroup::default();
        for (name, figure) in [("b", 1), ("a", 2), ("b", 3)] {
            figures.set(group(GroupKind::Pod, name), figure);
        }
        let all: Vec<_> = figures.iter().map(|(group, figure)| (&*group.name, *figure)).collect();
        assert_eq!(all, [("a", 2), ("b", 3)]);
    }
}
