//! Whole machines as sysfs trees, with what is to come out of them beside.

use std::collections::BTreeMap;
use std::fs;

use super::*;

/// 64 characters, as the ids of a group and of a volume are.
const IDS: &str = "QfvYpUa4Jf0k0cgIMcyZQhp1pTAB6CTCkPBiKZCQf5bEo8vFbVcsz0zHSxUnH4Pc";

struct Machine(tempfile::TempDir);

impl Machine {
    /// Files of sysfs with their texts; `slaves` and the like are folders.
    fn new(files: &[(&str, &str)], mountinfo: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            put(&root.path().join("sys/block").join(file), &format!("{text}\n"));
        }
        put(&root.path().join("proc/self/mountinfo"), mountinfo);
        Self(root)
    }

    fn roots(&self) -> Roots {
        let root = self.0.path();
        Roots { sys: root.join("sys"), proc: root.join("proc"), ..Roots::host() }
    }

    fn disks(&self) -> Disks {
        read(&self.roots(), MountsOf::Agent).unwrap().disks
    }
}

#[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A volume of LVM: name, number, the devices beneath, what marks it as internal.
fn volume<'a>(dm: &'a str, name: &'a str, number: &'a str, below: &'a [&'a str]) -> Vec<(String, String)> {
    internal(dm, name, number, below, "")
}

fn internal(dm: &str, name: &str, number: &str, below: &[&str], mark: &str) -> Vec<(String, String)> {
    let mut files = vec![
        (format!("{dm}/dev"), number.to_owned()),
        (format!("{dm}/size"), "2048".to_owned()),
        (format!("{dm}/dm/name"), name.to_owned()),
        (format!("{dm}/dm/uuid"), format!("LVM-{IDS}{mark}")),
    ];
    files.extend(below.iter().map(|each| (format!("{dm}/slaves/{each}/dev"), String::new())));
    files
}

fn with_volumes(disks: &[(&str, &str)], volumes: &[Vec<(String, String)>], mountinfo: &str) -> Disks {
    let mut files = disks.to_vec();
    files.extend(volumes.iter().flatten().map(|(file, text)| (file.as_str(), text.as_str())));
    Machine::new(&files, mountinfo).disks()
}

const VIRTIO: [(&str, &str); 9] = [
    ("vda/dev", "253:0"),
    ("vda/size", "83886080"),
    ("vda/vda1/dev", "253:1"),
    ("vda/vda1/partition", "1"),
    ("vda/queue/rotational", "1"),
    ("vdb/dev", "253:16"),
    ("vdb/size", "2048"),
    ("vdb/vdb2/dev", "253:18"),
    ("vdb/vdb2/partition", "2"),
];

#[test]
fn virtio_disks_with_partitions_and_what_is_mounted() {
    let mountinfo = "20 1 253:1 / / rw - ext4 /dev/root rw\n\
        21 20 253:18 / /var/lib/kubelet/pods/u1/volumes/kubernetes.io~csi/pv\\0401/mount rw - xfs /dev/vdb2 rw\n\
        22 20 0:40 / /tmp rw - tmpfs tmpfs rw\n\
        23 20 0:41 / /tmp rw - tmpfs second rw\n";
    let expected = Disks {
        disk_numbers: map(&[("/dev/vda", "253:0"), ("/dev/vdb", "253:16")]),
        number_disks: map(&[("253:0", "/dev/vda"), ("253:16", "/dev/vdb")]),
        partition_disks: map(&[("/dev/vda1", "/dev/vda"), ("/dev/vdb2", "/dev/vdb")]),
        mount_sources: map(&[
            ("/", "/dev/vda1"),
            ("/var/lib/kubelet/pods/u1/volumes/kubernetes.io~csi/pv 1/mount", "/dev/vdb2"),
            ("/tmp", "second"),
        ]),
        ..Disks::default()
    };
    assert_eq!(Machine::new(&VIRTIO, mountinfo).disks(), expected);
}

