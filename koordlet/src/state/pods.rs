//! Pods joined with their cgroup directories and classes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::keys;
use crate::api::pod::{Container, Pod};
use crate::api::qos::{KubeQos, QosClass};
use crate::cgroup::naming::{ContainerIdError, Naming};
use crate::cgroup::path::{CgroupDir, CgroupDirError};

/// What kind of container it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// A regular container.
    App,
    /// An init container that runs beside the app containers.
    Sidecar,
    /// An ordinary init container.
    Init,
}

/// A container of a pod, joined from spec and status by name.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerEntry {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: ContainerKind,
    /// Index in `pod.spec.containers` (app) or `pod.spec.init_containers` (others).
    pub index: usize,
    /// Full id, `<runtime>://<id>`, once started.
    pub id: Option<String>,
    /// Its cgroup directory, once it has a valid id.
    pub dir: Option<CgroupDir>,
}

/// A pod with what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct PodEntry {
    /// The object, shared with its source.
    pub pod: Arc<Pod>,
    /// UID, shared text.
    pub uid: Arc<str>,
    /// The Kubernetes class, which decides the directory.
    pub kube_qos: KubeQos,
    /// The Koordinator class as labelled; `None` without a valid label.
    pub qos: Option<QosClass>,
    /// The pod's cgroup directory.
    pub dir: CgroupDir,
    /// Containers of the spec, app containers first.
    pub containers: Vec<ContainerEntry>,
    /// Whether a hook answer or NRI event was seen for this pod, so that the runtime asks for our values.
    pub hooks_live: bool,
}

/// All pods of this node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTable {
    /// By UID.
    pub pods: BTreeMap<Arc<str>, Arc<PodEntry>>,
    /// Whether a source of pods has delivered at least once.
    pub synced: bool,
}

/// What keeps a pod or one of its containers from having a directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// The pod is left out.
    #[error("pod {pod} has no cgroup directory")]
    Pod {
        /// Namespace and name.
        pod: String,
        /// The cause.
        #[source]
        source: CgroupDirError,
    },
    /// The pod is kept, the container is without a directory.
    #[error("container {container} of pod {pod} has no cgroup directory")]
    Container {
        /// Namespace and name of the pod.
        pod: String,
        /// Name.
        container: String,
        /// The cause.
        #[source]
        source: ContainerIdError,
    },
}

impl PodEntry {
    /// Joins a pod with its directories and classes. A container with a bad id is without a directory; only
    /// a pod that has none itself is an error.
    pub fn new(pod: impl Into<Arc<Pod>>, naming: &Naming) -> Result<Self, PodError> {
        Self::join(pod.into(), naming, &mut Vec::new())
    }

    fn join(pod: Arc<Pod>, naming: &Naming, problems: &mut Vec<PodError>) -> Result<Self, PodError> {
        let name = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        let kube_qos = pod.kube_qos();
        let uid: Arc<str> = cgroup_uid(&pod).into();
        let dir =
            naming.pod_dir(kube_qos, &uid).map_err(|source| PodError::Pod { pod: name.clone(), source })?;
        let containers = kinds(&pod)
            .map(|(kind, index, container)| {
                let status = pod.container_status(&container.name);
                let id = status.map(|status| status.container_id.clone()).filter(|id| !id.is_empty());
                let dir = id.as_deref().filter(|_| has_host_groups(&pod)).and_then(|id| {
                    let dir = naming.container_dir(&dir, id);
                    let container = container.name.clone();
                    dir.map_err(|source| {
                        problems.push(PodError::Container { pod: name.clone(), container, source });
                    })
                    .ok()
                });
                ContainerEntry { name: container.name.clone(), kind, index, id, dir }
            })
            .collect();
        let qos = pod.raw_qos();
        Ok(Self { pod, uid, kube_qos, qos, dir, containers, hooks_live: false })
    }

    /// Whether its containers have cgroups of the usual form on the host; those in a virtual machine have not.
    pub fn has_host_groups(&self) -> bool {
        has_host_groups(&self.pod)
    }

