//! Which driver names the pods' directories, decided without waiting (design.md 4): the flag, else what the
//! kubelet states, else the first `kubepods` directory, now or when it appears.

use super::kubelet::KubeletCgroups;
use super::layout::Layout;
use super::naming::{CgroupDriver, Naming};
use super::path::{CgroupDir, CgroupDirError};
use super::resource::Controller;

/// What decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverSource {
    /// `--cgroup-driver`
    Flag,
    /// The kubelet's command line or configuration.
    Kubelet,
    /// A directory that exists.
    Directory,
}

/// The naming of this node's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detected {
    /// How directories are named.
    pub naming: Naming,
    /// What decided.
    pub source: DriverSource,
    /// The other driver's directory exists too or alone (a migration, a wrong flag): worth a warning (C056).
    pub other_exists: bool,
}

/// Decides the naming; `None` as long as nothing says it. `flag` is `--cgroup-driver` unless it is `auto`,
/// `cgroup_root` is `--kubelet-cgroup-root` unless it is empty.
///
/// With systemd a cgroup root has two meanings (`Naming::candidates`): the directory that exists decides
/// between them, so that there even the flag has to wait for it.
pub fn detect(
    flag: Option<CgroupDriver>,
    cgroup_root: &str,
    kubelet: Option<&KubeletCgroups>,
    layout: &Layout,
) -> Result<Option<Detected>, CgroupDirError> {
    let stated_root = kubelet.and_then(|kubelet| kubelet.cgroup_root.as_deref()).unwrap_or("");
    let root = if cgroup_root.is_empty() { stated_root } else { cgroup_root };
    let [systemd, cgroupfs] = DRIVERS.map(|driver| Naming::candidates(driver, root));
    let (systemd, cgroupfs) = (Candidates::new(systemd?, layout), Candidates::new(cgroupfs?, layout));
    let stated = kubelet.and_then(|kubelet| kubelet.driver);
    let (driver, source) = match (flag, stated) {
        (Some(driver), _) => (driver, DriverSource::Flag),
        (None, Some(driver)) => (driver, DriverSource::Kubelet),
        (None, None) if systemd.there.is_some() => (CgroupDriver::Systemd, DriverSource::Directory),
        (None, None) if cgroupfs.there.is_some() => (CgroupDriver::Cgroupfs, DriverSource::Directory),
        (None, None) => return Ok(None),
    };
    let (own, other) = match driver {
        CgroupDriver::Systemd => (systemd, cgroupfs),
        CgroupDriver::Cgroupfs => (cgroupfs, systemd),
    };
    let other_exists = other.there.is_some();
    Ok(own.decide().map(|naming| Detected { naming, source, other_exists }))
}

/// The naming that a directory's birth gives away: it is a kubepods root or beneath one. `flag` and
/// `cgroup_root` as for `detect`.
pub fn detect_from_birth(
    dir: &CgroupDir,
    flag: Option<CgroupDriver>,
    cgroup_root: &str,
) -> Result<Option<Naming>, CgroupDirError> {
    for driver in DRIVERS.into_iter().filter(|driver| flag.is_none_or(|flag| flag == *driver)) {
        let mut namings = Naming::candidates(driver, cgroup_root)?.into_iter();
        if let Some(naming) = namings.find(|naming| naming.kubepods().contains(dir)) {
            return Ok(Some(naming));
        }
    }
    Ok(None)
}

/// systemd first: where both directories exist and nothing else decides, it is the likelier one.
const DRIVERS: [CgroupDriver; 2] = [CgroupDriver::Systemd, CgroupDriver::Cgroupfs];

/// What the cgroup root can mean with one driver.
struct Candidates {
    /// The only meaning, if there is but one.
    only: Option<Naming>,
    /// The first whose kubepods directory exists.
    there: Option<Naming>,
}

impl Candidates {
    fn new(namings: Vec<Naming>, layout: &Layout) -> Self {
        let only = match namings.as_slice() {
            [only] => Some(only.clone()),
            _ => None,
        };
        let hierarchy = layout.hierarchy_root(Controller::Cpu);
        let exists =
            |naming: &Naming| hierarchy.is_some_and(|root| root.join(naming.kubepods().as_str()).is_dir());
        Self { only, there: namings.into_iter().find(exists) }
    }

