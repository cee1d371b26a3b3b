//! Reads what the kernel offers, for the rules that depend on it.

use std::io;

use super::resctrl_facts;
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::host::roots::Roots;
use crate::host::text_file;
use crate::state::kernel::{KernelFacts, Switch};

/// Looks at the kubepods directory and at the kernel's switches.
pub fn read(roots: &Roots, layout: &Layout, kubepods: &CgroupDir) -> KernelFacts {
    KernelFacts {
        bvt: has_file(layout, kubepods, Resource::BvtWarpNs),
        group_identity: switch(roots, "kernel/sched_group_identity_enabled"),
        sched_core: switch(roots, "kernel/sched_core"),
        resctrl: resctrl_facts::read(roots),
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
