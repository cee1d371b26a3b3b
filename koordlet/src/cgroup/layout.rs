//! Which hierarchy holds which controller, and so which file holds which resource, collection.md 3.1 and
//! design.md 4.
//!
//! Version and root are a property of each controller, read from mountinfo, so that a hybrid host needs no
//! case of its own. A cgroup root that mountinfo does not know (a fixture folder) is v2 if it holds
//! `cgroup.controllers`, else v1 with one folder a controller.

use std::io;
use std::path::{Path, PathBuf};

use super::hierarchy::{self, Hierarchy};
use super::path::CgroupDir;
use super::resource::{Controller, Resource, ResourceFile, Support};
use super::semantics::Semantics;
use crate::host::roots::Roots;
use crate::host::text_file;

/// Version of a hierarchy. Not to be named outside this room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One hierarchy a controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// Where a resource of a directory is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileLoc {
    /// Index in `Layout::hierarchies`.
    pub hierarchy: usize,
    /// Path beneath that hierarchy's root.
    pub relative: PathBuf,
}

/// Why the hierarchies could not be found.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// A file or folder that says where they are could not be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Nothing is mounted there.
    #[error("no cgroup hierarchy is mounted at or under {root}, and it holds no controller's folder")]
    Empty {
        /// `--cgroup-root-dir`
        root: PathBuf,
    },
}

/// All hierarchies and the one of each controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    hierarchies: Vec<Hierarchy>,
    page_size: u64,
}

impl Layout {
    /// Finds the hierarchies at and under `roots.cgroup`.
    pub fn detect(roots: &Roots) -> Result<Self, LayoutError> {
        let root = canonical(&roots.cgroup)?;
        let mountinfo = read_if_there(&roots.proc.join("self/mountinfo"))?;
        let mut found = hierarchy::mounted_at(&root, &mountinfo)?;
        if found.is_empty() {
            return Self::of_folder(&root);
        }
        hierarchy::number(&mut found, &read_if_there(&roots.proc.join("self/cgroup"))?);
        Ok(Self { hierarchies: found, page_size: page_size() })
    }

    /// The hierarchies of a folder that is no mount: v2 if it holds `cgroup.controllers`, else v1 with one
    /// folder a controller.
    pub fn of_folder(folder: &Path) -> Result<Self, LayoutError> {
        let root = canonical(folder)?;
        let hierarchies = hierarchy::in_folder(&root);
        if hierarchies.is_empty() {
            return Err(LayoutError::Empty { root });
        }
        Ok(Self { hierarchies, page_size: page_size() })
    }

    /// The hierarchies that hold at least one controller of ours.
    pub fn hierarchies(&self) -> &[Hierarchy] {
        &self.hierarchies
    }

    /// The hierarchy of a controller, if the host has it.
    pub fn hierarchy(&self, controller: Controller) -> Option<&Hierarchy> {
        self.hierarchies.get(self.index(controller)?)
    }

    /// The root of a controller's hierarchy.
    pub fn hierarchy_root(&self, controller: Controller) -> Option<&Path> {
        self.hierarchy(controller).map(Hierarchy::root)
    }

    /// The one hierarchy that gives containers their identity and CPU time: that of `cpuacct` (on v2 the
    /// unified one), whose cgroup ids the eBPF usage map uses too.
    pub fn usage_hierarchy(&self) -> Option<&Hierarchy> {
        self.hierarchy(Controller::Cpuacct)
    }

