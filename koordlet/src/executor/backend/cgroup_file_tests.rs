//! The backend on a folder.

use std::fs;
use std::os::unix::fs::symlink;

use super::super::is_gone;
use super::*;

fn put(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn fixture() -> (tempfile::TempDir, CgroupFiles, CgroupDir) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("cpu/p/c")).unwrap();
    put(&root.path().join("cpu/p/cpu.shares"), "1024\n");
    let files = CgroupFiles::new(Arc::new(Layout::of_folder(root.path()).unwrap()));
    (root, files, CgroupDir::new("p").unwrap())
}

#[test]
fn reads_writes_and_lists_without_creating_anything() {
    let (root, files, dir) = fixture();
    let id = files.id(&dir, Resource::CpuShares).unwrap();
    assert_eq!(files.read(&dir, Resource::CpuShares).unwrap(), "1024");
    files.write(&dir, Resource::CpuShares, id, "20481").unwrap();
    assert_eq!(files.read(&dir, Resource::CpuShares).unwrap(), "20481");
    assert_eq!(files.children(&dir, Resource::CpuShares).unwrap(), [dir.join("c").unwrap()]);
    assert!(is_gone(&files.write(&dir, Resource::CfsQuota, id, "1").unwrap_err()));
    assert!(!root.path().join("cpu/p/cpu.cfs_quota_us").exists());
    assert!(is_gone(&files.write(&dir, Resource::CpuShares, id + 1, "2").unwrap_err()), "another directory");
    assert!(is_gone(&files.id(&dir.join("x").unwrap(), Resource::CpuShares).unwrap_err()));
    let error = files.read(&dir, Resource::MemoryLimit).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported, "a fixture without that hierarchy");
}

#[test]
fn links_lead_nowhere() {
    let (root, files, _) = fixture();
    let outside = tempfile::tempdir().unwrap();
    put(&outside.path().join("cpu.shares"), "7");
    symlink(outside.path(), root.path().join("cpu/link")).unwrap();
    let link = CgroupDir::new("link").unwrap();
    assert!(files.id(&link, Resource::CpuShares).is_err());
    assert!(files.read(&link, Resource::CpuShares).is_err());
    assert!(files.write(&link, Resource::CpuShares, 0, "2").is_err());
    fs::remove_file(root.path().join("cpu/p/cpu.shares")).unwrap();
    symlink(outside.path().join("cpu.shares"), root.path().join("cpu/p/cpu.shares")).unwrap();
    let dir = CgroupDir::new("p").unwrap();
    let id = files.id(&dir, Resource::CpuShares).unwrap();
    assert!(files.write(&dir, Resource::CpuShares, id, "2").is_err());
    assert_eq!(fs::read_to_string(outside.path().join("cpu.shares")).unwrap(), "7");
}

#[test]
fn the_walk_for_old_kernels_is_as_strict() {
    let (root, files, _) = fixture();
    let (at, loc) = files.locate(&CgroupDir::new("p").unwrap(), Resource::CpuShares).unwrap();
    walk_beneath(at, &loc.relative, OFlag::O_RDONLY).unwrap();
    symlink(root.path().join("cpu/p"), root.path().join("cpu/link")).unwrap();
    let error = walk_beneath(at, Path::new("link/cpu.shares"), OFlag::O_RDONLY).unwrap_err();
    assert!(matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::ELOOP | Errno::ENOTDIR)));
}
