use std::fs::read_to_string;
use std::os::unix::fs::symlink;
use std::time::{Duration, UNIX_EPOCH};

use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;
use crate::report::audit::event::Event;

const TIME: Duration = Duration::from_secs(1_785_000_001);

struct Rig {
    _folder: tempfile::TempDir,
    dir: PathBuf,
    files: LogFiles,
    stats: Arc<AuditStats>,
}

/// 3 files of 1000 bytes.
const SMALL: Room = Room { file: 1000, files: 3 };

impl Rig {
    fn new(room: Room) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("log/koordlet");
        let stats = Arc::new(AuditStats::default());
        let files = LogFiles::new(dir.clone(), room, Arc::clone(&stats));
        Self { _folder: folder, dir, files, stats }
    }

    fn restart(&mut self, room: Room) {
        self.files = LogFiles::new(self.dir.clone(), room, Arc::clone(&self.stats));
    }

    fn put(&mut self, name: &str) -> io::Result<()> {
        let mut lines = VecDeque::from([line(name)]);
        let result = self.files.append(&mut lines, UNIX_EPOCH + TIME);
        assert_eq!(result.is_ok(), lines.is_empty());
        result
    }

    fn current(&self) -> String {
        read_to_string(self.dir.join(CURRENT)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn figure(&self, name: &str) -> u64 {
        self.stats.figures().into_iter().find(|(of, _)| *of == name).unwrap().1
    }
}

fn line(name: &str) -> Vec<u8> {
    Event { name: name.to_owned().into(), ..Event::default() }.line()
}

fn text(names: &[&str]) -> String {
    names.iter().flat_map(|name| ["{\"name\":\"", *name, "\"}\n"]).collect()
}

fn write(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[test]
fn the_directory_is_made_with_its_mode_and_set_to_it() {
    let mut rig = Rig::new(SMALL);
    rig.put("a").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&rig.dir), mode(&rig.path(CURRENT)) & 0o027), (0o755, 0));
    fs::set_permissions(&rig.dir, Permissions::from_mode(0o777)).unwrap();
    rig.restart(SMALL);
    rig.put("b").unwrap();
    assert_eq!(mode(&rig.dir), 0o755);
    fs::set_permissions(&rig.dir, Permissions::from_mode(0o1777)).unwrap();
    rig.restart(SMALL);
    rig.put("c").unwrap();
    assert_eq!((mode(&rig.dir), rig.current()), (0o1777, text(&["a", "b", "c"])), "everybody's directory");
}

#[test]
fn files_are_rotated_at_their_size_and_the_oldest_ones_go() {
    let mut rig = Rig::new(SMALL);
    let long = "x".repeat(289);
    for round in 0..40_usize {
        rig.put(&format!("{round:02}{}", &long[..287])).unwrap();
        let names = rotated_names(&rig.dir).unwrap();
        assert!(names.len() < SMALL.files);
        for name in names.iter().map(ToString::to_string).chain([CURRENT.into()]) {
            assert!(fs::metadata(rig.path(&name)).unwrap().len() <= SMALL.file, "{name}");
        }
    }
    assert_eq!(rig.figure("rotations"), 13, "3 lines of 302 bytes a file");
    let stamp = file_time(UNIX_EPOCH + TIME);
    let names: Vec<String> = rotated_names(&rig.dir).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(names, [11, 12].map(|n| format!("audit-{stamp}-{n}.log")));
    assert!(rig.current().contains("\"39xx"));
}

#[test]
fn the_size_is_right_after_a_restart_and_a_smaller_space_takes_effect() {
    let mut rig = Rig::new(SMALL);
    for _ in 0..10 {
        rig.put(&"x".repeat(480)).unwrap();
    }
    assert_eq!(rotated_names(&rig.dir).unwrap().len(), 2);
    rig.restart(SMALL);
    assert_eq!(rig.current().len(), 2 * 492);
    rig.put("the next one").unwrap();
    assert_eq!(rig.current(), text(&["the next one"]), "the file was full already");
    rig.restart(Room { file: 1000, files: 2 });
    rig.files.open().unwrap();
    assert_eq!(rotated_names(&rig.dir).unwrap().len(), 1);
    // Files of another agent's size count by their bytes.
    write(&rig.path("audit-2001-01-01-00-00-00-0.log"), &vec![b'x'; 5000]);
    rig.restart(SMALL);
    rig.files.open().unwrap();
    assert!(!rig.path("audit-2001-01-01-00-00-00-0.log").exists());
}

