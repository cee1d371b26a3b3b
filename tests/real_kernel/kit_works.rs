//! The kit itself on the real kernel: what it makes is there, counts, and goes away.

use kit::{Class, Controller, PodManifest, Tree, need, offers, until};

fn pod() -> PodManifest {
    PodManifest::new("busy", Class::BestEffort).qos("BE").container("app", "0a1b", |container| container)
}

#[test]
fn a_busy_process_is_charged_to_its_own_group() -> anyhow::Result<()> {
    need!(offers::cgroups());
    let tree = Tree::new()?;
    let dirs = tree.make_pod(&pod())?;
    let _load = tree.spin(&dirs.container("app"), 1)?;
    let limit = kit::patience();
    let enough = || tree.cpu_usage_nanos(&dirs.pod).is_ok_and(|nanos| nanos > 50_000_000);
    assert!(until(limit, enough), "the pod's usage includes its container's");
    Ok(())
}

#[test]
fn a_tree_is_removed_with_its_processes_even_after_a_panic() -> anyhow::Result<()> {
    need!(offers::cgroups());
    let tree = Tree::new()?;
    let top = tree.file(Controller::Cpu, tree.root(), "");
    let pid = std::sync::atomic::AtomicU32::new(0);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let tree = tree;
        let load =
            tree.make_pod(&pod()).and_then(|dirs| tree.spin(&dirs.container("app"), 1)).expect("a load");
        pid.store(load.pid(), std::sync::atomic::Ordering::Relaxed);
        std::mem::forget(load);
        panic!("on purpose");
    }));
    assert!(outcome.is_err());
    assert_ne!(pid.load(std::sync::atomic::Ordering::Relaxed), 0, "the load was started");
    assert!(!top.exists());
    let status = std::path::PathBuf::from(format!("/proc/{}/stat", pid.into_inner()));
    let ended = || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
    assert!(until(kit::patience(), ended));
    Ok(())
}

#[test]
fn quotas_and_cpus_read_back_the_same_on_either_version() -> anyhow::Result<()> {
    need!(offers::cgroups());
    let tree = Tree::new()?;
    let dirs = tree.make_pod(&pod())?;
    assert_eq!(tree.cfs_quota(&dirs.pod)?, -1);
    tree.set_cfs_quota(&dirs.pod, 50_000)?;
    assert_eq!(tree.cfs_quota(&dirs.pod)?, 50_000);
    tree.set_cfs_quota(&dirs.pod, -1)?;
    assert_eq!(tree.cfs_quota(&dirs.pod)?, -1);
    assert!(!tree.cpus(&dirs.container("app"))?.is_empty());
    assert!(tree.write(Controller::Cpu, "elsewhere", "cpu.shares", "2").is_err(), "outside of the tree");
    Ok(())
}