    /// The hierarchy with the kernel's number `id`.
    pub fn hierarchy_of_id(&self, id: u32) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|hierarchy| hierarchy.id() == Some(id))
    }

    /// The controllers of the hierarchy with the kernel's number `id`; none if it is not one of ours.
    pub fn controllers_of(&self, id: u32) -> &[Controller] {
        self.hierarchy_of_id(id).map_or(&[], Hierarchy::controllers)
    }

    /// The file that holds `resource` of `dir`: the one to write, and to compare a wish with. `None` if this
    /// kind of host has no such resource.
    pub fn file(&self, dir: &CgroupDir, resource: Resource) -> Option<FileLoc> {
        self.locate(dir, resource, |file| file.name)
    }

    /// The file that tells what is in effect: the same as `file`, except for CPU lists on v2.
    pub fn effective_file(&self, dir: &CgroupDir, resource: Resource) -> Option<FileLoc> {
        self.locate(dir, resource, |file| file.effective_name.unwrap_or(file.name))
    }

    /// The file that tells what is in effect for the root group, which is no directory that can be written.
    pub fn root_file(&self, resource: Resource) -> Option<PathBuf> {
        let hierarchy = self.hierarchy(resource.controller())?;
        let file = resource.file(hierarchy.version())?;
        Some(hierarchy.root().join(file.effective_name.unwrap_or(file.name)))
    }

    /// Whether the host has `resource` in `dir`. Some resources are in all directories if they are in the
    /// kubepods directory, so that this one is asked, collection.md 3.5.
    pub fn is_supported(&self, dir: &CgroupDir, resource: Resource, kubepods: &CgroupDir) -> bool {
        let version = self.version(resource.controller());
        let Some(file) = version.and_then(|version| resource.file(version)) else { return false };
        let probed = match file.support {
            Support::Always => return true,
            Support::EachDirectory => dir,
            Support::Kubepods => kubepods,
        };
        self.file(probed, resource).and_then(|loc| self.path(&loc)).is_some_and(|path| path.exists())
    }

    /// The path of `loc` on this host.
    pub fn path(&self, loc: &FileLoc) -> Option<PathBuf> {
        self.hierarchies.get(loc.hierarchy).map(|hierarchy| hierarchy.root().join(&loc.relative))
    }

    /// What the kernel allows here.
    pub fn semantics(&self) -> Semantics {
        let version = |controller| self.version(controller).unwrap_or(CgroupVersion::V2);
        Semantics::of(version(Controller::Cpu), version(Controller::Cpuset), version(Controller::Memory))
    }

    /// Whether a resource's file is one that only vendors' kernels have, and that nothing here asks for yet.
    pub fn is_vendors(&self, resource: Resource) -> bool {
        self.version(resource.controller()).is_some_and(|version| resource.is_vendors(version))
    }

    /// Bytes of a page, to which the kernel rounds memory limits down.
    pub fn page_size(&self) -> u64 {
        self.page_size
    }

    /// Version of a controller's hierarchy.
    pub(super) fn version(&self, controller: Controller) -> Option<CgroupVersion> {
        self.hierarchy(controller).map(Hierarchy::version)
    }

    fn locate(
        &self,
        dir: &CgroupDir,
        resource: Resource,
        name: impl Fn(&ResourceFile) -> &'static str,
    ) -> Option<FileLoc> {
        let hierarchy = self.index(resource.controller())?;
        let file = resource.file(self.hierarchies.get(hierarchy)?.version())?;
        Some(FileLoc { hierarchy, relative: Path::new(dir.as_str()).join(name(&file)) })
    }

    fn index(&self, controller: Controller) -> Option<usize> {
        self.hierarchies.iter().position(|hierarchy| hierarchy.controllers().contains(&controller))
    }
}

/// The system's page size.
fn page_size() -> u64 {
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).filter(|size| *size > 0).unwrap_or(4096)
}

fn canonical(path: &Path) -> Result<PathBuf, LayoutError> {
    std::fs::canonicalize(path).map_err(|source| LayoutError::Read { path: path.to_owned(), source })
}