#[test]
fn the_room_keeps_within_the_space_and_always_holds_two_files() {
    for (mib, file, files) in [
        (0, 1 << 20, 2),
        (2, 1 << 20, 2),
        (3, 3 << 19, 2),
        (4, 2 << 20, 2),
        (16, 2 << 20, 8),
        (17, 2 << 20, 8),
    ] {
        let room = Room::of_mib(mib);
        assert_eq!(room, Room { file, files }, "{mib}");
        assert!(room.bytes() <= mib.max(2) << 20);
    }
    assert!(Room::of_mib(u64::MAX).files > 1);
}

#[test]
fn c207_a_line_cut_short_is_ended_and_a_file_that_is_no_log_is_set_aside() {
    let mut rig = Rig::new(SMALL);
    rig.put("a").unwrap();
    let path = rig.path(CURRENT);
    for cut in ["{\"name\":", "{\"name\":\"b\"}"] {
        write(&path, format!("{}{cut}", text(&["a"])).as_bytes());
        rig.restart(SMALL);
        rig.put("c").unwrap();
        assert_eq!(rig.current(), format!("{}{cut}\n{}", text(&["a"]), text(&["c"])));
    }
    write(&path, b"\0\xffgarbage");
    rig.restart(SMALL);
    rig.put("d").unwrap();
    assert_eq!(rig.current(), text(&["d"]));
    assert_eq!(fs::read(rig.path(SET_ASIDE)).unwrap(), b"\0\xffgarbage");
    assert_eq!(rig.figure("damage"), 3);
    write(&path, b"");
    rig.put("e").unwrap();
    assert_eq!((rig.current(), rig.figure("damage")), (text(&["e"]), 3), "truncated while open");
}

#[test]
fn links_pipes_and_directories_in_the_files_place_are_set_aside_and_not_written_to() {
    let victim = tempfile::NamedTempFile::new().unwrap();
    let lay: [&dyn Fn(&Path); 3] = [
        &|path| symlink(victim.path(), path).unwrap(),
        &|path| mkfifo(path, Mode::S_IRWXU).unwrap(),
        &|path| fs::create_dir(path).unwrap(),
    ];
    for lay in lay {
        let mut rig = Rig::new(SMALL);
        fs::create_dir_all(&rig.dir).unwrap();
        lay(&rig.path(CURRENT));
        rig.put("a").unwrap();
        assert_eq!(rig.current(), text(&["a"]));
        assert!(fs::symlink_metadata(rig.path(SET_ASIDE)).is_ok());
    }
    assert_eq!(victim.as_file().metadata().unwrap().len(), 0);
}

#[test]
fn what_was_set_aside_before_is_in_nobodys_way() {
    let mut rig = Rig::new(SMALL);
    rig.put("a").unwrap();
    for kept_as in [SET_ASIDE.to_owned(), format!("{SET_ASIDE}.1")] {
        fs::remove_file(rig.path(CURRENT)).unwrap();
        fs::create_dir_all(rig.path(CURRENT).join("full")).unwrap();
        rig.put("b").unwrap();
        assert!(rig.path(&kept_as).join("full").is_dir(), "{kept_as}");
    }
    fs::remove_file(rig.path(CURRENT)).unwrap();
    symlink("elsewhere", rig.path(CURRENT)).unwrap();
    rig.put("c").unwrap();
    assert!(rig.path(&format!("{SET_ASIDE}.2")).is_symlink());
    assert_eq!(rig.current(), text(&["c"]));
}

#[test]
fn a_directory_with_a_rotated_files_name_holds_up_nothing() {
    let mut rig = Rig::new(SMALL);
    rig.put("a").unwrap();
    let name = "audit-9999-12-31-23-59-59-1.log";
    fs::create_dir_all(rig.path(name).join("full")).unwrap();
    let long = "x".repeat(900);
    for _ in 0..6 {
        rig.put(&long).unwrap();
    }
    assert!(rig.path(name).is_dir());
    let rotated = rotated_names(&rig.dir).unwrap();
    assert_eq!(rotated.len(), 3, "two of ours and the directory: {rotated:?}");
}

