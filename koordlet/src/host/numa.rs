//! NUMA nodes with their memory and hugepages: the value behind `node_numa_info`, collection.md 2.2 and 2.3.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::lscpu;
use super::meminfo::Meminfo;
use super::roots::Roots;
use super::text_file;
use crate::units::Bytes;

/// Page sizes that are kept, in KiB.
const PAGE_SIZES_KIB: [u64; 2] = [2048, 1_048_576];

/// Why the NUMA nodes are not known.
#[derive(Debug, thiserror::Error)]
pub enum NumaError {
    /// The directory of nodes cannot be listed.
    #[error("cannot list the NUMA nodes in {}", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Node ids have a gap: figures by node could not be told apart.
    #[error("NUMA nodes in {} are not numbered without gaps: {found} found, the last is node{last}", path.display())]
    Gap {
        /// The directory.
        path: PathBuf,
        /// Nodes whose meminfo was read.
        found: usize,
        /// Largest id among them.
        last: u32,
    },
}

/// Pages of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HugePage {
    /// Number of pages.
    pub num_pages: u64,
    /// Size of a page in KiB.
    pub page_size: u64,
}

impl HugePage {
    /// Memory that the pages hold.
    pub fn bytes(self) -> Bytes {
        Bytes(self.num_pages.saturating_mul(self.page_size).saturating_mul(1024))
    }
}

/// A node's hugepages: page size in KiB -> pages. Holds 2 MiB and 1 GiB, always.
pub type HugePages = BTreeMap<u64, HugePage>;

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NumaInfo {
    /// Its id.
    #[serde(rename = "numaNodeID")]
    pub node: u32,
    /// Its memory.
    pub mem_info: Meminfo,
    /// Its hugepages.
    pub huge_pages: HugePages,
}

/// All NUMA nodes, under the names of collection.md 2.2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNumaInfo {
    /// Nodes by id.
    pub numa_infos: Vec<NumaInfo>,
    /// Id -> memory.
    pub mem_info_map: BTreeMap<u32, Meminfo>,
    /// Id -> hugepages.
    pub huge_pages_map: BTreeMap<u32, HugePages>,
}

impl NodeNumaInfo {
    /// Reads `<sys>/bus/node/devices`. A host without that directory has no nodes, which is no error.
    ///
    /// Left out are nodes that hold accelerators only (`has_generic_initiator`) and those without a readable
    /// meminfo; the ids of the rest must run from 0 without a gap.
    pub fn read(roots: &Roots) -> Result<Self, NumaError> {
        let path = roots.sys.join("bus/node/devices");
        let numbers = match lscpu::numbered(&path, "node") {
            Ok(numbers) => numbers,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(NumaError::Unreadable { path, source }),
        };
        let skipped = lscpu::list(&roots.sys.join("devices/system/node/has_generic_initiator"));
        let numa_infos: Vec<NumaInfo> = numbers
            .into_iter()
            .filter(|node| !skipped.as_ref().is_some_and(|set| set.contains(*node)))
            .filter_map(|node| read_node(&path.join(format!("node{node}")), node))
            .collect();
        match numa_infos.last() {
            Some(last) if numa_infos.len() != last.node as usize + 1 => {
                Err(NumaError::Gap { path, found: numa_infos.len(), last: last.node })
            }
            _ => Ok(Self::from(numa_infos)),
        }
    }
}

impl From<Vec<NumaInfo>> for NodeNumaInfo {
    fn from(numa_infos: Vec<NumaInfo>) -> Self {
        Self {
            mem_info_map: numa_infos.iter().map(|info| (info.node, info.mem_info)).collect(),
            huge_pages_map: numa_infos.iter().map(|info| (info.node, info.huge_pages.clone())).collect(),
            numa_infos,
        }
    }
}

fn read_node(dir: &Path, node: u32) -> Option<NumaInfo> {
    let path = dir.join("meminfo");
    match text_file::read(&path) {
        Ok(text) => {
            let mem_info = Meminfo::parse_numa(&text);
            Some(NumaInfo { node, mem_info, huge_pages: read_hugepages(&dir.join("hugepages")) })
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "NUMA node left out: its meminfo cannot be read");
            None
        }
    }
}

