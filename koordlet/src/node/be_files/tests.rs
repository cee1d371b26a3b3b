//! Limits of best effort on a folder of files in the shape of cgroup v1.

use super::super::testing::{FolderHost, dir};
use super::*;

const BE: &str = "kubepods/besteffort";

struct Host {
    folder: FolderHost,
    files: BeFiles,
    tree: Arc<CgroupTree>,
}

impl Host {
    /// A best-effort directory with eight CPUs and without a quota.
    fn new() -> Self {
        let folder = FolderHost::new(&["cpu", "cpuset"]);
        let files = BeFiles::new(folder.layout(), &dir(BE));
        let mut host = Self { folder, files, tree: Arc::default() };
        host.quota("-1\n", "100000\n");
        host.cpus(BE, "0-7\n");
        host.exists(BE, DirKind::QosClass);
        host
    }

    fn put(&self, file: &str, text: &str) {
        self.folder.put(&format!("cgroup/{file}"), text);
    }

    fn quota(&self, quota: &str, period: &str) {
        self.put(&format!("cpu/{BE}/cpu.cfs_quota_us"), quota);
        self.put(&format!("cpu/{BE}/cpu.cfs_period_us"), period);
    }

    fn cpus(&self, path: &str, list: &str) {
        self.put(&format!("cpuset/{path}/cpuset.cpus"), list);
    }

    fn exists(&mut self, path: &str, kind: DirKind) {
        Arc::make_mut(&mut self.tree).dirs.insert(dir(path), kind);
    }

    /// A container directory with this list.
    fn container(&mut self, name: &str, list: &str) {
        self.cpus(&container(name), list);
        self.exists(&container(name), DirKind::Container);
    }

    fn limit(&mut self) -> Option<i64> {
        self.files.real_limit(&self.tree).unwrap().map(|limit| limit.0)
    }
}

fn container(name: &str) -> String {
    format!("{BE}/pod1/{name}")
}

#[test]
fn the_limit_of_files_follows_the_worked_examples() {
    let mut host = Host::new();
    host.container("c", "0-3\n");
    host.quota("250000\n", "100000\n");
    assert_eq!(host.limit(), Some(2500)); // example 6
    let mut host = Host::new();
    host.container("c", "2-5\n");
    host.container("sandbox", "0-15\n");
    assert_eq!(host.limit(), Some(4000)); // row 41
    host.quota("150000\n", "100000\n");
    assert_eq!(host.limit(), Some(1500));
    host.container("new", "\n");
    assert_eq!(host.limit(), Some(0));
    host.cpus(&container("new"), "0-3\n");
    assert_eq!(host.limit(), Some(1500), "an empty list is read again at once");
}

#[test]
fn only_directories_two_levels_down_count() {
    let mut host = Host::new();
    for (path, kind) in [
        (format!("{BE}/pod1"), DirKind::Pod),
        (format!("{BE}/pod1/c/nested"), DirKind::Nested),
        ("kubepods/burstable/pod2/c".to_owned(), DirKind::Container),
    ] {
        host.cpus(&path, "0\n");
        host.exists(&path, kind);
    }
    assert_eq!(host.limit(), Some(8000));
}

#[test]
fn without_a_best_effort_directory_there_is_no_limit_and_no_error() {
    let mut host = Host::new();
    for controller in ["cpu", "cpuset"] {
        host.folder.remove(&format!("cgroup/{controller}/{BE}"));
        assert_eq!(host.limit(), None, "{controller}");
    }
    host.quota("-1\n", "100000\n");
    host.cpus(BE, "0-1\n");
    assert_eq!(host.limit(), Some(2000), "it came back");
}

#[test]
fn c27_a_container_that_vanished_does_not_void_the_round() {
    let mut host = Host::new();
    host.container("a", "0-3\n");
    host.exists(&container("gone"), DirKind::Container);
    assert_eq!(host.limit(), Some(4000));
    host.folder.remove(&format!("cgroup/cpuset/{}", container("a")));
    for round in 0..2 {
        assert_eq!(host.limit(), Some(8000), "round {round}");
    }
}

#[test]
fn a_narrowed_class_directory_makes_every_list_be_read_again() {
    let mut host = Host::new();
    for index in 0..100 {
        host.container(&format!("c{index}"), "0-7\n");
    }
    assert_eq!(host.limit(), Some(8000));
    for index in 0..100 {
        host.cpus(&container(&format!("c{index}")), "0-1\n");
    }
    host.cpus(BE, "0-3\n");
    assert_eq!(host.limit(), Some(2000));
}

#[test]
fn a_change_of_all_containers_is_seen_in_the_next_round_and_one_of_a_single_one_within_fifteen() {
    let mut host = Host::new();
    let name = |index: usize| format!("c{index:03}");
    for index in 0..100 {
        host.container(&name(index), "0-7\n");
    }
    assert_eq!(host.limit(), Some(8000));
    for index in 0..100 {
        host.cpus(&container(&name(index)), "0-3\n");
    }
    assert_eq!(host.limit(), Some(4000));
    for index in [0, 57, 99] {
        host.cpus(&container(&name(index)), "0-1\n");
        let rounds = (1..=ROTATION).find(|_| host.limit() == Some(2000));
        assert!(rounds.is_some(), "container {index}");
        host.cpus(&container(&name(index)), "0-3\n");
        let rounds = (1..=ROTATION).find(|_| host.limit() == Some(4000));
        assert!(rounds.is_some(), "container {index} widened");
    }
}

#[test]
fn a_file_that_cannot_be_understood_is_an_error_that_names_it() {
    let mut host = Host::new();
    host.container("a", "0-\n");
    let error = host.files.real_limit(&host.tree).unwrap_err();
    assert!(error.to_string().contains("pod1/a"), "{error}");
    host.cpus(&container("a"), "0\n");
    host.quota("much\n", "100000\n");
    let error = host.files.real_limit(&host.tree).unwrap_err();
    assert!(error.to_string().contains("CfsQuota"), "{error}");
    host.quota("-1\n", "100000\n");
    assert_eq!(host.limit(), Some(1000));
}
