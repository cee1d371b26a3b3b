//! Pods joined with their cgroup directories and classes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::pod::Pod;
use crate::api::qos::{KubeQos, QosClass};
use crate::cgroup::path::CgroupDir;

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
    /// The object.
    pub pod: Pod,
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
