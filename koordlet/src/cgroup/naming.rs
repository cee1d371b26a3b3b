//! (QoS class, pod UID, container id) -> directory, collection.md 3.3 and 3.4. `place` goes the other way.

use std::fmt;
use std::str::FromStr;

use super::path::{CgroupDir, CgroupDirError};
use crate::api::node_slo::HostApplication;
use crate::api::qos::{KubeQos, QosClass};

/// Who names the kubelet's cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CgroupDriver {
    /// Slices and scopes: `kubepods.slice/...`
    Systemd,
    /// Plain folders: `kubepods/...`
    Cgroupfs,
}

/// Text that names no driver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a cgroup driver: systemd or cgroupfs")]
pub struct CgroupDriverError(String);

impl FromStr for CgroupDriver {
    type Err = CgroupDriverError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "systemd" => Ok(Self::Systemd),
            "cgroupfs" => Ok(Self::Cgroupfs),
            _ => Err(CgroupDriverError(text.chars().take(80).collect())),
        }
    }
}

impl fmt::Display for CgroupDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Systemd => "systemd",
            Self::Cgroupfs => "cgroupfs",
        })
    }
}

/// The runtime of a container id's scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// `docker://`
    Docker,
    /// `containerd://`
    Containerd,
    /// `pouch://`
    Pouch,
    /// `cri-o://`
    Crio,
}

impl Runtime {
    /// Every runtime.
    pub(super) const ALL: [Self; 4] = [Self::Docker, Self::Containerd, Self::Pouch, Self::Crio];

    /// The scheme of its container ids.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::Pouch => "pouch",
            Self::Crio => "cri-o",
        }
    }

    /// What its scope names start with.
    pub(super) const fn scope_prefix(self) -> &'static str {
        match self {
            Self::Docker => "docker-",
            Self::Containerd => "cri-containerd-",
            Self::Pouch => "pouch-",
            Self::Crio => "crio-",
        }
    }
}

/// A container id without a known runtime or without an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContainerIdError {
    /// The scheme is missing or unknown.
    #[error("container id {0:?} does not start with docker://, containerd://, pouch:// or cri-o://")]
    Scheme(String),
    /// With this id the directory would be another one than the container's.
    #[error("container id {id:?} names no directory")]
    Dir {
        /// The id as given.
        id: String,
        /// The cause.
        #[source]
        source: CgroupDirError,
    },
}

/// Splits `<runtime>://<id>`. Text after a further `://` is dropped, as the reference does.
pub fn split_container_id(text: &str) -> Result<(Runtime, &str), ContainerIdError> {
    let error = || ContainerIdError::Scheme(text.chars().take(120).collect());
    let (scheme, rest) = text.split_once("://").ok_or_else(error)?;
    let runtime = Runtime::ALL.into_iter().find(|runtime| runtime.scheme() == scheme).ok_or_else(error)?;
    Ok((runtime, rest.split_once("://").map_or(rest, |(id, _)| id)))
}

/// How the kubelet of this node names its directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    driver: CgroupDriver,
    kubelet_cgroup_root: String,
    /// Directories of Guaranteed (the root of pods), Burstable, BestEffort.
    dirs: [CgroupDir; 3],
}

impl Naming {
    /// For `--kubelet-cgroup-root` as the kubelet names what is beneath its `cgroupRoot`: empty or `/` as a
    /// rule, `/kubelet` on kind nodes. With systemd the root becomes slices of its own (C057).
    pub fn new(driver: CgroupDriver, kubelet_cgroup_root: &str) -> Result<Self, CgroupDirError> {
        let root = normal_root(kubelet_cgroup_root)?;
        let names: Vec<&str> = root.split('/').filter(|part| !part.is_empty()).collect();
        Self::under("", driver, &names, &root)
    }

    /// For a directory in which a whole node lives with its usual names, as a node in a container is seen
    /// from its host: `<root>/kubepods.slice/...`.
    pub fn inside(driver: CgroupDriver, root: &str) -> Result<Self, CgroupDirError> {
        let root = normal_root(root)?;
        Self::under(&root, driver, &[], &root)
    }

    /// The namings that `--kubelet-cgroup-root` can mean; more than one only with systemd and a root.
    pub fn candidates(driver: CgroupDriver, kubelet_cgroup_root: &str) -> Result<Vec<Self>, CgroupDirError> {
        let mut namings = vec![Self::new(driver, kubelet_cgroup_root)?];
        let inside = Self::inside(driver, kubelet_cgroup_root)?;
        if !namings.contains(&inside) {
            namings.push(inside);
        }
        Ok(namings)
    }

