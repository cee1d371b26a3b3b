//! One table of what can be used on this machine: each line is something tried, with the reason if it cannot be
//! had. `doctor` prints it; it decides nothing itself.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::kernel::{Kernel, Resctrl};
use super::probe_group::ProbeGroup;
use super::roots::Roots;
use super::topology::NodeCpuInfo;
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::{Controller, Resource};

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It can be used.
    Ok,
    /// This machine does not have it.
    Missing,
    /// It is there, but using it failed.
    Failed,
    /// A gate or flag keeps the agent from using it.
    Off,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What it is, for scripts.
    pub name: String,
    /// How it ended.
    pub state: State,
    /// What was found, or why not.
    pub detail: String,
}

impl Offer {
    /// Something that can be used.
    pub fn ok(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Ok, detail: detail.into() }
    }

    /// Something that the machine does not have.
    pub fn missing(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Missing, detail: detail.into() }
    }

    /// Something that is there and cannot be used.
    pub fn failed(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Failed, detail: detail.into() }
    }

    /// Something that a gate or flag switches off.
    pub fn off(name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { name: name.into(), state: State::Off, detail: detail.into() }
    }

    fn of(name: &str, found: bool, present: impl Into<String>, absent: impl Into<String>) -> Self {
        if found { Self::ok(name, present) } else { Self::missing(name, absent) }
    }
}

/// The CPUs, as far as sysfs shows them.
pub fn cpus(roots: &Roots) -> Offer {
    match NodeCpuInfo::read(roots) {
        Ok(info) => {
            let total = &info.total_info;
            let (cpus, cores) = (total.number_cpus, total.core_to_cpu.len());
            let (sockets, nodes) = (total.socket_to_cpu.len(), total.node_to_cpu.len());
            Offer::ok("cpus", format!("{cpus} CPUs, {cores} cores, {sockets} sockets, {nodes} NUMA nodes"))
        }
        Err(error) => Offer::failed("cpus", error.to_string()),
    }
}

/// What the kernel offers beside cgroups and tracepoints.
pub fn of_kernel(kernel: &Kernel) -> Vec<Offer> {
    let paranoid =
        kernel.perf_event_paranoid.map_or(String::new(), |level| format!(" (perf_event_paranoid {level})"));
    let resctrl = match kernel.resctrl {
        Resctrl::Mounted => Offer::ok("resctrl", "mounted"),
        Resctrl::NotMounted => Offer::missing("resctrl", "the kernel has it, but it is not mounted"),
        Resctrl::Unsupported => Offer::missing("resctrl", "neither kernel nor CPU offer it"),
    };
    let psi = kernel.no_psi.as_deref().map_or_else(
        || Offer::ok("psi", "pressure figures can be read"),
        |why| Offer::missing("psi", format!("no pressure figures: {why}")),
    );
    let btf = kernel.btf_bytes.map_or_else(
        || Offer::missing("btf", "the kernel has no type information (CONFIG_DEBUG_INFO_BTF)"),
        |bytes| Offer::ok("btf", format!("{} KiB of type information", bytes / 1024)),
    );
    let release = kernel.release.as_str();
    let lacking = kernel.capabilities.lacking.join(" ");
    vec![
        Offer::of("kernel", !release.is_empty(), release, "procfs does not tell the release"),
        Offer::of("capabilities", lacking.is_empty(), "all that are used", format!("without {lacking}")),
        btf,
        psi,
        resctrl,
        Offer::of(
            "hardware-counters",
            kernel.hardware_counters,
            format!("the CPU counts cycles and instructions{paranoid}"),
            "no counters of the CPU (a virtual machine, mostly): no CPI figures",
        ),
    ]
}

/// What stands for all that is written: a file of some group. The root's directory is nobody's to write without
/// CAP_DAC_OVERRIDE, and nothing is ever made in it.
fn writable_place(root: &Path) -> PathBuf {
    let group = ProbeGroup::existing(root, &[]).unwrap_or_else(|| root.to_owned());
    let file = group.join("cgroup.procs");
    if file.exists() { file } else { group }
}

/// The controllers of the cgroup hierarchies, with where each is, and whether groups there can be changed.
pub fn controllers(layout: &Layout) -> Vec<Offer> {
    const NAMES: [(Controller, &str); 5] = [
        (Controller::Cpu, "cgroup-cpu"),
        (Controller::Cpuacct, "cgroup-cpuacct"),
        (Controller::Cpuset, "cgroup-cpuset"),
        (Controller::Memory, "cgroup-memory"),
        (Controller::Blkio, "cgroup-blkio"),
    ];
    let offers = NAMES.into_iter().map(|(controller, name)| {
        let Some(hierarchy) = layout.hierarchy(controller) else {
            return Offer::missing(name, "no mounted hierarchy has this controller");
        };
        let place = format!("{} at {}", hierarchy.version_name(), hierarchy.root().display());
        match access(&writable_place(hierarchy.root()), AccessFlags::W_OK) {
            Ok(()) => Offer::ok(name, place),
            Err(errno) => Offer::failed(name, format!("{place} cannot be written: {}", errno.desc())),
        }
    });
    offers.collect()
}

/// Cgroup files that not every kernel has.
const OPTIONAL: [Resource; 20] = [
    Resource::CfsBurst,
    Resource::CpuIdle,
    Resource::BvtWarpNs,
    Resource::CpuPressure,
    Resource::MemoryPressure,
    Resource::IoPressure,
    Resource::MemswLimit,
    Resource::MemoryMin,
    Resource::MemoryLow,
    Resource::MemoryHigh,
    Resource::WmarkRatio,
    Resource::WmarkScaleFactor,
    Resource::WmarkMinAdj,
    Resource::MemoryPriority,
    Resource::UsePriorityOom,
    Resource::OomGroup,
    Resource::IdlePageStats,
    Resource::PagecacheLimitEnable,
    Resource::PagecacheLimitSize,
    Resource::PagecacheLimitSync,
];

