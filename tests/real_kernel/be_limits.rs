//! What the settings of real cgroups leave to best effort, also while its containers come and go.

use std::sync::Arc;

use anyhow::{Result, ensure};
use kit::{Class, Driver, Tree, need, offers};
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::place::DirKind;
use koordlet::host::roots::Roots;
use koordlet::node::be_files::BeFiles;
use koordlet::state::tree::CgroupTree;
use koordlet::units::MilliCpu;

/// CPUs of this machine's best-effort directory, whole cores of it, and half a core by quota.
#[test]
fn quota_and_containers_of_real_groups_are_followed_while_they_come_and_go() -> Result<()> {
    need!(offers::cgroups());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let be = tree.class_dir(Class::BestEffort);
    let container = format!("{be}/pod1/c1");
    let mut files = BeFiles::new(Arc::new(Layout::detect(&Roots::host())?), &CgroupDir::new(&be)?);
    let mut known = Arc::new(CgroupTree::default());
    let mut limit = |known: &Arc<CgroupTree>| files.real_limit(known);

    let whole = limit(&known)?;
    ensure!(whole.is_some_and(|limit| limit.0 >= 1000 && limit.0 % 1000 == 0), "{whole:?}");
    tree.set_cfs_quota(&be, 50_000)?;
    ensure!(limit(&known)? == Some(MilliCpu(500)));
    tree.set_cfs_quota(&be, -1)?;
    ensure!(limit(&known)? == whole);

    tree.make(&container)?;
    Arc::make_mut(&mut known).dirs.insert(CgroupDir::new(&container)?, DirKind::Container);
    let filled = limit(&known)?;
    ensure!(filled == whole, "a container like its class: {filled:?}, not {whole:?}");
    // The tree still names it: it went between the event and the reading.
    tree.remove(&format!("{be}/pod1"))?;
    ensure!(limit(&known)? == whole);
    ensure!(limit(&known)? == whole);

    tree.remove(&be)?;
    ensure!(limit(&known)?.is_none(), "the class directory is gone");
    tree.make(&be)?;
    tree.set_cfs_quota(&be, 50_000)?;
    ensure!(limit(&known)? == Some(MilliCpu(500)), "it was made again");
    Ok(())
}