/// Reads a node's `hugepages` directory, collection.md 2.3. A size that cannot be read counts as no pages.
fn read_hugepages(dir: &Path) -> HugePages {
    let pages = |size: u64| {
        let file = dir.join(format!("hugepages-{size}kB/nr_hugepages"));
        let num_pages = lscpu::text(&file).and_then(|count| count.parse().ok()).unwrap_or(0);
        (size, HugePage { num_pages, page_size: size })
    };
    PAGE_SIZES_KIB.into_iter().map(pages).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::super::machines::Machine;
    use super::*;

    #[test]
    fn each_kind_of_machine_gives_the_numbers_beside_it() {
        for machine in Machine::all() {
            let (shape, expected) = (machine.path.display(), &machine.expected);
            let numa = NodeNumaInfo::read(&machine.roots()).unwrap();
            let used: BTreeMap<_, _> = numa
                .mem_info_map
                .iter()
                .map(|(node, info)| (node.to_string(), info.numa_used().0 / 1024))
                .collect();
            assert_eq!(json!(used), expected["numaMemoryKiB"], "{shape}");
            let pages = |pages: &HugePages| {
                let counts = pages.iter().map(|(size, page)| (size.to_string(), page.num_pages));
                counts.collect::<BTreeMap<_, _>>()
            };
            let pages: BTreeMap<_, _> =
                numa.huge_pages_map.iter().map(|(node, all)| (node.to_string(), pages(all))).collect();
            assert_eq!(json!(pages), expected["hugePages"], "{shape}");
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn put(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn nodes(entries: &[&str], has_generic_initiator: &str) -> Result<Vec<u32>, NumaError> {
        let root = tempfile::tempdir().unwrap();
        for entry in entries {
            put(root.path(), &format!("bus/node/devices/{entry}/meminfo"), "Node 0 MemTotal: 5 kB\n");
        }
        put(root.path(), "devices/system/node/has_generic_initiator", has_generic_initiator);
        let roots = Roots { sys: root.path().into(), ..Roots::host() };
        NodeNumaInfo::read(&roots).map(|info| info.numa_infos.iter().map(|numa| numa.node).collect())
    }

    #[test]
    fn ids_must_have_no_gap_once_accelerator_nodes_are_left_out() {
        assert!(matches!(nodes(&["node0", "node2"], ""), Err(NumaError::Gap { found: 2, last: 2, .. })));
        assert_eq!(nodes(&["node0", "node1", "node2"], "2\n").unwrap(), [0, 1]);
        assert_eq!(nodes(&["node0", "node1", "node10", "node2"], "10").unwrap(), [0, 1, 2]);
        assert!(nodes(&["node1"], "").is_err());
        assert_eq!(nodes(&[], "").unwrap(), [0u32; 0]);
    }

    #[test]
    fn a_node_without_readable_meminfo_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "bus/node/devices/node0/meminfo", "Node 0 MemTotal: 5 kB\n");
        fs::create_dir(root.path().join("bus/node/devices/node1")).unwrap();
        let roots = Roots { sys: root.path().into(), ..Roots::host() };
        assert_eq!(NodeNumaInfo::read(&roots).unwrap().numa_infos.len(), 1);
    }

    #[test]
    fn hugepages_of_both_sizes_are_always_there() {
        let root = tempfile::tempdir().unwrap();
        let zero = read_hugepages(&root.path().join("none"));
        assert_eq!(zero.keys().copied().collect::<Vec<_>>(), [2048, 1_048_576]);
        assert!(zero.values().all(|pages| pages.num_pages == 0));
        for (size, count) in [("1048576", "10\n"), ("2048", "512\n"), ("64", "3\n")] {
            put(root.path(), &format!("hugepages-{size}kB/nr_hugepages"), count);
        }
        let pages = read_hugepages(root.path());
        assert_eq!(pages[&1_048_576].bytes(), Bytes(10_737_418_240));
        assert_eq!(pages[&2048].bytes(), Bytes(1_073_741_824));
        assert_eq!(pages.len(), 2);
    }
}
