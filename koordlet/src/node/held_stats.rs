//! Statistics files of groups, read through descriptors that stay open: a second read costs half of what open and
//! read do. There is a bounded number of them; files that nobody reads any more give way to those that are read.

use std::io;
use std::sync::Arc;

use nix::sys::resource::{Resource as Limit, getrlimit};

use crate::cgroup::held_file::{HeldFile, ReadBuffer, ReadError};
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::read::StatError;
use crate::cgroup::resource::Resource;

/// Reads files of groups.
#[derive(Debug)]
pub(super) struct StatReader {
    layout: Arc<Layout>,
    buffer: ReadBuffer,
    /// One reference for each held descriptor, and this one.
    held: Arc<()>,
    most_held: usize,
    round: u64,
    /// Files that this round had to open without holding them.
    refused: usize,
}

/// One file of one group, open or not.
#[derive(Debug, Default)]
pub(super) struct HeldStat {
    file: Option<Counted>,
    /// The round that read it last.
    used: u64,
}

/// A descriptor that counts towards the reader's limit until it is dropped.
#[derive(Debug)]
struct Counted {
    file: HeldFile,
    _count: Arc<()>,
}

/// Why a figure of a group is not known though the group exists.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroupFileError {
    #[error("cannot open a file of the group")]
    Open(#[from] ReadError),
    #[error("cannot read its {resource:?}")]
    Read {
        resource: Resource,
        #[source]
        source: io::Error,
    },
    #[error("cannot use what its file says")]
    Parse(#[from] StatError),
}

impl StatReader {
    /// For the groups of `layout`. At most a quarter of the process's descriptors are held; what is beyond that
    /// is opened for each read.
    pub(super) fn new(layout: Arc<Layout>) -> Self {
        Self::with_share(layout, 4)
    }

    /// The same with another share: the `parts`th part of the process's descriptors.
    pub(super) fn with_share(layout: Arc<Layout>, parts: u64) -> Self {
        let descriptors = getrlimit(Limit::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let most_held = usize::try_from(descriptors / parts.max(1)).unwrap_or(usize::MAX);
        let (buffer, held) = (ReadBuffer::default(), Arc::new(()));
        Self { layout, buffer, held, most_held, round: 0, refused: 0 }
    }

    /// Whose files these are.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Starts a round.
    pub(super) fn begin(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.refused = 0;
    }

    /// What the file of `resource` in `dir` says; `None` if the group is gone or has no such file.
    pub(super) fn read<T>(
        &mut self,
        slot: &mut HeldStat,
        dir: &CgroupDir,
        resource: Resource,
        parse: impl Fn(&Layout, &str) -> Result<T, StatError>,
    ) -> Result<Option<T>, GroupFileError> {
        let failed = |source| GroupFileError::Read { resource, source };
        slot.used = self.round;
        if let Some(held) = &slot.file {
            if let Some(text) = held.file.read(&mut self.buffer).map_err(failed)? {
                return Ok(Some(parse(&self.layout, text)?));
            }
            // The group that the descriptor belongs to has gone; its path may be another's by now.
            slot.file = None;
        }
        let Some(file) = self.layout.open(dir, resource)? else { return Ok(None) };
        let Some(text) = file.read(&mut self.buffer).map_err(failed)? else { return Ok(None) };
        let figure = parse(&self.layout, text)?;
        if Arc::strong_count(&self.held) <= self.most_held {
            slot.file = Some(Counted { file, _count: Arc::clone(&self.held) });
        } else {
            self.refused += 1;
        }
        Ok(Some(figure))
    }

    /// Ends a round: where it lacked descriptors, as many are closed as it lacked, the longest unused first.
    /// Those that it used stay, since giving one of them away would only move the lack.
    pub(super) fn end<'a>(&self, slots: impl Iterator<Item = &'a mut HeldStat>) {
        if self.refused == 0 {
            return;
        }
        let mut unused: Vec<_> =
            slots.filter(|slot| slot.file.is_some() && slot.used != self.round).collect();
        unused.sort_unstable_by_key(|slot| slot.used);
        for slot in unused.into_iter().take(self.refused) {
            slot.file = None;
        }
    }
}

#[cfg(test)]
impl StatReader {
    pub(super) fn with_limit(layout: Arc<Layout>, most_held: usize) -> Self {
        Self { most_held, ..Self::new(layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FolderHost, dir};
    use super::*;
    use crate::units::Bytes;

    struct Host {
        folder: FolderHost,
        reader: StatReader,
    }

    impl Host {
        fn with_limit(most_held: usize) -> Self {
            let folder = FolderHost::new(&["memory"]);
            let reader = StatReader::with_limit(folder.layout(), most_held);
            Self { folder, reader }
        }

        fn put(&self, dir: &str, text: &str) {
            self.folder.put(&format!("cgroup/memory/{dir}/memory.usage_in_bytes"), text);
        }

        fn read(&mut self, slot: &mut HeldStat, path: &str) -> Result<Option<Bytes>, GroupFileError> {
            self.reader.read(slot, &dir(path), Resource::MemoryUsage, Layout::parse_memory_usage)
        }
    }

    #[test]
    fn a_file_that_comes_later_is_found_and_one_that_is_not_there_is_no_error() {
        let mut host = Host::with_limit(1);
        let mut slot = HeldStat::default();
        assert!(matches!(host.read(&mut slot, "pod"), Ok(None)));
        host.put("pod", "5\n");
        assert!(matches!(host.read(&mut slot, "pod"), Ok(Some(Bytes(5)))));
        host.put("pod", "x\n");
        assert!(matches!(host.read(&mut slot, "pod"), Err(GroupFileError::Parse(_))));
    }

    #[test]
    fn descriptors_are_bounded_and_the_longest_unused_give_way() {
        let mut host = Host::with_limit(2);
        let names = ["a", "b", "c"];
        let mut slots: Vec<_> = names.iter().map(|_| HeldStat::default()).collect();
        let mut round = |used: &[usize]| {
            host.reader.begin();
            for index in used {
                host.put(names[*index], "1\n");
                assert!(host.read(&mut slots[*index], names[*index]).unwrap().is_some());
            }
            host.reader.end(slots.iter_mut());
            slots.iter().map(|slot| slot.file.is_some()).collect::<Vec<_>>()
        };
        assert_eq!(round(&[0, 1, 2]), [true, true, false], "the first ones come first");
        assert_eq!(round(&[0, 1, 2]), [true, true, false], "all are in use: none gives way");
        assert_eq!(round(&[1, 2]), [false, true, false], "the idle one gives way");
        assert_eq!(round(&[1, 2]), [false, true, true]);
        drop(slots);
        let mut late = HeldStat::default();
        host.reader.begin();
        host.read(&mut late, "a").unwrap();
        assert!(late.file.is_some(), "dropped slots give their descriptors back");
    }
}