    /// Names `above` and kubepods, as directories in `parent`.
    fn under(parent: &str, driver: CgroupDriver, above: &[&str], root: &str) -> Result<Self, CgroupDirError> {
        let dir = |class: &[&str]| {
            let names = [above, &["kubepods"], class].concat();
            CgroupDir::new(&format!("{parent}/{}", path_of(driver, &names)))
        };
        let dirs = [dir(&[])?, dir(&["burstable"])?, dir(&["besteffort"])?];
        Ok(Self { driver, kubelet_cgroup_root: root.to_owned(), dirs })
    }

    /// The driver.
    pub fn driver(&self) -> CgroupDriver {
        self.driver
    }

    /// The kubelet's cgroup root without outer slashes; empty as a rule.
    pub fn kubelet_cgroup_root(&self) -> &str {
        &self.kubelet_cgroup_root
    }

    /// The root of all pods.
    pub fn kubepods(&self) -> &CgroupDir {
        &self.dirs[0]
    }

    /// The directory of a class; Guaranteed's is the root of all pods.
    pub fn qos_dir(&self, qos: KubeQos) -> &CgroupDir {
        match qos {
            KubeQos::Guaranteed => &self.dirs[0],
            KubeQos::Burstable => &self.dirs[1],
            KubeQos::BestEffort => &self.dirs[2],
        }
    }

    /// A pod's directory. `uid` is the one that the kubelet reports.
    pub fn pod_dir(&self, qos: KubeQos, uid: &str) -> Result<CgroupDir, CgroupDirError> {
        if uid.is_empty() || uid.contains('/') {
            return Err(CgroupDirError::new(uid, "a pod UID is one part of a path"));
        }
        let class = self.qos_dir(qos);
        match self.driver {
            CgroupDriver::Cgroupfs => class.join(&format!("pod{uid}")),
            CgroupDriver::Systemd => {
                let slice = class.name().trim_end_matches(".slice");
                class.join(&format!("{slice}-pod{}.slice", uid.replace('-', "_")))
            }
        }
    }

    /// The directory of a container with the full id `<runtime>://<id>` in its pod's directory.
    pub fn container_dir(
        &self,
        pod_dir: &CgroupDir,
        container_id: &str,
    ) -> Result<CgroupDir, ContainerIdError> {
        let (runtime, id) = split_container_id(container_id)?;
        let error = |source| ContainerIdError::Dir { id: container_id.chars().take(120).collect(), source };
        if id.contains('/') {
            return Err(error(CgroupDirError::new(id, "a container id is one part of a path")));
        }
        let name = match self.driver {
            // An empty id would name the pod's own directory: `join` refuses it.
            CgroupDriver::Cgroupfs if id.is_empty() => {
                return Err(error(CgroupDirError::new(pod_dir.as_str(), "the id is empty")));
            }
            CgroupDriver::Cgroupfs => id.to_owned(),
            CgroupDriver::Systemd => format!("{}{id}.scope", runtime.scope_prefix()),
        };
        pod_dir.join(&name).map_err(error)
    }

    /// The directory of a host application, qos.md 1.5. The path comes from the API: `..` and absolute parts
    /// are refused (hooks.md 16.1).
    pub fn host_app_dir(&self, app: &HostApplication) -> Result<CgroupDir, CgroupDirError> {
        let (base, parts) = match &app.cgroup_path {
            None => {
                let class = match QosClass::from_label(&app.qos) {
                    Some(QosClass::Lse | QosClass::Lsr | QosClass::Ls) => "host-latency-sensitive",
                    Some(QosClass::Be) => "host-best-effort",
                    Some(QosClass::System) | None => "",
                };
                (class, [app.name.as_str(), ""])
            }
            Some(path) => {
                let base = match path.base.as_str() {
                    "Kubepods" => self.kubepods().as_str(),
                    "KubepodsBurstable" => self.qos_dir(KubeQos::Burstable).as_str(),
                    "KubepodsBesteffort" => self.qos_dir(KubeQos::BestEffort).as_str(),
                    _ => "",
                };
                (base, [path.parent_dir.as_str(), path.relative_path.as_str()])
            }
        };
        let mut dir = base.to_owned();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            if part.starts_with('/') {
                return Err(CgroupDirError::new(part, "a host application's path is relative to its base"));
            }
            dir.push('/');
            dir.push_str(part.trim_end_matches('/'));
        }
        CgroupDir::new(&dir)
    }
}

/// A cgroup root without outer slashes, empty for the root itself.
fn normal_root(root: &str) -> Result<String, CgroupDirError> {
    match root.trim_matches('/') {
        "" => Ok(String::new()),
        root => CgroupDir::new(root).map(|dir| dir.to_string()),
    }
}