#[test]
fn partitions_of_nvme_and_mmc_belong_to_the_disk_that_holds_them_whatever_their_numbers() {
    // Rounded down to a multiple of 16, all of them would be the first disk's (qos.md Q27).
    let machine = Machine::new(
        &[
            ("nvme0n1/dev", "259:0"),
            ("nvme0c0n1/hidden", "1"),
            ("nvme1n1/dev", "259:3"),
            ("nvme1n1/nvme1n1p1/dev", "259:4"),
            ("nvme1n1/nvme1n1p1/partition", "1"),
            ("nvme1n1/nvme1n1p17/dev", "259:21"),
            ("nvme1n1/nvme1n1p17/partition", "17"),
            ("mmcblk0/dev", "179:0"),
            ("mmcblk0/mmcblk0p1/dev", "179:1"),
            ("mmcblk0/mmcblk0p1/partition", "1"),
            ("sda/dev", "8:0"),
            ("sda/device/type", "0"),
            ("sda/sda1/dev", "8:1"),
            ("sda/sda1/partition", "1"),
            ("cciss!c0d0/dev", "104:0"),
            ("cciss!c0d0/cciss!c0d0p1/dev", "104:1"),
            ("cciss!c0d0/cciss!c0d0p1/partition", "1"),
        ],
        "",
    );
    let disks = machine.disks();
    assert_eq!(
        disks.partition_disks,
        map(&[
            ("/dev/nvme1n1p1", "/dev/nvme1n1"),
            ("/dev/nvme1n1p17", "/dev/nvme1n1"),
            ("/dev/mmcblk0p1", "/dev/mmcblk0"),
            ("/dev/sda1", "/dev/sda"),
            ("/dev/cciss/c0d0p1", "/dev/cciss/c0d0"),
        ])
    );
    assert_eq!(disks.disk_numbers.len(), 5);
    assert_eq!(disks.number_disks["259:3"], "/dev/nvme1n1");
}

#[test]
fn a_volume_group_on_one_disk_has_that_disk() {
    let mountinfo = "30 20 252:0 / /data rw - xfs /dev/dm-0 rw\n\
                     31 20 252:1 / /thin rw - xfs /dev/disk/by-uuid/1-2 rw\n";
    let disks = with_volumes(
        &VIRTIO,
        &[
            // Worked example: group `a-b`, volume `c-d`.
            volume("dm-0", "a--b-c--d", "252:0", &["vdb2"]),
            // A thin volume, three layers above a whole disk.
            volume("dm-1", "vg1-thin", "252:1", &["dm-2"]),
            internal("dm-2", "vg1-pool-tpool", "252:2", &["dm-3", "dm-4"], "-tpool"),
            internal("dm-3", "vg1-pool_tdata", "252:3", &["vda"], "-tdata"),
            internal("dm-4", "vg1-pool_tmeta", "252:4", &["vda"], "-tmeta"),
        ],
        mountinfo,
    );
    assert_eq!(
        disks.volume_groups,
        map(&[("/dev/mapper/a--b-c--d", "a-b"), ("/dev/mapper/vg1-thin", "vg1")])
    );
    assert_eq!(disks.group_disks, map(&[("a-b", "/dev/vdb"), ("vg1", "/dev/vda")]));
    assert_eq!(
        disks.mount_sources,
        map(&[("/data", "/dev/mapper/a--b-c--d"), ("/thin", "/dev/mapper/vg1-thin")])
    );
}

#[test]
fn a_volume_group_on_two_disks_is_left_out_and_its_volumes_are_known() {
    let spread = volume("dm-0", "wide-striped", "252:0", &["vda1", "vdb2"]);
    let parted = [
        volume("dm-1", "two-one", "252:1", &["vda1"]),
        volume("dm-2", "two-other", "252:2", &["vdb2"]),
        volume("dm-3", "lost-lv", "252:3", &["gone"]),
    ];
    let disks = with_volumes(&VIRTIO, &[vec![spread], parted.to_vec()].concat(), "");
    assert_eq!(disks.group_disks, map(&[]));
    assert_eq!(disks.volume_groups.len(), 4);
}

#[test]
fn raid_loop_optical_and_ram_devices_are_no_disks() {
    let disks = with_volumes(
        &[
            ("md0/dev", "9:0"),
            ("md0/md/level", "raid1"),
            ("md0/slaves/vda1/dev", ""),
            ("md0/slaves/vdb2/dev", ""),
            ("md0/md0p1/dev", "259:7"),
            ("md0/md0p1/partition", "1"),
            ("loop0/dev", "7:0"),
            ("loop0/size", "0"),
            ("loop1/dev", "7:1"),
            ("loop1/size", "2048"),
            ("loop1/loop/backing_file", "/x.img"),
            ("sr0/dev", "11:0"),
            ("sr0/device/type", "5"),
            ("ram0/dev", "1:0"),
            ("zram0/dev", "254:0"),
            ("zram0/size", "0"),
            ("vda/dev", "253:0"),
            ("vda/vda1/dev", "253:1"),
            ("vda/vda1/partition", "1"),
        ],
        &[
            volume("dm-0", "mirror-lv", "252:0", &["md0"]),
            volume("dm-1", "file-lv", "252:1", &["loop1"]),
            vec![
                ("dm-2/dev".to_owned(), "252:2".to_owned()),
                ("dm-2/dm/name".to_owned(), "luks-1".to_owned()),
                ("dm-2/dm/uuid".to_owned(), "CRYPT-LUKS2-1".to_owned()),
                ("dm-2/slaves/vda1/dev".to_owned(), String::new()),
            ],
            volume("dm-3", "safe-lv", "252:3", &["dm-2"]),
        ],
        "40 20 9:0 / /raid rw - ext4 /dev/md/0 rw\n",
    );
    assert_eq!(disks.disk_numbers, map(&[("/dev/vda", "253:0")]));
    assert_eq!(disks.partition_disks, map(&[("/dev/vda1", "/dev/vda")]));
    assert_eq!(disks.group_disks, map(&[("safe", "/dev/vda")]), "encrypted, on one disk");
    assert_eq!(disks.mount_sources, map(&[("/raid", "/dev/md0")]));
}

