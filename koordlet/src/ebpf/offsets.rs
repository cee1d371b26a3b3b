//! Where the programs find what they follow: kernel BTF -> the load-time globals.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use koordlet_common::names::global;

use super::btf::{Btf, BtfError};

/// The kernel's own type information, below the sysfs root.
pub const VMLINUX_BTF: &str = "kernel/btf/vmlinux";

/// No kernel's BTF comes near this; a larger file is not read.
const SIZE_LIMIT: u64 = 64 << 20;

/// Why the offsets are not known.
#[derive(Debug, thiserror::Error)]
pub enum OffsetsError {
    /// The file could not be read; with `NotFound` the kernel has no BTF.
    #[error("reading the kernel's type information from {path} failed")]
    Read {
        /// The BTF file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file was read, and does not say what is needed.
    #[error("the kernel's type information in {path} cannot be used")]
    Btf {
        /// The BTF file.
        path: PathBuf,
        /// Why.
        #[source]
        source: BtfError,
    },
}

/// Which hierarchy's groups own the CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageHierarchy {
    /// The v1 hierarchy of the cpuacct controller.
    Cpuacct,
    /// The unified hierarchy. Its group of a task is `css_set.dfl_cgrp`: the cpu controller's pointer skips
    /// groups in which the controller is off.
    Unified,
}

/// Offsets in bytes, by the name of the global that takes each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    globals: Vec<(&'static str, u32)>,
}

impl Offsets {
    /// Reads them from a BTF file.
    pub fn read(path: &Path, usage: UsageHierarchy) -> Result<Self, OffsetsError> {
        let btf = read_btf(path)?;
        Self::find(&btf, usage).map_err(|source| OffsetsError::Btf { path: path.to_owned(), source })
    }

    /// Finds them in parsed BTF.
    pub fn find(btf: &Btf, usage: UsageHierarchy) -> Result<Self, BtfError> {
        let (link, link_is_css) = match usage {
            UsageHierarchy::Unified => (btf.member_offset("css_set", "dfl_cgrp")?, 0),
            UsageHierarchy::Cpuacct => {
                let index = btf.enum_value("cgroup_subsys_id", "cpuacct_cgrp_id")?;
                let first = btf.member_offset("css_set", "subsys")?;
                let offset = index.checked_mul(POINTER_BYTES).and_then(|bytes| first.checked_add(bytes));
                let beyond = || BtfError::Missing(format!("css_set.subsys[{index}]"));
                (offset.ok_or_else(beyond)?, 1)
            }
        };
        let globals = vec![
            (global::TASK_CGROUPS, btf.member_offset("task_struct", "cgroups")?),
            (global::CSS_SET_LINK, link),
            (global::LINK_IS_CSS, link_is_css),
            (global::CSS_CGROUP, btf.member_offset("cgroup_subsys_state", "cgroup")?),
            (global::CGROUP_KN, btf.member_offset("cgroup", "kn")?),
            (global::CGROUP_ROOT, btf.member_offset("cgroup", "root")?),
            (global::CGROUP_LEVEL, btf.member_offset("cgroup", "level")?),
            (global::ROOT_HIERARCHY_ID, btf.member_offset("cgroup_root", "hierarchy_id")?),
            (global::KN_ID, btf.member_offset("kernfs_node", "id")?),
        ];
        Ok(Self { globals })
    }

