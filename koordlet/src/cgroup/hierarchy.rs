//! The mounted hierarchies: which controllers each holds, found in mountinfo or in a fixture's folders.

use std::fs;
use std::path::{Path, PathBuf};

use super::layout::{CgroupVersion, LayoutError, read_if_there};
use super::mounts;
use super::path::CgroupDir;
use super::resource::Controller;

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is seen.
    root: PathBuf,
    version: CgroupVersion,
    /// Those of ours that it holds.
    controllers: Vec<Controller>,
    /// The kernel's number of it, as in `/proc/<pid>/cgroup` and in cgroup tracepoints.
    id: Option<u32>,
    /// Path of `root` in the whole hierarchy, without slashes at its ends; empty for all of it.
    mounted: String,
}

impl Hierarchy {
    /// The directory at which the hierarchy is seen.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its version, for people.
    pub fn version_name(&self) -> &'static str {
        match self.version {
            CgroupVersion::V1 => "cgroup v1",
            CgroupVersion::V2 => "cgroup v2",
        }
    }

    /// Its version.
    pub(super) fn version(&self) -> CgroupVersion {
        self.version
    }

    /// The controllers that we read or write and that this hierarchy holds.
    pub fn controllers(&self) -> &[Controller] {
        &self.controllers
    }

    /// The kernel's number of the hierarchy, 0 for the unified one; `None` if `<proc>/self/cgroup` does not
    /// say (a fixture).
    pub fn id(&self) -> Option<u32> {
        self.id
    }

    /// The directory for a path that the kernel reports, which starts at the whole hierarchy's root; `None`
    /// for the root itself and for what lies outside of the part that is mounted.
    pub fn dir_of_kernel_path(&self, path: &str) -> Option<CgroupDir> {
        let path = path.trim_matches('/');
        let below = match self.mounted.as_str() {
            "" => path,
            mounted => path.strip_prefix(mounted)?.strip_prefix('/')?,
        };
        CgroupDir::new(below).ok()
    }
}

impl Hierarchy {
    fn v1(root: PathBuf, controllers: Vec<Controller>, mount_root: &str) -> Self {
        Self { root, version: CgroupVersion::V1, controllers, id: None, mounted: mounted(mount_root) }
    }

    fn v2(root: PathBuf, controllers: Vec<Controller>, mount_root: &str) -> Self {
        Self { root, version: CgroupVersion::V2, controllers, id: None, mounted: mounted(mount_root) }
    }
}

/// A mount's root as a path in the whole hierarchy. In a cgroup namespace a root above the namespace's own
/// shows as `/../..`: how far above is unknown, and the host's root is the only one that is bind-mounted.
fn mounted(mount_root: &str) -> String {
    let outside = mount_root.split('/').all(|part| part.is_empty() || part == "..");
    if outside { String::new() } else { mount_root.trim_matches('/').to_owned() }
}

/// Hierarchies of a mountinfo text whose mount point is `root` or right beneath it.
pub(super) fn mounted_at(root: &Path, mountinfo: &str) -> Result<Vec<Hierarchy>, LayoutError> {
    let mut hierarchies: Vec<Hierarchy> = Vec::new();
    for mount in mounts::cgroup_mounts(mountinfo) {
        if mount.point != root && mount.point.parent() != Some(root) {
            continue;
        }
        // A later mount on the same point hides the earlier one.
        hierarchies.retain(|hierarchy| hierarchy.root != mount.point);
        hierarchies.push(if mount.unified {
            let path = mount.point.join("cgroup.controllers");
            let controllers = unified_controllers(Some(&read_if_there(&path)?));
            Hierarchy::v2(mount.point.clone(), controllers, &mount.root)
        } else {
            let names = mount.controllers.iter();
            let controllers = names.filter_map(|name| Controller::from_v1_name(name)).collect();
            Hierarchy::v1(mount.point.clone(), controllers, &mount.root)
        });
    }
    Ok(keep_first_of_each(hierarchies))
}

/// Leaves each controller with one hierarchy, a v1 mount before the unified hierarchy's implicit ones, and
/// drops hierarchies that are left with none.
fn keep_first_of_each(mut hierarchies: Vec<Hierarchy>) -> Vec<Hierarchy> {
    hierarchies.sort_by_key(|hierarchy| hierarchy.version == CgroupVersion::V2);
    let mut seen: Vec<Controller> = Vec::new();
    for hierarchy in &mut hierarchies {
        // CPU accounting goes with `cpu`: where that is on v1, the unified hierarchy of a hybrid host has
        // no directories of pods, so its implicit accounting counts nothing.
        let counts_nothing = hierarchy.version == CgroupVersion::V2 && seen.contains(&Controller::Cpu);
        hierarchy.controllers.retain(|controller| match controller {
            Controller::Cpuacct if counts_nothing => false,
            controller => !seen.contains(controller),
        });
        seen.extend_from_slice(&hierarchy.controllers);
    }
    hierarchies.retain(|hierarchy| !hierarchy.controllers.is_empty());
    hierarchies
}