#[test]
fn names_that_no_group_and_volume_give_are_no_volumes() {
    let odd = ["plain", "-lv", "vg-", "vg--lv", "vg---", ""].map(|name| {
        let disks = with_volumes(&VIRTIO, &[volume("dm-0", name, "252:0", &["vda"])], "");
        (name, disks.volume_groups.len())
    });
    assert!(odd.iter().all(|(_, count)| *count == 0), "{odd:?}");
    let dash = with_volumes(&VIRTIO, &[volume("dm-0", "vg---lv", "252:0", &["vda"])], "");
    assert_eq!(dash.volume_groups["/dev/mapper/vg---lv"], "vg-");
}

#[test]
fn a_round_publishes_changes_and_keeps_the_last_good_figures() {
    let machine = Machine::new(&VIRTIO, "");
    let disks = Published::default();
    let mut collector = DiskCollector::new(&machine.roots(), MountsOf::Agent, disks.clone());
    collector.round(Nanos(0)).unwrap();
    let first = disks.get().unwrap();
    collector.round(Nanos(1)).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &disks.get().unwrap()), "nothing changed");
    fs::remove_dir_all(machine.0.path().join("sys/block/vdb")).unwrap();
    collector.round(Nanos(2)).unwrap();
    assert_eq!(disks.get().unwrap().disk_numbers.len(), 1);
    fs::remove_dir_all(machine.0.path().join("sys/block")).unwrap();
    let error = collector.round(Nanos(3)).unwrap_err();
    assert!(error.to_string().contains("sys/block"), "{error}");
    assert_eq!(disks.get().unwrap().disk_numbers.len(), 1);
    assert_eq!(offer(&machine.roots(), MountsOf::Agent).state, crate::host::offers::State::Failed);
}

#[test]
fn in_a_container_the_mounts_are_those_of_the_hosts_first_process() {
    let own = "20 1 253:1 / / rw - overlay overlay rw\n";
    let machine = Machine::new(&VIRTIO, own);
    let points = |found: &Found| found.disks.mount_sources.keys().cloned().collect::<Vec<_>>();
    let read = || read(&machine.roots(), MountsOf::HostInit).unwrap();
    let found = read();
    assert_eq!(points(&found), ["/"]);
    assert!(found.only_own_mounts.unwrap().contains("proc/1/mountinfo"), "it cannot be read");

    let init = machine.0.path().join("proc/1/mountinfo");
    put(&init, own);
    let found = read();
    assert_eq!(points(&found), ["/"]);
    assert!(found.only_own_mounts.unwrap().contains("hostPID"));
    assert!(offer(&machine.roots(), MountsOf::HostInit).detail.contains("this container only"));

    put(&init, "20 1 253:1 / / rw - ext4 /dev/root rw\n21 20 253:2 / /data rw - ext4 x rw\n");
    let found = read();
    assert_eq!((points(&found), found.only_own_mounts), (vec!["/".to_owned(), "/data".to_owned()], None));
}

#[test]
fn this_machine_can_be_read() {
    let roots = Roots::host();
    if !roots.sys.join("block").is_dir() {
        println!("SKIPPED: no sysfs with block devices here");
        return;
    }
    let disks = read(&roots, MountsOf::Agent).unwrap().disks;
    for (disk, number) in &disks.disk_numbers {
        assert_eq!(disks.number_disks[number], *disk);
        assert!(fs::exists(roots.sys.join("dev/block").join(number)).unwrap(), "{disk} {number}");
    }
    assert!(disks.mount_sources.contains_key("/"));
}
