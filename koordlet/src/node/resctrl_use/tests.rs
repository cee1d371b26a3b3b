//! Trees as the kernel shows them, in a folder. The figures expected stand beside the files.

#![expect(clippy::disallowed_methods, reason = "fixture files in a temporary directory")]

use super::*;
use crate::state::series::settings::SeriesSettings;

/// A resctrl tree in a folder.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            tree.write(name, text);
        }
        tree
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self) -> Result<CacheUse, ResctrlError> {
        read(self.0.path(), Nanos(7))
    }
}

fn series() -> SharedSeries {
    SharedSeries::new(SeriesSettings::default())
}

fn figures_of(occupancy: Option<u64>, local: Option<u64>, total: Option<u64>) -> CacheFigures {
    let [occupancy, local, total] = [occupancy, local, total].map(|bytes| bytes.map(Bytes));
    CacheFigures { occupancy, local, total }
}

#[test]
fn figures_end_with_a_line_break_and_are_bytes_since_the_group_was_made() {
    let tree = Tree::new(&[
        ("LS/mon_data/mon_L3_00/llc_occupancy", "2097152\n"),
        ("LS/mon_data/mon_L3_00/mbm_local_bytes", "18446744073709551615\n"),
        ("LS/mon_data/mon_L3_00/mbm_total_bytes", "0\n"),
        ("BE/mon_data/mon_L3_01/llc_occupancy", "65536\n"),
    ]);
    let found = tree.read().unwrap();
    assert_eq!(found.at, Nanos(7));
    assert_eq!(found.groups[&("LS", 0)], figures_of(Some(2_097_152), Some(u64::MAX), Some(0)));
    assert_eq!(found.groups[&("BE", 1)], figures_of(Some(65_536), None, None), "no bandwidth files");
    assert_eq!(found.groups.len(), 2, "LSR has no group");
}

#[test]
fn c089_cache_ids_may_have_holes() {
    let files = ["00", "01", "16", "17"].map(|id| format!("LSR/mon_data/mon_L3_{id}/llc_occupancy"));
    let tree = Tree::new(&files.each_ref().map(|file| (file.as_str(), "1\n")));
    let ids: Vec<_> = tree.read().unwrap().groups.into_keys().collect();
    assert_eq!(ids, [("LSR", 0), ("LSR", 1), ("LSR", 16), ("LSR", 17)]);
}

#[test]
fn what_the_hardware_cannot_tell_is_an_absent_figure() {
    let tree = Tree::new(&[
        ("LS/mon_data/mon_L3_00/llc_occupancy", "Unavailable\n"),
        ("LS/mon_data/mon_L3_00/mbm_local_bytes", "Error\n"),
        ("LS/mon_data/mon_L3_00/mbm_total_bytes", "5\n"),
    ]);
    assert_eq!(tree.read().unwrap().groups[&("LS", 0)], figures_of(None, None, Some(5)));
}

#[test]
fn other_directories_and_groups_are_left_alone() {
    let tree = Tree::new(&[
        ("mon_data/mon_L3_00/llc_occupancy", "1\n"),
        ("pod-1/mon_data/mon_L3_00/llc_occupancy", "1\n"),
        ("LS/mon_data/mon_L3_00/mon_sub_L3_00/llc_occupancy", "1\n"),
        ("LS/mon_data/mon_PERF_PKG_00/activity", "1.5\n"),
        ("LS/mon_data/mon_L3_/llc_occupancy", "1\n"),
        ("LS/mon_data/mon_L3_+1/llc_occupancy", "1\n"),
        ("LS/mon_data/mon_L3_99999999999/llc_occupancy", "1\n"),
    ]);
    assert_eq!(tree.read().unwrap().groups, [(("LS", 0), CacheFigures::default())].into());
}