/// Controllers of a unified hierarchy with this `cgroup.controllers` text. CPU accounting, perf events and
/// pressure need no controller there. Without a text (a fixture) it holds all.
fn unified_controllers(text: Option<&str>) -> Vec<Controller> {
    let named = |controller: Controller| match (text, controller.v2_name()) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(text), Some(name)) => text.split_ascii_whitespace().any(|listed| listed == name),
    };
    let implicit = |controller| matches!(controller, Controller::Cpuacct | Controller::PerfEvent);
    Controller::ALL.iter().copied().filter(|c| implicit(*c) || named(*c)).collect()
}

/// Hierarchies of a folder that is no mount. Links to one folder are one hierarchy, as co-mounted
/// controllers are.
pub(super) fn in_folder(root: &Path) -> Vec<Hierarchy> {
    if root.join("cgroup.controllers").exists() {
        return vec![Hierarchy::v2(root.to_owned(), unified_controllers(None), "/")];
    }
    let mut hierarchies: Vec<Hierarchy> = Vec::new();
    for controller in Controller::ALL {
        let folder = root.join(controller.name());
        let Ok(target) = fs::canonicalize(&folder) else { continue };
        match hierarchies.iter_mut().find(|hierarchy| hierarchy.root == target) {
            Some(hierarchy) => hierarchy.controllers.push(controller),
            None => hierarchies.push(Hierarchy::v1(target, vec![controller], "/")),
        }
    }
    hierarchies
}

/// Sets the kernel's numbers from a `/proc/self/cgroup` text.
pub(super) fn number(hierarchies: &mut [Hierarchy], memberships: &str) {
    for hierarchy in hierarchies {
        hierarchy.id = mounts::memberships(memberships)
            .find(|line| match hierarchy.version {
                CgroupVersion::V2 => line.controllers.is_empty(),
                CgroupVersion::V1 => line
                    .controllers
                    .split(',')
                    .filter_map(Controller::from_v1_name)
                    .any(|controller| hierarchy.controllers.contains(&controller)),
            })
            .map(|line| line.hierarchy);
    }
}

#[cfg(test)]
mod tests {
    use CgroupVersion::{V1, V2};

    use super::*;

    fn mounted(mountinfo: &str) -> Vec<(String, CgroupVersion, Vec<Controller>)> {
        let found = mounted_at(Path::new("/no-such/cgroup"), mountinfo).unwrap();
        found.into_iter().map(|h| (h.root.display().to_string(), h.version, h.controllers)).collect()
    }

    #[test]
    fn a_hybrid_host_has_each_controller_where_it_is_mounted() {
        let found = mounted(
            "31 23 0:28 / /no-such/cgroup rw - tmpfs tmpfs rw\n\
             32 31 0:29 / /no-such/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 / /no-such/cgroup/memory rw - cgroup cgroup rw,memory\n\
             39 31 0:36 / /no-such/cgroup/pids rw - cgroup cgroup rw,pids\n\
             41 31 0:38 / /no-such/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             50 31 0:29 /x /elsewhere/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        assert_eq!(
            found,
            [
                ("/no-such/cgroup/cpu,cpuacct".into(), V1, vec![Controller::Cpu, Controller::Cpuacct]),
                ("/no-such/cgroup/memory".into(), V1, vec![Controller::Memory]),
                ("/no-such/cgroup/unified".into(), V2, vec![Controller::PerfEvent]),
            ]
        );
    }

    #[test]
    fn the_unified_hierarchy_holds_what_it_lists_and_what_needs_no_controller() {
        let all = unified_controllers(Some("cpuset cpu io memory hugetlb pids\n"));
        assert_eq!(all, unified_controllers(None));
        assert!(!all.contains(&Controller::NetCls));
        assert_eq!(unified_controllers(Some("")), [Controller::Cpuacct, Controller::PerfEvent]);
    }

    #[test]
    fn kernel_paths_are_seen_from_the_mounted_part() {
        let part = Hierarchy::v1("/x".into(), vec![], "/kind/node");
        let dir = |h: &Hierarchy, path| h.dir_of_kernel_path(path).map(|dir| dir.to_string());
        assert_eq!(dir(&part, "/kind/node/kubepods/podx").as_deref(), Some("kubepods/podx"));
        assert_eq!(dir(&part, "/kind/nodex/kubepods"), None);
        assert_eq!(dir(&part, "/kubepods"), None);
        for whole in ["/", "/../.."] {
            let whole = Hierarchy::v1("/x".into(), vec![], whole);
            assert_eq!(dir(&whole, "/kubepods/podx").as_deref(), Some("kubepods/podx"));
            assert_eq!(dir(&whole, "/"), None, "the root is never a target");
        }
    }

    #[test]
    fn hierarchies_get_the_kernels_numbers() {
        let mut found = vec![
            Hierarchy::v1("/cpu".into(), vec![Controller::Cpu, Controller::Cpuacct], "/"),
            Hierarchy::v2("/unified".into(), vec![Controller::PerfEvent], "/"),
            Hierarchy::v1("/cpuset".into(), vec![Controller::Cpuset], "/"),
        ];
        number(&mut found, "9:name=systemd:/\n3:memory:/a\n2:cpu,cpuacct:/x:y\n0::/\n");
        assert_eq!(found.iter().map(Hierarchy::id).collect::<Vec<_>>(), [Some(2), Some(0), None]);
    }
}
