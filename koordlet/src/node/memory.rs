//! Memory use of one cgroup from its `memory.stat`, collection.md 6.3, and when that file is read.
//!
//! A group's memory hardly moves while no task of it runs, and reading `memory.stat` makes the kernel sum
//! up its per-CPU figures. So an idle group's file is read every 15 s, spread over that time, and its last
//! figure stands in between. Descriptors are held: a second read costs half of what open and read do.

use std::io;
use std::sync::Arc;

use nix::sys::resource::{Resource as Limit, getrlimit};

use crate::cgroup::held_file::{HeldFile, ReadBuffer, ReadError};
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::read::StatError;
use crate::cgroup::resource::Resource;
use crate::units::{Bytes, Nanos};

/// Longest age of an idle group's figure.
const IDLE_PERIOD: Nanos = Nanos(15_000_000_000);

/// What is remembered of one group.
#[derive(Debug, Default)]
pub(super) struct GroupMemory {
    held: Option<Counted>,
    figure: Option<Bytes>,
    /// When the file is read again even if nothing ran; `None` before the first time.
    due: Option<Nanos>,
    failing: bool,
}

/// A descriptor that counts towards the reader's limit until it is dropped.
#[derive(Debug)]
struct Counted {
    file: HeldFile,
    _count: Arc<()>,
}

/// Reads `memory.stat` files.
#[derive(Debug)]
pub(super) struct MemoryReader {
    layout: Arc<Layout>,
    buffer: ReadBuffer,
    /// One reference for each held descriptor, and this one.
    held: Arc<()>,
    most_held: usize,
    /// Spreads the first re-readings of idle groups over the period.
    started: u64,
}

impl MemoryReader {
    /// For the groups of `layout`. At most a quarter of the process's descriptors are held; the files of
    /// further groups are opened each time.
    pub(super) fn new(layout: Arc<Layout>) -> Self {
        let descriptors = getrlimit(Limit::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let most_held = usize::try_from(descriptors / 4).unwrap_or(usize::MAX);
        Self { layout, buffer: ReadBuffer::default(), held: Arc::new(()), most_held, started: 0 }
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
        let read = self.read(group, dir);
        if let Err(error) = &read
            && !group.failing
        {
            tracing::warn!(%dir, error = error as &dyn std::error::Error, "memory use is not known");
        }
        group.failing = read.is_err();
        group.figure = read.unwrap_or(None);
        group.figure
    }

    /// 1 to 15 s in turn.
    fn first_wait(&mut self) -> Nanos {
        self.started = self.started.wrapping_add(1);
        Nanos(IDLE_PERIOD.0 / 15 * (self.started % 15 + 1))
    }

    fn read(&mut self, group: &mut GroupMemory, dir: &CgroupDir) -> Result<Option<Bytes>, MemoryError> {
        if let Some(held) = &group.held {
            if let Some(text) = held.file.read(&mut self.buffer)? {
                return Ok(Some(self.layout.parse_memory_stat(text)?.without_page_cache()));
            }
            // The group that the descriptor belongs to has gone; its path may be another's by now.
            group.held = None;
        }
        let Some(file) = self.layout.open(dir, Resource::MemoryStat)? else { return Ok(None) };
        let Some(text) = file.read(&mut self.buffer)? else { return Ok(None) };
        let figure = self.layout.parse_memory_stat(text)?.without_page_cache();
        if Arc::strong_count(&self.held) <= self.most_held {
            group.held = Some(Counted { file, _count: Arc::clone(&self.held) });
        }
        Ok(Some(figure))
    }
}

/// Why a group's memory use is not known though the group exists.
#[derive(Debug, thiserror::Error)]
enum MemoryError {
    #[error("cannot open its memory statistics")]
    Open(#[from] ReadError),
    #[error("cannot read its memory statistics")]
    Read(#[from] io::Error),
    #[error("cannot use its memory statistics")]
    Parse(#[from] StatError),
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
    fn a_file_without_the_figures_gives_none_not_zero() {
        let (root, mut reader, dir) = v1_host();
        for text in ["", "total_inactive_anon 1\ntotal_active_anon x\ntotal_unevictable 1\n", "\u{0}"] {
            put(root.path(), "memory/pod", text);
            let figure = reader.usage(&mut GroupMemory::default(), &dir, true, seconds(1));
            assert_eq!(figure, None, "{text:?}");
        }
    }
}
