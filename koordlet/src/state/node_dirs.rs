//! The cgroup directories that are no pod's: those of the Kubernetes classes and of the host's own applications.

use crate::api::node_slo::HostApplication;
use crate::api::qos::KubeQos;
use crate::cgroup::path::CgroupDir;

/// Directories beside those of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeDirs {
    /// The class directories, guaranteed (the kubepods root itself), burstable, best effort; empty until the driver is
    /// known. They need not exist.
    pub classes: Vec<(KubeQos, CgroupDir)>,
    /// Host applications of the policy whose directory could be named.
    pub host_apps: Vec<(HostApplication, CgroupDir)>,
}

impl NodeDirs {
    /// The directory of a class.
    pub fn class(&self, class: KubeQos) -> Option<&CgroupDir> {
        self.classes.iter().find(|(each, _)| *each == class).map(|(_, dir)| dir)
    }
}