    /// The spec of one of `containers`.
    pub fn spec(&self, container: &ContainerEntry) -> Option<&Container> {
        match container.kind {
            ContainerKind::App => self.pod.spec.containers.get(container.index),
            ContainerKind::Sidecar | ContainerKind::Init => {
                self.pod.spec.init_containers.get(container.index)
            }
        }
    }

    /// The container whose directory is `dir` or contains it.
    pub fn container_of(&self, dir: &CgroupDir) -> Option<&ContainerEntry> {
        let holds = |own: &CgroupDir| own.contains(dir);
        self.containers.iter().find(|container| container.dir.as_ref().is_some_and(holds))
    }
}

impl PodTable {
    /// The table of these pods. Entries of `previous` whose pod is unchanged are shared, and knowledge that
    /// is not in the object (`hooks_live`) is kept. Pods without a directory are left out and reported;
    /// containers without one are reported.
    pub fn build(
        pods: impl IntoIterator<Item: Into<Arc<Pod>>>,
        naming: &Naming,
        previous: &Self,
    ) -> (Self, Vec<PodError>) {
        let mut problems = Vec::new();
        let mut table = Self { pods: BTreeMap::new(), synced: true };
        for pod in pods {
            let pod = pod.into();
            let last = previous.pods.get(cgroup_uid(&pod));
            match PodEntry::join(pod, naming, &mut problems) {
                Err(problem) => problems.push(problem),
                Ok(mut entry) => {
                    entry.hooks_live = last.is_some_and(|last| last.hooks_live);
                    let shared = match last {
                        Some(last) if **last == entry => Arc::clone(last),
                        _ => Arc::new(entry),
                    };
                    table.pods.insert(Arc::clone(&shared.uid), shared);
                }
            }
        }
        (table, problems)
    }

    /// The pod whose directory is `dir` or contains it.
    pub fn pod_of(&self, dir: &CgroupDir) -> Option<&Arc<PodEntry>> {
        self.pods.values().find(|pod| pod.dir.contains(dir))
    }
}

/// The UID in the pod's cgroup name. The API server shows a static pod as a mirror with a UID of its own;
/// the kubelet's is in an annotation then (collection.md 3.3).
fn cgroup_uid(pod: &Pod) -> &str {
    let mirrored = pod.metadata.annotations.get(keys::MIRROR_POD).filter(|uid| !uid.is_empty());
    mirrored.unwrap_or(&pod.metadata.uid)
}

/// Whether containers have cgroups of the usual form on the host; in a virtual machine they have not (C069).
fn has_host_groups(pod: &Pod) -> bool {
    pod.spec.runtime_class_name.as_deref().is_none_or(|class| !class.starts_with("kata"))
}

