//! Memory use of one cgroup from its `memory.stat`, collection.md 6.3, and when that file is read.
//!
//! A group's memory hardly moves while no task of it runs, and reading `memory.stat` makes the kernel sum
//! up its per-CPU figures. So an idle group's file is read every 15 s, spread over that time, and its last
//! figure stands in between. Descriptors are held: a second read costs half of what open and read do.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::resource::{Resource as Limit, getrlimit};

use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::units::{Bytes, Nanos};

/// Longest age of an idle group's figure.
const IDLE_PERIOD: Nanos = Nanos(15_000_000_000);

/// What is remembered of one group.
#[derive(Debug, Default)]
pub(super) struct GroupMemory {
    held: Option<HeldFile>,
    figure: Option<Bytes>,
    /// When the file is read again even if nothing ran; `None` before the first time.
    due: Option<Nanos>,
}

/// A descriptor that counts towards the reader's limit until it is dropped.
#[derive(Debug)]
struct HeldFile {
    file: File,
    _counted: Arc<()>,
}

/// Reads `memory.stat` files.
#[derive(Debug)]
pub(super) struct MemoryReader {
    layout: Arc<Layout>,
    buffer: Vec<u8>,
    /// One reference for each held descriptor, and this one.
    held: Arc<()>,
    most_held: usize,
    /// Spreads the first re-readings of idle groups over the period.
    started: u64,
    failing: bool,
}

impl MemoryReader {
    /// For the groups of `layout`. At most a quarter of the process's descriptors are held; the files of
    /// further groups are opened each time.
    pub(super) fn new(layout: Arc<Layout>) -> Self {
        let descriptors = getrlimit(Limit::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let most_held = usize::try_from(descriptors / 4).unwrap_or(usize::MAX);
        Self { layout, buffer: vec![0; 4096], held: Arc::new(()), most_held, started: 0, failing: false }
    }

    /// The group's memory use, read anew if `ran` (something ran in it since the last call) or if the last
    /// figure is too old. `None` if the group does not exist or its file cannot be understood.
    pub(super) fn usage(
        &mut self,
        group: &mut GroupMemory,
        dir: &CgroupDir,
        ran: bool,
        now: Nanos,
    ) -> Option<Bytes> {
        let first = group.due.is_none();
        if !first && !ran && group.due.is_some_and(|due| now < due) {
            return group.figure;
        }
        let wait = if first { self.first_wait() } else { IDLE_PERIOD };
        group.due = Some(now + wait);
        group.figure = match self.read(group, dir) {
            Ok(figure) => {
                self.failing = false;
                figure
            }
            Err(error) => {
                if !self.failing {
                    tracing::warn!(%dir, error = &error as &dyn std::error::Error, "memory use is not known");
                }
                self.failing = true;
                None
            }
        };
        group.figure
    }

    /// 1 to 15 s in turn.
    fn first_wait(&mut self) -> Nanos {
        self.started = self.started.wrapping_add(1);
        Nanos(IDLE_PERIOD.0 / 15 * (self.started % 15 + 1))
    }

    fn read(&mut self, group: &mut GroupMemory, dir: &CgroupDir) -> Result<Option<Bytes>, MemoryError> {
        if let Some(held) = &group.held {
            match read_all(&held.file, &mut self.buffer) {
                Ok(length) => return self.parse(dir, length).map(Some),
                // The group that the descriptor belongs to has gone; its path may be another's by now.
                Err(error) if is_gone(&error) => group.held = None,
                Err(source) => return Err(MemoryError::Read { path: self.path(dir), source }),
            }
        }
        let path = self.path(dir);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(source) => return Err(MemoryError::Read { path, source }),
        };
        let length = match read_all(&file, &mut self.buffer) {
            Ok(length) => length,
            Err(error) if is_gone(&error) => return Ok(None),
            Err(source) => return Err(MemoryError::Read { path, source }),
        };
        if Arc::strong_count(&self.held) <= self.most_held {
            group.held = Some(HeldFile { file, _counted: Arc::clone(&self.held) });
        }
        self.parse(dir, length).map(Some)
    }
}

impl MemoryReader {
    fn parse(&self, dir: &CgroupDir, length: usize) -> Result<Bytes, MemoryError> {
        let text = self.buffer.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.and_then(without_page_cache).ok_or_else(|| MemoryError::Parse { path: self.path(dir) })
    }

    fn path(&self, dir: &CgroupDir) -> PathBuf {
        let file = self.layout.file(dir, Resource::MemoryStat);
        file.and_then(|file| self.layout.path(&file)).unwrap_or_else(|| PathBuf::from(dir.as_str()))
    }
}

fn without_page_cache(text: &str) -> Option<Bytes> {
    let total = text.lines().any(|line| line.starts_with("total_"));
    let mut sum = 0u64;
    let mut found = 0;
    for line in text.lines() {
        let Some((key, value)) = line.split_once(' ') else { continue };
        let key = if total { key.strip_prefix("total_").unwrap_or("") } else { key };
        if ["inactive_anon", "active_anon", "unevictable"].contains(&key) {
            sum = sum.checked_add(value.trim().parse().ok()?)?;
            found += 1;
        }
    }
    (found == 3).then_some(Bytes(sum))
}