    /// Each global's name and value.
    pub fn globals(&self) -> &[(&'static str, u32)] {
        &self.globals
    }
}

const POINTER_BYTES: u32 = 8;

/// Reads and parses a BTF file.
pub fn read_btf(path: &Path) -> Result<Btf, OffsetsError> {
    let mut data = Vec::new();
    File::open(path)
        .and_then(|file| file.take(SIZE_LIMIT).read_to_end(&mut data))
        .map_err(|source| OffsetsError::Read { path: path.to_owned(), source })?;
    Btf::parse(data).map_err(|source| OffsetsError::Btf { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A writer of small BTF, so that every shape can be tried without a kernel.
    #[derive(Clone, Default)]
    pub(super) struct Writer {
        types: Vec<u8>,
        strings: Vec<u8>,
        count: u32,
    }

    impl Writer {
        fn new() -> Self {
            Self { strings: vec![0], ..Self::default() }
        }

        fn string(&mut self, text: &str) -> u32 {
            if text.is_empty() {
                return 0;
            }
            let at = u32::try_from(self.strings.len()).unwrap();
            self.strings.extend_from_slice(text.as_bytes());
            self.strings.push(0);
            at
        }

        fn words(&mut self, words: &[u32]) {
            self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        }

        /// A struct (kind 4) or union (5) of (name, type, bit offset); gives its id.
        fn composite(&mut self, kind: u32, name: &str, members: &[(&str, u32, u32)], kflag: bool) -> u32 {
            let name = self.string(name);
            let info = (kind << 24) | u32::try_from(members.len()).unwrap() | (u32::from(kflag) << 31);
            self.words(&[name, info, 0]);
            for (member, inner, bits) in members {
                let member = self.string(member);
                self.words(&[member, *inner, *bits]);
            }
            self.count += 1;
            self.count
        }

        fn enumeration(&mut self, name: &str, values: &[(&str, u32)]) -> u32 {
            let name = self.string(name);
            self.words(&[name, (6 << 24) | u32::try_from(values.len()).unwrap(), 4]);
            for (value, number) in values {
                let value = self.string(value);
                self.words(&[value, *number]);
            }
            self.count += 1;
            self.count
        }

        /// Typedef (8) or modifier.
        fn reference(&mut self, kind: u32, name: &str, inner: u32) -> u32 {
            let name = self.string(name);
            self.words(&[name, kind << 24, inner]);
            self.count += 1;
            self.count
        }

        fn finish(&self) -> Vec<u8> {
            let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
            let mut data = vec![0x9f, 0xeb, 1, 0];
            let header = [24, 0, length(&self.types), length(&self.types), length(&self.strings)];
            data.extend(header.iter().flat_map(|word: &u32| word.to_ne_bytes()));
            data.extend_from_slice(&self.types);
            data.extend_from_slice(&self.strings);
            data
        }
    }

    /// The structs that the programs follow, `task_struct.cgroups` two anonymous levels down.
    pub(super) fn small_kernel() -> Writer {
        let mut w = Writer::new();
        w.enumeration(
            "cgroup_subsys_id",
            &[("cpuset_cgrp_id", 0), ("cpu_cgrp_id", 1), ("cpuacct_cgrp_id", 2)],
        );
        let inner = w.composite(5, "", &[("other", 1, 0), ("cgroups", 1, 64)], false);
        let middle = w.composite(4, "", &[("pad", 1, 0), ("", inner, 128)], false);
        let alias = w.reference(10, "", middle);
        w.composite(4, "task_struct", &[("state", 1, 0), ("", alias, 64)], false);
        w.composite(4, "css_set", &[("subsys", 1, 0), ("dfl_cgrp", 1, 1024)], true);
        w.composite(4, "cgroup_subsys_state", &[("cgroup", 1, 0)], false);
        w.composite(4, "cgroup", &[("level", 1, 320), ("kn", 1, 384), ("root", 1, 448)], false);
        w.composite(4, "cgroup_root", &[("hierarchy_id", 1, 96)], false);
        w.composite(4, "kernfs_node", &[("id", 1, 640), ("flag", 1, (1 << 24) | 7)], true);
        w.reference(8, "btf_trace_cgroup_mkdir", 1);
        w
    }

    fn value(offsets: &Offsets, name: &str) -> u32 {
        offsets.globals().iter().find(|(n, _)| *n == name).map(|(_, v)| *v).unwrap()
    }

    #[test]
    fn members_of_nested_anonymous_types_are_found() {
        let btf = Btf::parse(small_kernel().finish()).unwrap();
        let offsets = Offsets::find(&btf, UsageHierarchy::Cpuacct).unwrap();
        assert_eq!(value(&offsets, global::TASK_CGROUPS), (64 + 128 + 64) / 8);
        assert_eq!(value(&offsets, global::CSS_SET_LINK), 2 * 8);
        assert_eq!(value(&offsets, global::LINK_IS_CSS), 1);
        assert_eq!(value(&offsets, global::KN_ID), 80);
        let unified = Offsets::find(&btf, UsageHierarchy::Unified).unwrap();
        assert_eq!((value(&unified, global::CSS_SET_LINK), value(&unified, global::LINK_IS_CSS)), (128, 0));
        assert!(btf.has_tracepoint("cgroup_mkdir") && !btf.has_tracepoint("cgroup_rmdir"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let btf = Btf::parse(small_kernel().finish()).unwrap();
        let missing = btf.member_offset("task_struct", "nonsense").unwrap_err();
        assert_eq!(missing.to_string(), "the kernel's BTF has no struct task_struct with a member nonsense");
        assert!(matches!(btf.enum_value("cgroup_subsys_id", "x"), Err(BtfError::Missing(_))));
        assert_eq!(btf.member_offset("kernfs_node", "flag"), Err(BtfError::BitField("flag".into())));
        assert_eq!(Btf::parse(vec![1, 2, 3, 4]).err(), Some(BtfError::Malformed("wrong magic number")));
        assert!(Btf::parse(Vec::new()).is_err());
    }

    #[test]
    fn a_type_that_holds_itself_ends_in_an_error() {
        let mut w = Writer::new();
        w.composite(4, "loop", &[("", 1, 0), ("", 1, 0), ("", 1, 0), ("", 1, 0)], false);
        let me = w.reference(8, "around", 2);
        w.composite(4, "typedefs", &[("", me, 0)], false);
        let btf = Btf::parse(w.finish()).unwrap();
        assert!(matches!(btf.member_offset("loop", "x"), Err(BtfError::TooDeep(_))));
        assert!(matches!(btf.member_offset("typedefs", "x"), Err(BtfError::TooDeep(_))));
    }

    /// c185: the offsets come from the running kernel.
    #[test]
    fn c185_the_running_kernel_has_them_all() {
        let path = Path::new("/sys").join(VMLINUX_BTF);
        if !path.exists() {
            println!("SKIPPED: no {}", path.display());
            return;
        }
        let offsets = Offsets::read(&path, UsageHierarchy::Unified).unwrap();
        assert!(offsets.globals().iter().all(|(_, offset)| *offset < 16_384), "{offsets:?}");
        let absent = Offsets::read(Path::new("/nonexistent"), UsageHierarchy::Unified).unwrap_err();
        assert!(matches!(absent, OffsetsError::Read { .. }));
    }

    proptest! {
        #[test]
        fn cut_bytes_give_an_error(cut in 0usize..2000) {
            let whole = small_kernel().finish();
            let cut = cut.min(whole.len() - 1);
            prop_assert!(Btf::parse(whole[..cut].to_vec()).is_err());
        }

        #[test]
        fn changed_bytes_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12)) {
            let mut data = small_kernel().finish();
            for (at, byte) in changes {
                let at = at.index(data.len());
                data[at] = byte;
            }
            if let Ok(btf) = Btf::parse(data) {
                for usage in [UsageHierarchy::Cpuacct, UsageHierarchy::Unified] {
                    if let Ok(offsets) = Offsets::find(&btf, usage) {
                        prop_assert_eq!(offsets.globals().len(), 9);
                    }
                }
            }
        }

        #[test]
        fn random_bytes_never_panic(mut data in prop::collection::vec(any::<u8>(), 0..400), real in any::<bool>()) {
            if real && data.len() >= 8 {
                data[..8].copy_from_slice(&[0x9f, 0xeb, 1, 0, 24, 0, 0, 0]);
            }
            if let Ok(btf) = Btf::parse(data) {
                prop_assert!(Offsets::find(&btf, UsageHierarchy::Cpuacct).is_err());
            }
        }
    }
}
