//! Directory -> what it belongs to, collection.md 3.3: the way back from `naming`. Nothing is looked up:
//! the path alone says it, so that class-level settings need not wait for the kubelet.

use super::naming::{CgroupDriver, Naming, Runtime};
use super::path::CgroupDir;
use crate::api::qos::KubeQos;

/// What a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DirKind {
    /// `kubepods` or `kubepods.slice`.
    Kubepods,
    /// Burstable's or BestEffort's directory.
    QosClass,
    /// A pod's directory.
    Pod,
    /// A directory right under a pod's: a container or a sandbox.
    Container,
    /// Anything deeper (systemd in a container).
    Nested,
}

/// What a path beneath the kubepods root says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// What it is.
    pub kind: DirKind,
    /// The Kubernetes class; Guaranteed for the kubepods root.
    pub qos: KubeQos,
    /// The pod's UID as the name holds it: with the systemd driver `_` stands for `-` (see `is_uid`).
    pub pod_uid: Option<&'a str>,
    /// The container's id without its runtime, for directories in a pod's; `None` where the name is not a
    /// container's.
    pub container_id: Option<&'a str>,
}

impl Place<'_> {
    /// Whether the place is in the pod with this UID.
    pub fn is_uid(&self, uid: &str) -> bool {
        self.pod_uid.is_some_and(|text| same_uid(text, uid))
    }
}

/// Whether a UID and its text in a directory's name agree, `-` and `_` counting as one.
pub fn same_uid(text: &str, uid: &str) -> bool {
    let fold = |byte: u8| if byte == b'_' { b'-' } else { byte };
    text.len() == uid.len() && text.bytes().map(fold).eq(uid.bytes().map(fold))
}

/// The class that a path names, as the reference takes it from any text (hooks.md 1).
pub fn kube_qos_of_path(path: &str) -> KubeQos {
    if path.contains("besteffort") {
        KubeQos::BestEffort
    } else if path.contains("burstable") {
        KubeQos::Burstable
    } else {
        KubeQos::Guaranteed
    }
}

impl Naming {
    /// What `dir` belongs to; `None` if it is not the kubepods root or beneath it, or lies where no pod is.
    pub fn classify<'a>(&self, dir: &'a CgroupDir) -> Option<Place<'a>> {
        let below = dir.as_str().strip_prefix(self.kubepods().as_str())?;
        let mut parts = match below {
            "" => return Some(Place::of(DirKind::Kubepods, KubeQos::Guaranteed)),
            below => below.strip_prefix('/')?.split('/'),
        };
        let first = parts.next()?;
        let class = [KubeQos::Burstable, KubeQos::BestEffort];
        let (qos, pod) = match class.into_iter().find(|qos| self.qos_dir(*qos).name() == first) {
            None => (KubeQos::Guaranteed, first),
            Some(qos) => match parts.next() {
                None => return Some(Place::of(DirKind::QosClass, qos)),
                Some(pod) => (qos, pod),
            },
        };
        let pod_uid = Some(self.pod_uid_of(qos, pod).filter(|uid| !uid.is_empty())?);
        let Some(container) = parts.next() else {
            return Some(Place { pod_uid, ..Place::of(DirKind::Pod, qos) });
        };
        let kind = if parts.next().is_some() { DirKind::Nested } else { DirKind::Container };
        let container_id = container_id_of(self.driver(), container).filter(|id| !id.is_empty());
        Some(Place { kind, qos, pod_uid, container_id })
    }

    fn pod_uid_of<'a>(&self, qos: KubeQos, name: &'a str) -> Option<&'a str> {
        match self.driver() {
            CgroupDriver::Cgroupfs => name.strip_prefix("pod"),
            CgroupDriver::Systemd => {
                let slice = self.qos_dir(qos).name().strip_suffix(".slice")?;
                name.strip_prefix(slice)?.strip_prefix("-pod")?.strip_suffix(".slice")
            }
        }
    }

    /// The UID text in a pod directory's name, whatever its class.
    pub fn parse_pod_dir<'a>(&self, name: &'a str) -> Option<&'a str> {
        [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort]
            .into_iter()
            .find_map(|qos| self.pod_uid_of(qos, name))
    }
}

impl Place<'_> {
    const fn of(kind: DirKind, qos: KubeQos) -> Self {
        Self { kind, qos, pod_uid: None, container_id: None }
    }
}

