//! Reads what the kernel offers, for the rules that depend on it.

use std::io;

use super::resctrl_facts;
use crate::cgroup::layout::Layout;
use crate::cgroup::mainline::concerned;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::host::roots::Roots;
use crate::host::text_file;
use crate::state::kernel::{CoreSchedSwitch, KernelFacts, Switch};
use crate::sys::core_sched_cookie;

/// Looks at the kubepods directory and at the kernel's switches.
pub fn read(roots: &Roots, layout: &Layout, kubepods: &CgroupDir) -> KernelFacts {
    KernelFacts {
        bvt: has_file(layout, kubepods, Resource::BvtWarpNs),
        net_cls: has_file(layout, kubepods, Resource::NetClsClassid),
        group_identity: switch(roots, "kernel/sched_group_identity_enabled"),
        sched_core: switch(roots, "kernel/sched_core"),
        files: concerned().filter(|resource| has_file(layout, kubepods, *resource)).collect(),
        resctrl: resctrl_facts::read(roots),
        core_sched: core_sched(roots, layout, kubepods),
    }
}

/// hooks.md 10.1: a vendor's kernel has a switch, any other is tried.
fn core_sched(roots: &Roots, layout: &Layout, kubepods: &CgroupDir) -> CoreSchedSwitch {
    let root_has_bvt = layout.root_file(Resource::BvtWarpNs).is_some_and(|path| path.exists());
    if !root_has_bvt && !has_file(layout, kubepods, Resource::WmarkRatio) {
        return match core_sched_cookie(None) {
            Ok(_) => CoreSchedSwitch::None,
            Err(_) => CoreSchedSwitch::Unsupported,
        };
    }
    let is_feature = |word: &str| matches!(word, "CORE_SCHED" | "NO_CORE_SCHED");
    if switch(roots, "kernel/sched_core").is_there() {
        CoreSchedSwitch::Sysctl
    } else if text_file::read(&roots.sys.join("kernel/debug/sched_features"))
        .is_ok_and(|features| features.split_whitespace().any(is_feature))
    {
        CoreSchedSwitch::Feature
    } else {
        CoreSchedSwitch::Unsupported
    }
}

fn has_file(layout: &Layout, dir: &CgroupDir, resource: Resource) -> bool {
    let path = layout.file(dir, resource).and_then(|loc| layout.path(&loc));
    path.is_some_and(|path| path.exists())
}

fn switch(roots: &Roots, name: &str) -> Switch {
    match text_file::read(&roots.proc.join("sys").join(name)) {
        Ok(text) => text.trim().parse().map_or(Switch::Unreadable, Switch::Reads),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Switch::Absent,
        Err(_) => Switch::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn core_scheduling_of_a_vendors_kernel_goes_by_its_switch() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for dir in ["cgroup/cpu/kubepods", "cgroup/memory/kubepods", "proc/sys/kernel", "sys/kernel/debug"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        let layout = Layout::of_folder(&at("cgroup")).unwrap();
        let roots = Roots { proc: at("proc"), sys: at("sys"), ..Roots::host() };
        let found = || core_sched(&roots, &layout, &CgroupDir::new("kubepods").unwrap());
        let tried = core_sched_cookie(None).is_ok();
        assert_eq!(found() == CoreSchedSwitch::None, tried, "a kernel of no vendor is tried");
        fs::write(at("cgroup/cpu/cpu.bvt_warp_ns"), "0\n").unwrap();
        assert_eq!(found(), CoreSchedSwitch::Unsupported);
        fs::write(at("sys/kernel/debug/sched_features"), "GENTLE NO_CORE_SCHED X\n").unwrap();
        assert_eq!(found(), CoreSchedSwitch::Feature);
        fs::write(at("proc/sys/kernel/sched_core"), "0\n").unwrap();
        assert_eq!(found(), CoreSchedSwitch::Sysctl);
        fs::remove_file(at("cgroup/cpu/cpu.bvt_warp_ns")).unwrap();
        fs::write(at("cgroup/memory/kubepods/memory.wmark_ratio"), "0\n").unwrap();
        assert_eq!(found(), CoreSchedSwitch::Sysctl);
    }

    #[test]
    fn switches_are_absent_readable_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("sys/kernel");
        fs::create_dir_all(&kernel).unwrap();
        let roots = Roots { proc: folder.path().into(), ..Roots::host() };
        assert_eq!(switch(&roots, "kernel/x"), Switch::Absent);
        for (text, reads) in
            [("1\n", Switch::Reads(1)), ("what", Switch::Unreadable), ("", Switch::Unreadable)]
        {
            let mut options = fs::OpenOptions::new();
            let options = options.write(true).create(true).truncate(true);
            options.open(kernel.join("x")).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(switch(&roots, "kernel/x"), reads);
        }
    }
}