    fn decide(self) -> Option<Naming> {
        self.there.or(self.only)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(directories: &[&str]) -> (tempfile::TempDir, Layout) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("cgroup.controllers")).unwrap();
        for directory in directories {
            std::fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        let layout = Layout::of_folder(folder.path()).unwrap();
        (folder, layout)
    }

    fn stated(driver: CgroupDriver) -> KubeletCgroups {
        KubeletCgroups { driver: Some(driver), cgroup_root: None }
    }

    #[test]
    fn c056_directories_tell_the_driver_and_the_kubelet_decides_between_two() {
        use CgroupDriver::{Cgroupfs, Systemd};
        for (directories, kubelet, driver, source, other) in [
            (&["kubepods.slice"][..], None, Systemd, DriverSource::Directory, false),
            (&["kubepods"], None, Cgroupfs, DriverSource::Directory, false),
            (&["kubepods", "kubepods.slice"], Some(Systemd), Systemd, DriverSource::Kubelet, true),
            (&["kubepods", "kubepods.slice"], Some(Cgroupfs), Cgroupfs, DriverSource::Kubelet, true),
            (&["kubepods.slice"], Some(Cgroupfs), Cgroupfs, DriverSource::Kubelet, true),
            (&[], Some(Systemd), Systemd, DriverSource::Kubelet, false),
        ] {
            let (_folder, layout) = host(directories);
            let kubelet = kubelet.map(stated);
            let found = detect(None, "", kubelet.as_ref(), &layout).unwrap().unwrap();
            assert_eq!(
                (found.naming.driver(), found.source, found.other_exists),
                (driver, source, other),
                "{directories:?} {kubelet:?}"
            );
        }
    }

    #[test]
    fn nothing_is_decided_before_something_says_it_and_the_flag_wins() {
        let (_folder, layout) = host(&[]);
        let silent = KubeletCgroups::default();
        assert!(detect(None, "", Some(&silent), &layout).unwrap().is_none());
        let kubelet = stated(CgroupDriver::Cgroupfs);
        let found = detect(Some(CgroupDriver::Systemd), "", Some(&kubelet), &layout).unwrap().unwrap();
        assert_eq!((found.naming.driver(), found.source), (CgroupDriver::Systemd, DriverSource::Flag));
    }

    #[test]
    fn c057_the_kubelets_cgroup_root_is_looked_under() {
        let (_folder, layout) = host(&["kubelet.slice/kubelet-kubepods.slice", "kubepods"]);
        let root = KubeletCgroups { driver: None, cgroup_root: Some("/kubelet".into()) };
        let found = detect(None, "", Some(&root), &layout).unwrap().unwrap();
        assert_eq!(found.naming.kubepods().as_str(), "kubelet.slice/kubelet-kubepods.slice");
        let (_folder, inside) = host(&["kubelet/kubepods.slice"]);
        let found = detect(Some(CgroupDriver::Systemd), "kubelet", None, &inside).unwrap().unwrap();
        assert_eq!(found.naming.kubepods().as_str(), "kubelet/kubepods.slice", "a whole node inside");
        let (_folder, neither) = host(&[]);
        assert!(detect(Some(CgroupDriver::Systemd), "kubelet", None, &neither).unwrap().is_none());
        let flag = detect(None, "/", Some(&root), &layout).unwrap().unwrap();
        assert_eq!(flag.naming.kubepods().as_str(), "kubepods", "the agent's own flag wins");
    }

    #[test]
    fn a_birth_decides_when_nothing_was_there() {
        let birth = |dir, root| {
            let naming = detect_from_birth(&CgroupDir::new(dir).unwrap(), None, root).unwrap();
            naming.map(|naming| (naming.driver(), naming.kubepods().to_string()))
        };
        assert_eq!(birth("kubepods.slice", "").unwrap().0, CgroupDriver::Systemd);
        assert_eq!(birth("kubepods/burstable/podx", "").unwrap().0, CgroupDriver::Cgroupfs);
        assert_eq!(birth("system.slice", ""), None);
        assert_eq!(birth("kubepods", "kubelet"), None);
        for kubepods in ["k.slice/k-kubepods.slice", "k/kubepods.slice"] {
            assert_eq!(birth(kubepods, "k"), Some((CgroupDriver::Systemd, kubepods.to_owned())));
        }
        let dir = CgroupDir::new("kubepods").unwrap();
        assert_eq!(detect_from_birth(&dir, Some(CgroupDriver::Systemd), "").unwrap(), None, "the flag wins");
    }
}