/// The container id in a directory's name. With cgroupfs the name is the id; with systemd it is a scope of
/// one of the four runtimes, or cri-o's `crio-<id>` alone.
pub fn container_id_of(driver: CgroupDriver, name: &str) -> Option<&str> {
    if driver == CgroupDriver::Cgroupfs {
        return Some(name);
    }
    let (stem, is_scope) = match name.strip_suffix(".scope") {
        Some(stem) => (stem, true),
        None => (name, false),
    };
    let id = Runtime::ALL.into_iter().find_map(|runtime| {
        let id = stem.strip_prefix(runtime.scope_prefix())?;
        (is_scope || runtime == Runtime::Crio).then_some(id)
    })?;
    // cri-o's monitor process has a scope of its own beside the container's.
    if stem.starts_with("crio-conmon-") { None } else { Some(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(driver: CgroupDriver, root: &str, dir: &str) -> Option<String> {
        let dir = CgroupDir::new(dir).unwrap();
        let naming = Naming::new(driver, root).unwrap();
        naming.classify(&dir).map(|place| {
            let Place { kind, qos, pod_uid, container_id } = place;
            format!("{kind:?} {qos:?} {} {}", pod_uid.unwrap_or("-"), container_id.unwrap_or("-"))
        })
    }

    #[test]
    fn a_path_alone_tells_class_pod_and_container() {
        let systemd = |dir: &str| classify(CgroupDriver::Systemd, "", dir);
        let be = "kubepods.slice/kubepods-besteffort.slice";
        let pod = format!("{be}/kubepods-besteffort-poda_b.slice");
        for (dir, expected) in [
            ("kubepods.slice".to_owned(), Some("Kubepods Guaranteed - -")),
            (be.to_owned(), Some("QosClass BestEffort - -")),
            (pod.clone(), Some("Pod BestEffort a_b -")),
            (format!("{pod}/cri-containerd-9f.scope"), Some("Container BestEffort a_b 9f")),
            (format!("{pod}/pouch-9f.scope"), Some("Container BestEffort a_b 9f")),
            (format!("{pod}/crio-conmon-9f.scope"), Some("Container BestEffort a_b -")),
            (format!("{pod}/crio-9f.scope/container"), Some("Nested BestEffort a_b 9f")),
            ("kubepods.slice/kubepods-poda_b.slice".to_owned(), Some("Pod Guaranteed a_b -")),
            ("kubepods.slice/other.slice".to_owned(), None),
            (format!("{be}/kubepods-burstable-podx.slice"), None),
            ("kubepods.slicex".to_owned(), None),
            ("system.slice".to_owned(), None),
        ] {
            assert_eq!(systemd(&dir).as_deref(), expected, "{dir}");
        }
        let cgroupfs = |dir: &str| classify(CgroupDriver::Cgroupfs, "kubelet", dir);
        assert_eq!(
            cgroupfs("kubelet/kubepods/burstable/poda-b/c1/init").as_deref(),
            Some("Nested Burstable a-b c1")
        );
        assert_eq!(cgroupfs("kubepods/burstable/poda-b"), None, "not under the kubelet's root");
        assert_eq!(cgroupfs("kubelet/kubepods/pod"), None, "no UID");
    }

    #[test]
    fn directories_and_their_places_agree_both_ways() {
        for driver in [CgroupDriver::Systemd, CgroupDriver::Cgroupfs] {
            for root in ["", "kubelet", "a-b/c"] {
                let naming = Naming::new(driver, root).unwrap();
                for qos in [KubeQos::Guaranteed, KubeQos::Burstable, KubeQos::BestEffort] {
                    let pod = naming.pod_dir(qos, "7712555c-ce62").unwrap();
                    for scheme in ["docker", "containerd", "pouch", "cri-o"] {
                        let dir = naming.container_dir(&pod, &format!("{scheme}://9f")).unwrap();
                        let place = naming.classify(&dir).unwrap();
                        assert_eq!((place.kind, place.qos), (DirKind::Container, qos), "{dir}");
                        assert!(place.is_uid("7712555c-ce62") && place.container_id == Some("9f"), "{dir}");
                    }
                }
            }
        }
    }

    #[test]
    fn uids_match_with_either_separator() {
        assert!(same_uid("a_b_c", "a-b-c") && same_uid("a-b", "a-b") && same_uid("a_b", "a_b"));
        assert!(!same_uid("a_b", "a-bc") && !same_uid("", "a"));
    }
}