/// The text of a file, empty if there is none.
pub(super) fn read_if_there(path: &Path) -> Result<String, LayoutError> {
    match text_file::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        other => other.map_err(|source| LayoutError::Read { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixture folder with these entries: names ending in `/` are folders, others empty files.
    fn folder(entries: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for entry in entries {
            let path = folder.path().join(entry);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            if entry.ends_with('/') {
                std::fs::create_dir_all(path).unwrap();
            } else {
                std::fs::OpenOptions::new().create_new(true).write(true).open(path).unwrap();
            }
        }
        folder
    }

    fn path(layout: &Layout, root: &Path, resource: Resource) -> Option<String> {
        let loc = layout.file(&CgroupDir::new("kubepods/pod1").unwrap(), resource)?;
        let root = root.canonicalize().unwrap();
        Some(layout.path(&loc)?.strip_prefix(root).unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn a_fixture_folder_is_v1_with_one_folder_a_controller_and_links_are_co_mounts() {
        let folder = folder(&["cpu,cpuacct/", "memory/"]);
        for name in ["cpu", "cpuacct"] {
            std::os::unix::fs::symlink("cpu,cpuacct", folder.path().join(name)).unwrap();
        }
        let layout = Layout::of_folder(folder.path()).unwrap();
        assert_eq!(layout.hierarchies().len(), 2);
        assert_eq!(layout.usage_hierarchy().unwrap().controllers(), [Controller::Cpu, Controller::Cpuacct]);
        let path = |resource| path(&layout, folder.path(), resource);
        assert_eq!(path(Resource::CpuUsage).unwrap(), "cpu,cpuacct/kubepods/pod1/cpuacct.usage");
        assert_eq!(path(Resource::MemoryLimit).unwrap(), "memory/kubepods/pod1/memory.limit_in_bytes");
        assert_eq!(path(Resource::Cpus), None, "no cpuset hierarchy");
        let semantics = layout.semantics();
        assert!(semantics.child_quota_bounded_by_parent && semantics.memsw_counts_memory);
    }

    #[test]
    fn a_fixture_folder_with_cgroup_controllers_is_v2() {
        let folder = folder(&["cgroup.controllers", "kubepods/pod1/cpu.max.burst"]);
        let layout = Layout::of_folder(folder.path()).unwrap();
        let dir = CgroupDir::new("kubepods/pod1").unwrap();
        assert_eq!(path(&layout, folder.path(), Resource::Cpus).unwrap(), "kubepods/pod1/cpuset.cpus");
        let effective = layout.effective_file(&dir, Resource::Cpus).unwrap();
        assert_eq!(effective.relative, Path::new("kubepods/pod1/cpuset.cpus.effective"));
        assert!(!layout.semantics().child_cpuset_bounded_by_parent);
        assert!(layout.is_supported(&dir, Resource::CfsBurst, &dir));
        assert!(!layout.is_supported(&dir, Resource::CfsBurst, &CgroupDir::new("kubepods").unwrap()));
        assert!(!layout.is_supported(&dir, Resource::WmarkRatio, &dir));
        assert!(layout.is_supported(&dir, Resource::CfsQuota, &dir));
    }

    #[test]
    fn an_empty_folder_is_an_error_that_names_it() {
        let folder = folder(&[]);
        let error = Layout::of_folder(folder.path()).unwrap_err();
        assert!(matches!(&error, LayoutError::Empty { .. }), "{error}");
        assert!(Layout::of_folder(Path::new("/no-such/folder")).is_err());
    }

    #[test]
    fn this_hosts_hierarchies_are_found() {
        let layout = match Layout::detect(&Roots::host()) {
            Ok(layout) => layout,
            Err(error) => {
                println!("SKIPPED: no cgroups here: {error}");
                return;
            }
        };
        for hierarchy in layout.hierarchies() {
            assert!(hierarchy.root().is_dir() && !hierarchy.controllers().is_empty());
            let id = hierarchy.id().expect("/proc/self/cgroup lists every hierarchy");
            assert_eq!(layout.controllers_of(id), hierarchy.controllers());
        }
        assert!(layout.page_size().is_power_of_two());
    }
}
