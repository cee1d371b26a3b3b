//! Names of cgroup directories as kubelet and runtimes give them, collection.md 3.3.

/// The cgroup driver, which decides the form of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// `kubepods.slice/kubepods-burstable.slice/...`
    Systemd,
    /// `kubepods/burstable/...`
    Cgroupfs,
}

/// The Kubernetes QoS class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Requests equal limits; directly under the kubepods directory.
    Guaranteed,
    /// Some request or limit.
    Burstable,
    /// Neither.
    BestEffort,
}

/// The container runtime, as in `<runtime>://<id>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// `docker://`
    Docker,
    /// `containerd://`
    Containerd,
    /// `cri-o://`
    CriO,
    /// `pouch://`
    Pouch,
}

impl Class {
    /// As `status.qosClass` says it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }

    fn part(self) -> Option<&'static str> {
        match self {
            Self::Guaranteed => None,
            Self::Burstable => Some("burstable"),
            Self::BestEffort => Some("besteffort"),
        }
    }
}

impl Runtime {
    /// The scheme of a container ID.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Pouch => "pouch",
        }
    }

    fn scope_prefix(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "cri-containerd",
            Self::CriO => "crio",
            Self::Pouch => "pouch",
        }
    }
}

impl Driver {
    /// As `--cgroup-driver` takes it.
    pub fn flag(self) -> &'static str {
        match self {
            Self::Systemd => "systemd",
            Self::Cgroupfs => "cgroupfs",
        }
    }

    /// The kubepods directory, relative to the kubelet's cgroup root.
    pub fn kubepods(self) -> &'static str {
        match self {
            Self::Systemd => "kubepods.slice",
            Self::Cgroupfs => "kubepods",
        }
    }

    /// The directory of a QoS class.
    pub fn class_dir(self, class: Class) -> String {
        let kubepods = self.kubepods();
        match (class.part(), self) {
            (None, _) => kubepods.to_owned(),
            (Some(part), Self::Systemd) => format!("{kubepods}/kubepods-{part}.slice"),
            (Some(part), Self::Cgroupfs) => format!("{kubepods}/{part}"),
        }
    }

    /// The directory of a pod.
    pub fn pod_dir(self, class: Class, uid: &str) -> String {
        let parent = self.class_dir(class);
        match self {
            Self::Systemd => {
                let infix = class.part().map(|part| format!("-{part}")).unwrap_or_default();
                format!("{parent}/kubepods{infix}-pod{}.slice", uid.replace('-', "_"))
            }
            Self::Cgroupfs => format!("{parent}/pod{uid}"),
        }
    }

    /// The directory of a container.
    pub fn container_dir(self, class: Class, uid: &str, runtime: Runtime, id: &str) -> String {
        let parent = self.pod_dir(class, uid);
        match self {
            Self::Systemd => format!("{parent}/{}-{id}.scope", runtime.scope_prefix()),
            Self::Cgroupfs => format!("{parent}/{id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_and_cgroupfs_names_follow_the_kubelet() {
        let systemd = Driver::Systemd.container_dir(Class::Burstable, "a-b", Runtime::Containerd, "f00");
        assert_eq!(
            systemd,
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice/cri-containerd-f00.scope"
        );
        let cgroupfs = Driver::Cgroupfs.container_dir(Class::Guaranteed, "a-b", Runtime::Docker, "f00");
        assert_eq!(cgroupfs, "kubepods/poda-b/f00");
    }
}