/// The path of nested cgroup names: the kubelet's own naming.
fn path_of(driver: CgroupDriver, names: &[&str]) -> String {
    match driver {
        CgroupDriver::Cgroupfs => names.join("/"),
        // Each slice repeats the names above it; a `-` within a name becomes `_`.
        CgroupDriver::Systemd => {
            let escaped: Vec<String> = names.iter().map(|name| name.replace('-', "_")).collect();
            let slices = (1..=escaped.len()).map(|n| format!("{}.slice", escaped[..n].join("-")));
            slices.collect::<Vec<_>>().join("/")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::node_slo::HostCgroupPath;

    fn dirs(driver: CgroupDriver, root: &str, uid: &str, container: &str) -> [String; 2] {
        let naming = Naming::new(driver, root).unwrap();
        let pod = naming.pod_dir(KubeQos::BestEffort, uid).unwrap();
        [pod.to_string(), naming.container_dir(&pod, container).unwrap().to_string()]
    }

    #[test]
    fn worked_example_13_of_the_collection() {
        let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
        let pod = naming.pod_dir(KubeQos::Burstable, "a-b").unwrap();
        assert_eq!(
            naming.container_dir(&pod, "containerd://c1").unwrap().as_str(),
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b.slice/cri-containerd-c1.scope"
        );
        let guaranteed = naming.pod_dir(KubeQos::Guaranteed, "a-b").unwrap();
        assert_eq!(guaranteed.as_str(), "kubepods.slice/kubepods-poda_b.slice");
        let [pod, container] = dirs(CgroupDriver::Cgroupfs, "/", "a-b", "cri-o://c1");
        assert_eq!(
            [pod.as_str(), &container],
            ["kubepods/besteffort/poda-b", "kubepods/besteffort/poda-b/c1"]
        );
    }

    #[test]
    fn c057_pods_nest_under_the_kubelets_cgroup_root() {
        let [pod, _] = dirs(CgroupDriver::Systemd, "/kubelet", "a-b", "docker://1");
        assert_eq!(
            pod,
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/\
             kubelet-kubepods-besteffort-poda_b.slice"
        );
        let [pod, _] = dirs(CgroupDriver::Cgroupfs, "/kubelet/", "a-b", "docker://1");
        assert_eq!(pod, "kubelet/kubepods/besteffort/poda-b");
        let [pod, _] = dirs(CgroupDriver::Systemd, "my-root", "x", "docker://1");
        assert!(pod.starts_with("my_root.slice/my_root-kubepods.slice/"), "{pod}");
    }

    #[test]
    fn a_node_in_a_container_has_its_usual_names_inside() {
        let naming = Naming::inside(CgroupDriver::Systemd, "/docker/4f-1/").unwrap();
        let pod = naming.pod_dir(KubeQos::BestEffort, "a-b").unwrap();
        assert_eq!(
            pod.as_str(),
            "docker/4f-1/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice"
        );
        let count = |driver, root| Naming::candidates(driver, root).unwrap().len();
        assert_eq!((count(CgroupDriver::Systemd, "x"), count(CgroupDriver::Systemd, "/")), (2, 1));
        assert_eq!(count(CgroupDriver::Cgroupfs, "x"), 1);
    }

    #[test]
    fn c052_ids_that_would_lead_elsewhere_are_refused() {
        let naming = Naming::new(CgroupDriver::Cgroupfs, "").unwrap();
        for uid in ["", "../x", "a/b", "/"] {
            assert!(naming.pod_dir(KubeQos::Burstable, uid).is_err(), "{uid:?}");
        }
        let pod = naming.pod_dir(KubeQos::Burstable, "u").unwrap();
        for id in ["containerd://", "docker://..", "docker://.", "docker://a/b", "crio://9f", "9f", ""] {
            assert!(naming.container_dir(&pod, id).is_err(), "{id:?}");
        }
        assert!(Naming::new(CgroupDriver::Cgroupfs, "/../x").is_err());
    }

    #[test]
    fn host_application_paths_stay_beneath_their_base() {
        let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
        let dir = |base: &str, parent_dir: &str, relative_path: &str| {
            naming.host_app_dir(&HostApplication {
                cgroup_path: Some(HostCgroupPath {
                    base: base.into(),
                    parent_dir: parent_dir.into(),
                    relative_path: relative_path.into(),
                }),
                ..HostApplication::default()
            })
        };
        assert_eq!(dir("Kubepods", "p/", "q").unwrap().as_str(), "kubepods.slice/p/q");
        assert_eq!(dir("CgroupRoot", "", "r/s").unwrap().as_str(), "r/s");
        for (base, parent, relative) in [
            ("CgroupRoot", "", ""),
            ("CgroupRoot", "/p", ""),
            ("Kubepods", "..", "q"),
            ("Kubepods", "p", "../../q"),
        ] {
            assert!(dir(base, parent, relative).is_err(), "{base} {parent} {relative}");
        }
    }
}
