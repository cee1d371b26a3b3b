//! Memory of a group from v1's `memory.numa_stat`, whose hierarchical lines sum up the very lists that
//! `memory.stat` shows: the same figures (collection.md 3.7) from eight lines instead of some fifty, which the
//! kernel writes, and we read, in half the time. v2's file of that name is the longer one.

use super::layout::{CgroupVersion, Layout};
use super::read::{StatError, unsigned};
use super::resource::{Controller, Resource};
use crate::units::Bytes;

/// Memory of a group and all beneath it by kind of list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLists {
    /// Anonymous pages, active and inactive.
    pub anon: Bytes,
    /// File pages, active and inactive.
    pub file: Bytes,
    /// Pages that cannot be reclaimed.
    pub unevictable: Bytes,
}

impl MemoryLists {
    /// Usage without page cache.
    pub fn without_page_cache(&self) -> Bytes {
        self.anon + self.unevictable
    }

    /// Usage with page cache.
    pub fn with_page_cache(&self) -> Bytes {
        self.without_page_cache() + self.file
    }
}

impl Layout {
    /// Whether `Resource::MemoryNumaStat` is the cheaper way to a group's memory.
    pub fn has_memory_lists(&self) -> bool {
        self.version(Controller::Memory) == Some(CgroupVersion::V1)
    }

    /// The lists, from the text of `Resource::MemoryNumaStat`; `None` where the kernel has no hierarchical lines.
    pub fn parse_memory_lists(&self, text: &str) -> Result<Option<MemoryLists>, StatError> {
        let [mut anon, mut file, mut unevictable] = [None; 3];
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("hierarchical_") else { continue };
            let Some((name, rest)) = rest.split_once('=') else { continue };
            let slot = match name {
                "anon" => &mut anon,
                "file" => &mut file,
                "unevictable" => &mut unevictable,
                _ => continue,
            };
            let pages: Option<u64> = rest.split(' ').next().and_then(unsigned);
            let pages = pages.ok_or_else(|| StatError::malformed(Resource::MemoryNumaStat, line))?;
            *slot = Some(Bytes(pages.saturating_mul(self.page_size())));
        }
        let lists = || Some(MemoryLists { anon: anon?, file: file?, unevictable: unevictable? });
        Ok(lists())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn host(entry: &str) -> Layout {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(entry)).unwrap();
        Layout::of_folder(folder.path()).unwrap()
    }

    const TEXT: &str = "total=1 N0=1 N1=0\nfile=1 N0=1 N1=0\nanon=0 N0=0 N1=0\nunevictable=0 N0=0 N1=0\n\
        hierarchical_total=9 N0=4 N1=5\nhierarchical_file=5 N0=1 N1=4\nhierarchical_anon=3 N0=2 N1=1\n\
        hierarchical_unevictable=1 N0=1 N1=0\n";

    #[test]
    fn the_hierarchical_lines_count_in_pages() {
        let host = host("memory");
        let lists = host.parse_memory_lists(TEXT).unwrap().unwrap();
        let page = host.page_size();
        assert_eq!((lists.without_page_cache(), lists.with_page_cache()), (Bytes(4 * page), Bytes(9 * page)));
        let by_node: Bytes = host.parse_numa_memory(TEXT).unwrap().into_values().sum();
        assert_eq!(by_node, lists.without_page_cache(), "the same memory by node");
    }

    #[test]
    fn a_kernel_without_them_has_no_lists_and_v2_has_another_file() {
        let v1 = host("memory");
        assert_eq!(v1.parse_memory_lists("total=1 N0=1\nanon=1 N0=1\n"), Ok(None));
        assert_eq!(v1.parse_memory_lists("hierarchical_anon\nhierarchical_file=1 N0=1\n"), Ok(None));
        assert!(v1.parse_memory_lists("hierarchical_anon=x N0=1\n").is_err());
        assert!(v1.has_memory_lists() && !host("cgroup.controllers").has_memory_lists());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "(hierarchical_(anon|file|unevictable)=[0-9x ]{0,25}\n){0,5}") {
            drop(host("memory").parse_memory_lists(&text));
        }
    }
}