#[test]
fn groups_that_vanish_are_no_error_and_resctrl_may_be_mounted_later() {
    let tree = Tree::new(&[]);
    assert!(tree.read().unwrap().groups.is_empty());
    tree.write("BE/mon_data/mon_L3_00/llc_occupancy", "1\n");
    assert_eq!(tree.read().unwrap().groups.len(), 1);
    fs::remove_dir_all(tree.0.path().join("BE/mon_data/mon_L3_00")).unwrap();
    assert!(tree.read().unwrap().groups.is_empty());
    fs::remove_dir_all(tree.0.path().join("BE")).unwrap();
    assert!(tree.read().unwrap().groups.is_empty());
}

#[test]
fn nonsense_is_an_error_that_names_the_file_and_the_last_figures_stay() {
    let tree = Tree::new(&[("LS/mon_data/mon_L3_00/llc_occupancy", "1\n")]);
    let published = Published::default();
    let root = tree.0.path().to_owned();
    let mut collector = ResctrlCollector { root, published: published.clone(), series: series() };
    collector.round(Nanos(1)).unwrap();
    for nonsense in ["", "-1\n", "1 2\n", "99999999999999999999\n"] {
        tree.write("LS/mon_data/mon_L3_00/llc_occupancy", nonsense);
        let error = collector.round(Nanos(2)).unwrap_err();
        let text = crate::error_chain::chain(&*error);
        assert!(text.contains("mon_L3_00/llc_occupancy") && text.contains("no number"), "{text}");
    }
    assert_eq!(published.get().unwrap().at, Nanos(1));
}

#[test]
fn the_cpu_must_be_able_to_and_the_offer_says_what_it_lacks() {
    let host = Tree::new(&[]);
    let roots = Roots { proc: host.0.path().join("proc"), sys_fs: host.0.path().to_owned(), ..Roots::host() };
    let all = FLAGS.join(" ");
    let offered = |vendor: &str, flags: &str| {
        host.write("proc/cpuinfo", &format!("vendor_id\t: {vendor}\nflags\t\t: fpu {flags}\n"));
        assert_eq!(
            ResctrlCollector::new(&roots, Published::default(), series()).is_ok(),
            cpu_can(&CpuModel::read(&roots)).is_ok()
        );
        offer(&roots)
    };
    assert_eq!(
        offered("GenuineIntel", "cat_l3 mba").detail,
        "the CPU lacks cqm_llc cqm_occup_llc cqm_mbm_total cqm_mbm_local"
    );
    assert!(offered("HygonGenuine", &all).detail.contains("HygonGenuine"));
    assert!(offered("AuthenticAMD", &all).detail.contains("not mounted"));
    fs::create_dir_all(host.0.path().join("resctrl/info/L3_MON")).unwrap();
    assert_eq!(offered("GenuineIntel", &all).state, crate::host::offers::State::Ok);
}

#[test]
fn each_figure_that_is_there_is_a_sample_and_a_class_without_any_has_no_series() {
    let tree = Tree::new(&[
        ("LS/mon_data/mon_L3_01/llc_occupancy", "4096\n"),
        ("LS/mon_data/mon_L3_01/mbm_local_bytes", "Unavailable\n"),
        ("LS/mon_data/mon_L3_01/mbm_total_bytes", "1073741824\n"),
        ("BE/mon_data/mon_L3_01/llc_occupancy", "Error\n"),
    ]);
    let series = series();
    let root = tree.0.path().to_owned();
    let mut collector = ResctrlCollector { root, published: Published::default(), series: series.clone() };
    collector.round(Nanos(1_000_000_000)).unwrap();
    let newest = |key| series.newest(&key, Nanos(0), Nanos(u64::MAX)).map(|(_, value)| value);
    assert_eq!(newest(SeriesKey::llc("LS", 1)), Some(4096.0));
    assert_eq!(newest(SeriesKey::mb("LS", 1, MbType::Total)), Some(1_073_741_824.0));
    assert_eq!(newest(SeriesKey::mb("LS", 1, MbType::Local)), None);
    assert_eq!(series.stats().series, 2);
    assert_eq!(series.stats().refused, 0);
}