/// The containers of a spec with their kinds and places, app containers first.
fn kinds(pod: &Pod) -> impl Iterator<Item = (ContainerKind, usize, &Container)> {
    let apps = pod.spec.containers.iter().enumerate();
    let inits = pod.spec.init_containers.iter().enumerate();
    apps.map(|(index, container)| (ContainerKind::App, index, container)).chain(inits.map(
        |(index, container)| {
            let sidecar = container.is_restartable();
            (if sidecar { ContainerKind::Sidecar } else { ContainerKind::Init }, index, container)
        },
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cgroup::naming::CgroupDriver;

    fn naming() -> Naming {
        Naming::new(CgroupDriver::Systemd, "").unwrap()
    }

    fn pod(uid: &str, ids: [&str; 3]) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "n", "name": "p", "uid": uid, "labels": {"koordinator.sh/qosClass": "BE"}},
            "spec": {
                "containers": [{"name": "a"}, {"name": "b"}],
                "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}],
            },
            "status": {
                "qosClass": "BestEffort",
                "containerStatuses": [
                    {"name": "b", "containerID": ids[1]},
                    {"name": "a", "containerID": ids[0]},
                ],
                "initContainerStatuses": [{"name": "s", "containerID": ids[2]}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn containers_are_joined_by_name_whatever_the_order_of_the_statuses() {
        let entry = PodEntry::new(pod("u-1", ["containerd://1", "", "containerd://3"]), &naming()).unwrap();
        assert_eq!((entry.kube_qos, entry.qos), (KubeQos::BestEffort, Some(QosClass::Be)));
        assert_eq!(entry.dir.name(), "kubepods-besteffort-podu_1.slice");
        let found: Vec<_> =
            entry.containers.iter().map(|c| (c.name.as_str(), c.kind, c.index, c.dir.is_some())).collect();
        assert_eq!(
            found,
            [
                ("a", ContainerKind::App, 0, true),
                ("b", ContainerKind::App, 1, false),
                ("s", ContainerKind::Sidecar, 0, true),
                ("i", ContainerKind::Init, 1, false),
            ]
        );
        let sidecar = &entry.containers[2];
        assert_eq!(entry.spec(sidecar).unwrap().name, "s");
        let nested = sidecar.dir.as_ref().unwrap().join("init.scope").unwrap();
        assert_eq!(entry.container_of(&nested), Some(sidecar));
        assert_eq!(entry.container_of(&entry.dir), None);
    }

    #[test]
    fn a_bad_container_id_does_not_lose_the_pod() {
        let pods = [pod("u", ["what://1", "containerd://2", ""]), pod("../x", ["", "", ""])];
        let (table, problems) = PodTable::build(pods, &naming(), &PodTable::default());
        let dirs: Vec<_> = table.pods["u"].containers.iter().map(|c| c.dir.is_some()).collect();
        assert_eq!(dirs, [false, true, false, false]);
        assert_eq!(table.pods.len(), 1);
        assert!(matches!(&problems[0], PodError::Container { container, .. } if container == "a"));
        assert!(matches!(&problems[1], PodError::Pod { .. }), "{problems:?}");
    }

    #[test]
    fn unchanged_pods_are_shared_and_hooks_stay_known() {
        let build = |pods: Vec<Pod>, last: &PodTable| PodTable::build(pods, &naming(), last).0;
        let mut first = build(vec![pod("u", ["", "", ""])], &PodTable::default());
        let mut entry = (*first.pods["u"]).clone();
        entry.hooks_live = true;
        first.pods.insert("u".into(), Arc::new(entry));
        let same = build(vec![pod("u", ["", "", ""])], &first);
        assert!(Arc::ptr_eq(&first.pods["u"], &same.pods["u"]));
        let changed = build(vec![pod("u", ["containerd://1", "", ""])], &first);
        assert!(changed.pods["u"].hooks_live && !Arc::ptr_eq(&first.pods["u"], &changed.pods["u"]));
        let container = changed.pods["u"].containers[0].dir.clone().unwrap();
        assert_eq!(changed.pod_of(&container).unwrap().uid.as_ref(), "u");
        assert!(changed.pod_of(&CgroupDir::new("kubepods.slice").unwrap()).is_none());
    }

    #[test]
    fn c069_containers_in_virtual_machines_have_no_host_directories() {
        let mut kata = pod("u", ["containerd://1", "", ""]);
        kata.spec.runtime_class_name = Some("kata-qemu".into());
        let (table, problems) = PodTable::build([kata], &naming(), &PodTable::default());
        assert!(problems.is_empty() && table.pods["u"].containers.iter().all(|c| c.dir.is_none()));
    }

    #[test]
    fn a_mirror_pod_has_the_directory_of_its_static_pod() {
        let mut mirror = pod("api-server-uid", ["", "", ""]);
        mirror.metadata.annotations.insert(keys::MIRROR_POD.into(), "abc".into());
        let entry = PodEntry::new(mirror, &naming()).unwrap();
        assert_eq!((entry.uid.as_ref(), entry.dir.name()), ("abc", "kubepods-besteffort-podabc.slice"));
    }
}