#[test]
fn files_and_directories_that_go_under_us_are_made_again() {
    let mut rig = Rig::new(SMALL);
    rig.put("a").unwrap();
    fs::rename(rig.path(CURRENT), rig.path("moved")).unwrap();
    rig.put("b").unwrap();
    assert_eq!(rig.current(), text(&["b"]));
    fs::remove_file(rig.path(CURRENT)).unwrap();
    rig.put("c").unwrap();
    assert_eq!(rig.current(), text(&["c"]));
    fs::remove_dir_all(&rig.dir).unwrap();
    rig.put("d").unwrap();
    assert_eq!(rig.current(), text(&["d"]));
    assert_eq!(read_to_string(rig.path("moved")).ok(), None);
}

#[test]
fn a_place_that_cannot_be_written_is_an_error_until_it_can() {
    let mut rig = Rig::new(SMALL);
    let above = rig.dir.parent().unwrap().to_owned();
    write(&above, b"a file where a directory should be");
    for _ in 0..2 {
        assert!(rig.put("lost").is_err());
    }
    fs::remove_file(&above).unwrap();
    rig.put("a").unwrap();
    assert_eq!(rig.current(), text(&["a"]));
}

/// A disk of its own, seen by this thread alone, of so many KiB; `Err` is the reason why there is none.
fn small_disk(at: &Path, kib: usize) -> Result<(), String> {
    use nix::mount::{MsFlags, mount};
    let failed = |error: nix::Error| format!("no mount namespace of our own: {error}");
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).map_err(failed)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(failed)?;
    let size = format!("size={kib}k");
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(size.as_str())).map_err(failed)
}

fn remount(at: &Path, flags: nix::mount::MsFlags) {
    let none = None::<&str>;
    nix::mount::mount(none, at, none, flags | nix::mount::MsFlags::MS_REMOUNT, none).unwrap();
}

#[test]
fn a_full_and_a_read_only_disk_lose_nothing_once_there_is_room() {
    // A thread of its own, whose namespace goes with it.
    let skipped = std::thread::spawn(|| {
        let mut rig = Rig::new(Room { file: 1 << 20, files: 2 });
        fs::create_dir_all(&rig.dir).unwrap();
        small_disk(&rig.dir, 64)?;
        write(&rig.path("ballast"), &vec![0; 32 << 10]);
        let long = "x".repeat(1000);
        let mut lines: VecDeque<Vec<u8>> = (0..60).map(|n| line(&format!("{n:03}{long}"))).collect();
        let all: Vec<u8> = lines.iter().flatten().copied().collect();
        let full = rig.files.append(&mut lines, UNIX_EPOCH).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
        rig.files.append(&mut lines, UNIX_EPOCH).unwrap_err();
        fs::remove_file(rig.path("ballast")).unwrap();
        // Still not enough for all of it.
        rig.files.append(&mut lines, UNIX_EPOCH).ok();
        rig.restart(Room { file: 1 << 20, files: 2 });
        remount(&rig.dir, nix::mount::MsFlags::MS_RDONLY);
        let mut more = VecDeque::from([line("late")]);
        let refused = rig.files.append(&mut more, UNIX_EPOCH).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
        nix::mount::mount(
            None::<&str>,
            &rig.dir,
            None::<&str>,
            nix::mount::MsFlags::MS_REMOUNT,
            Some("size=1m"),
        )
        .unwrap();
        rig.files.append(&mut lines, UNIX_EPOCH).unwrap();
        rig.files.append(&mut more, UNIX_EPOCH).unwrap();
        let expected = [all, line("late")].concat();
        assert!(fs::read(rig.path(CURRENT)).unwrap() == expected, "each line once, none cut");
        nix::mount::umount2(&rig.dir, nix::mount::MntFlags::MNT_DETACH).unwrap();
        Ok::<(), String>(())
    });
    if let Err(reason) = skipped.join().unwrap() {
        // Past libtest's capture, which swallows what a passing test prints.
        writeln!(io::stdout(), "\nSKIPPED: {reason}").unwrap();
    }
}