/// Why a group's memory use is not known though the group exists.
#[derive(Debug, thiserror::Error)]
enum MemoryError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} lacks a figure that every kernel gives", path.display())]
    Parse { path: PathBuf },
}

/// Whether the group has gone: no file, or a descriptor whose group was removed.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ENODEV as i32)
}

/// Reads a whole file from its start; the buffer grows to what it needs. One system call for a file that fits.
fn read_all(file: &File, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut length = 0;
    loop {
        let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) else {
            buffer.resize(buffer.len() * 2, 0);
            continue;
        };
        let room = rest.len();
        let read = file.read_at(rest, length as u64)?;
        length += read;
        if read < room {
            return Ok(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn put(root: &Path, dir: &str, text: &str) {
        fs::create_dir_all(root.join(dir)).unwrap();
        fs::write(root.join(dir).join("memory.stat"), text).unwrap();
    }

    fn seconds(at: u64) -> Nanos {
        Nanos(at * 1_000_000_000)
    }

    const V1: &str = "cache 1\ninactive_anon 1\nactive_anon 1\nunevictable 1\ntotal_cache 7\ntotal_rss 8\n\
        total_inactive_anon 4096\ntotal_active_anon 8192\ntotal_inactive_file 1024\n\
        total_active_file 2048\ntotal_unevictable 0\n";

    fn v1_host() -> (tempfile::TempDir, MemoryReader, CgroupDir) {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "memory/pod", V1);
        let layout = Arc::new(Layout::of_folder(root.path()).unwrap());
        (root, MemoryReader::new(layout), CgroupDir::new("pod").unwrap())
    }

    #[test]
    fn pod_memory_follows_the_worked_example() {
        let (_root, mut reader, dir) = v1_host();
        let mut group = GroupMemory::default();
        assert_eq!(reader.usage(&mut group, &dir, true, seconds(1)), Some(Bytes(12_288)));
    }

    #[test]
    fn an_idle_group_is_read_every_15_s_and_a_busy_one_each_time() {
        let (root, mut reader, dir) = v1_host();
        let mut group = GroupMemory::default();
        reader.usage(&mut group, &dir, true, seconds(0));
        let doubled = V1.replace("8192", "20480");
        put(root.path(), "memory/pod", &doubled);
        let stands = reader.usage(&mut group, &dir, false, seconds(1));
        assert_eq!(stands, Some(Bytes(12_288)));
        assert_eq!(reader.usage(&mut group, &dir, true, seconds(1)), Some(Bytes(24_576)));
        put(root.path(), "memory/pod", V1);
        assert_eq!(reader.usage(&mut group, &dir, false, seconds(15)), Some(Bytes(24_576)));
        assert_eq!(reader.usage(&mut group, &dir, false, seconds(16)), Some(Bytes(12_288)));
    }

    #[test]
    fn the_first_waits_of_many_groups_are_spread_over_the_period() {
        let (_root, mut reader, dir) = v1_host();
        let mut groups: Vec<_> = (0..150).map(|_| GroupMemory::default()).collect();
        for group in &mut groups {
            reader.usage(group, &dir, true, seconds(0));
        }
        for at in 1..=15 {
            let due = groups.iter().filter(|group| group.due == Some(seconds(at))).count();
            assert_eq!(due, 10, "after {at} s");
        }
    }

    #[test]
    fn a_group_that_is_not_there_has_no_figure_and_one_that_comes_back_has() {
        let (root, mut reader, dir) = v1_host();
        fs::remove_dir_all(root.path().join("memory/pod")).unwrap();
        let mut group = GroupMemory::default();
        assert_eq!(reader.usage(&mut group, &dir, true, seconds(1)), None);
        put(root.path(), "memory/pod", V1);
        assert_eq!(reader.usage(&mut group, &dir, true, seconds(2)), Some(Bytes(12_288)));
    }

    #[test]
    fn beyond_the_limit_files_are_read_without_being_held() {
        let (_root, mut reader, dir) = v1_host();
        reader.most_held = 2;
        let mut groups: Vec<_> = (0..5).map(|_| GroupMemory::default()).collect();
        for group in &mut groups {
            assert!(reader.usage(group, &dir, true, seconds(1)).is_some());
        }
        assert_eq!(groups.iter().filter(|group| group.held.is_some()).count(), 2);
        groups.truncate(1);
        let mut late = GroupMemory::default();
        reader.usage(&mut late, &dir, true, seconds(2));
        assert!(late.held.is_some(), "a dropped group gives its descriptor back");
    }

    #[test]
    fn a_file_larger_than_the_buffer_is_read_whole() {
        let (root, mut reader, dir) = v1_host();
        reader.buffer = vec![0; 16];
        put(root.path(), "memory/pod", &format!("{}{V1}", "filler 1\n".repeat(2000)));
        assert_eq!(reader.usage(&mut GroupMemory::default(), &dir, true, seconds(1)), Some(Bytes(12_288)));
    }

    #[test]
    fn a_file_without_the_figures_gives_none_not_zero() {
        let (root, mut reader, dir) = v1_host();
        for text in ["", "total_inactive_anon 1\ntotal_active_anon x\ntotal_unevictable 1\n", "\u{0}"] {
            put(root.path(), "memory/pod", text);
            let figure = reader.usage(&mut GroupMemory::default(), &dir, true, seconds(1));
            assert_eq!(figure, None, "{text:?}");
        }
    }
}
