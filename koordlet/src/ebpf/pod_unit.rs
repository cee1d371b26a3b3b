//! Which part of the tree is one pod, judged by name alone and for both cgroup drivers, so that no driver need be
//! known yet. `cgroup::place` says exactly what a directory is; here a dozen bytes suffice.

use crate::cgroup::path::CgroupDir;

/// Whether a directory's name is a pod's: `pod<UID>` or `kubepods[-class]-pod<UID>.slice`.
pub(crate) fn names_a_pod(name: &str) -> bool {
    name.starts_with("pod") || name.strip_suffix(".slice").is_some_and(|slice| slice.contains("-pod"))
}

/// The pod directory that `dir` is or lies in.
pub(crate) fn pod_of(dir: &CgroupDir) -> Option<CgroupDir> {
    std::iter::successors(Some(dir.clone()), CgroupDir::parent).filter(|d| names_a_pod(d.name())).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_both_drivers_are_recognised() {
        let pod_of = |path: &str| pod_of(&CgroupDir::new(path).unwrap()).map(|dir| dir.to_string());
        assert_eq!(
            pod_of("kubepods/burstable/podab-1/c1/nested").as_deref(),
            Some("kubepods/burstable/podab-1")
        );
        let systemd = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podab_1.slice";
        assert_eq!(pod_of(&format!("{systemd}/cri-containerd-0.scope")).as_deref(), Some(systemd));
        for class in
            ["kubepods", "kubepods.slice/kubepods-burstable.slice", "kubepods/besteffort", "system.slice"]
        {
            assert_eq!(pod_of(class), None, "{class}");
        }
        assert_eq!(pod_of("kubepods/pod1/podman").as_deref(), Some("kubepods/pod1"));
    }
}
