//! A host whose cgroups are a folder, and pods in it, for the tests of collectors.

use std::fs;
use std::sync::Arc;

use crate::api::pod::Pod;
use crate::api::qos::KubeQos;
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::host::roots::Roots;
use crate::state::pods::{ContainerEntry, ContainerKind, PodEntry, PodTable};

pub(super) struct FolderHost {
    root: tempfile::TempDir,
}

impl FolderHost {
    /// With these cgroup folders, e.g. `cpuacct`; `cgroup.controllers` makes it v2.
    pub(super) fn new(folders: &[&str]) -> Self {
        let host = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(host.root.path().join("cgroup")).unwrap();
        for folder in folders {
            if *folder == "cgroup.controllers" {
                host.put("cgroup/cgroup.controllers", "");
            } else {
                fs::create_dir_all(host.root.path().join("cgroup").join(folder)).unwrap();
            }
        }
        host
    }

    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    pub(super) fn put(&self, file: &str, text: &str) {
        let path = self.root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn remove(&self, dir: &str) {
        fs::remove_dir_all(self.root.path().join(dir)).unwrap();
    }

    pub(super) fn layout(&self) -> Arc<Layout> {
        Arc::new(Layout::of_folder(&self.root.path().join("cgroup")).unwrap())
    }

    pub(super) fn roots(&self) -> Roots {
        let root = self.root.path();
        let (cgroup, proc, sys) = (root.join("cgroup"), root.join("proc"), root.join("sys"));
        Roots { cgroup, proc, sys_fs: sys.join("fs"), sys, ..Roots::host() }
    }
}

pub(super) fn dir(path: &str) -> CgroupDir {
    CgroupDir::new(path).unwrap()
}

/// Pods by UID and directory, each with a container `containerd://<uid>-c` in `<dir>/c`.
pub(super) fn pods(pods: &[(&str, &str)]) -> Arc<PodTable> {
    let entry = |(uid, pod): &(&str, &str)| PodEntry {
        pod: Pod::default().into(),
        uid: (*uid).into(),
        kube_qos: KubeQos::Burstable,
        qos: None,
        dir: dir(pod),
        containers: vec![ContainerEntry {
            name: "c".into(),
            kind: ContainerKind::App,
            index: 0,
            id: Some(format!("containerd://{uid}-c")),
            dir: Some(dir(&format!("{pod}/c"))),
        }],
        hooks_live: false,
    };
    let pods = pods.iter().map(entry).map(|entry| (Arc::clone(&entry.uid), Arc::new(entry))).collect();
    Arc::new(PodTable { pods, synced: true })
}