/// Tries each optional cgroup file, in one of `kubepods` if that is there, else in any other group.
pub fn optional_files(layout: &Layout, kubepods: &[CgroupDir]) -> Vec<Offer> {
    let wanted: Vec<&str> = kubepods.iter().map(CgroupDir::as_str).collect();
    let controllers = [Controller::Cpu, Controller::Cpuacct, Controller::Memory];
    let groups = controllers.map(|controller| {
        let root = layout.hierarchy_root(controller)?;
        Some((controller, ProbeGroup::beneath(root, &wanted)))
    });
    let group_of =
        |controller| groups.iter().flatten().find(|(of, _)| *of == controller).map(|(_, group)| group);
    let offers = OPTIONAL.into_iter().filter_map(|resource| {
        let name = file_name(layout, resource)?;
        Some(match group_of(resource.controller())? {
            Ok(group) => in_group(&name, layout.is_vendors(resource), group.path()),
            Err(error) => Offer::failed(name, format!("no group to look into: {error}")),
        })
    });
    offers.collect()
}

/// The resource's file on this kind of host; `None` if it has none.
fn file_name(layout: &Layout, resource: Resource) -> Option<String> {
    let file = layout.file(&CgroupDir::new("any").ok()?, resource)?;
    Some(file.relative.file_name()?.to_str()?.to_owned())
}

/// Said of what only vendors' kernels have: nothing is wrong with this one.
const VENDORS: &str = "vendor kernel only; nothing here needs it yet";

fn in_group(name: &str, vendors: bool, group: &Path) -> Offer {
    let path = group.join(name);
    if !path.exists() {
        return Offer::missing(name, if vendors { VENDORS } else { "this kernel has no such file" });
    }
    // A statistic cannot be written by anybody: its being there is all.
    match access(&path, AccessFlags::R_OK) {
        Ok(()) => Offer::ok(name, "there"),
        Err(errno) => Offer::failed(name, format!("cannot be read: {}", errno.desc())),
    }
}

/// Whether the run directory, or what it will be made in at the first start, takes new entries.
pub fn run_dir(path: &Path) -> Offer {
    const NAME: &str = "run-dir";
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    match ProbeGroup::made_in(existing) {
        Err(error) => Offer::failed(NAME, format!("nothing can be made in {}: {error}", existing.display())),
        Ok(_) if existing == path => Offer::ok(NAME, path.display().to_string()),
        Ok(_) => Offer::ok(NAME, format!("{} will be made", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn state(offers: &[Offer], name: &str) -> State {
        offers.iter().find(|offer| offer.name == name).unwrap_or_else(|| panic!("{name} is not there")).state
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn optional_files_are_looked_for_in_kubepods() {
        let root = tempfile::tempdir().unwrap();
        for controller in ["cpu", "cpuacct", "memory"] {
            fs::create_dir_all(root.path().join(controller).join("kubepods")).unwrap();
        }
        fs::write(root.path().join("cpu/kubepods/cpu.cfs_burst_us"), "0\n").unwrap();
        let layout = Layout::of_folder(root.path()).unwrap();
        let offers = optional_files(&layout, &[CgroupDir::new("kubepods").unwrap()]);
        assert_eq!(state(&offers, "cpu.cfs_burst_us"), State::Ok);
        assert_eq!(state(&offers, "cpu.bvt_warp_ns"), State::Missing);
        assert_eq!(state(&offers, "memory.wmark_ratio"), State::Missing);
        assert!(!offers.iter().any(|offer| offer.name.starts_with("memory.pagecache_limit")));
        let detail = |name: &str| offers.iter().find(|offer| offer.name == name).unwrap().detail.clone();
        for name in ["memory.wmark_ratio", "memory.priority", "memory.min"] {
            assert_eq!(detail(name), VENDORS, "{name}");
        }
        for name in ["cpu.idle", "cpu.bvt_warp_ns"] {
            assert_eq!(detail(name), "this kernel has no such file");
        }
    }

    #[test]
    fn controllers_that_are_not_mounted_are_missing() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("cpu")).unwrap();
        let offers = controllers(&Layout::of_folder(root.path()).unwrap());
        assert_eq!(state(&offers, "cgroup-cpu"), State::Ok);
        assert_eq!(state(&offers, "cgroup-memory"), State::Missing);
        let detail = &offers.first().unwrap().detail;
        assert!(detail.starts_with("cgroup v1 at /"), "{detail}");
    }

    #[test]
    fn groups_can_be_written_where_the_roots_directory_cannot() {
        let root = tempfile::tempdir().unwrap();
        let cpu = root.path().join("cpu");
        fs::create_dir_all(cpu.join("any")).unwrap();
        assert_eq!(writable_place(&cpu), cpu.join("any"));
        #[expect(clippy::disallowed_methods, reason = "a fixture file in a temporary directory")]
        fs::write(cpu.join("any/cgroup.procs"), "").unwrap();
        assert_eq!(writable_place(&cpu), cpu.join("any/cgroup.procs"));
    }

    #[test]
    fn a_run_directory_is_good_if_it_can_be_made() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(run_dir(root.path()).state, State::Ok);
        assert!(run_dir(&root.path().join("a/b")).detail.ends_with("a/b will be made"));
        #[expect(clippy::disallowed_methods, reason = "a fixture file in a temporary directory")]
        fs::write(root.path().join("file"), "").unwrap();
        assert_eq!(run_dir(&root.path().join("file/run")).state, State::Failed);
        assert_eq!(run_dir(Path::new("/proc/koordlet")).state, State::Failed);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "only the file is left");
    }
}
