//! Reads what resctrl offers: the CPU's flags, and the `info` files and root group of a mounted file system.

use std::collections::BTreeSet;
use std::path::Path;

use crate::host::cpuinfo::CpuModel;
use crate::host::roots::Roots;
use crate::host::text_file;
use crate::resctrl::bandwidth::CpuVendor;
use crate::resctrl::schemata::{Schemata, SchemataResource};
use crate::state::resctrl::{L3Cache, ResctrlFacts, ResctrlTree};

/// Looks at this host. Where the kernel has no place for the file system, nothing else is looked at.
pub(super) fn read(roots: &Roots) -> ResctrlFacts {
    let root = roots.sys_fs.join("resctrl");
    if !root.is_dir() {
        return ResctrlFacts::default();
    }
    let cpu = CpuModel::read(roots);
    ResctrlFacts {
        vendor: CpuVendor::from_id(&cpu.vendor),
        cat_l3: cpu.has("cat_l3"),
        mba: cpu.has("mba"),
        tree: read_tree(&root),
    }
}

/// What a mounted file system says; anything that cannot be read is not there.
fn read_tree(root: &Path) -> Option<ResctrlTree> {
    let text = text_file::read(&root.join("schemata")).ok()?;
    let schemata = Schemata::parse(&text).unwrap_or_default();
    let code_and_data = root.join("info/L3CODE").is_dir();
    let l3 = read_cache(&root.join(if code_and_data { "info/L3CODE" } else { "info/L3" }));
    let ids = |resource| schemata.values(resource).into_iter().flatten().map(|(cache, _)| *cache);
    let caches: BTreeSet<u32> = SchemataResource::ALL.into_iter().flat_map(ids).collect();
    Some(ResctrlTree { l3, code_and_data, bandwidth: root.join("info/MB").is_dir(), caches, root: schemata })
}

fn read_cache(info: &Path) -> Option<L3Cache> {
    let text = |name: &str| text_file::read(&info.join(name)).map(|text| text.trim().to_owned());
    Some(L3Cache {
        cbm_mask: text("cbm_mask").ok()?,
        min_cbm_bits: text("min_cbm_bits").ok().and_then(|text| text.parse().ok()).unwrap_or(1),
        shareable_bits: text("shareable_bits").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn put(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn roots(folder: &Path) -> Roots {
        Roots { proc: folder.join("proc"), sys_fs: folder.join("fs"), ..Roots::host() }
    }

    const CPUINFO: (&str, &str) =
        ("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu cat_l3 cdp_l3 mba\n");

    #[test]
    fn a_mounted_tree_tells_masks_steps_and_caches() {
        let folder = tempfile::tempdir().unwrap();
        put(
            folder.path(),
            &[
                CPUINFO,
                ("fs/resctrl/schemata", "    L3:0=7ff;16=7ff\n    MB:0=100;16=100\n"),
                ("fs/resctrl/info/L3/cbm_mask", "7ff\n"),
                ("fs/resctrl/info/L3/min_cbm_bits", "2\n"),
                ("fs/resctrl/info/L3/shareable_bits", "600\n"),
                ("fs/resctrl/info/MB/min_bandwidth", "10\n"),
            ],
        );
        let facts = read(&roots(folder.path()));
        assert_eq!(facts.vendor, CpuVendor::Intel);
        assert!(facts.is_offered());
        let tree = facts.tree.unwrap();
        let cache = L3Cache { cbm_mask: "7ff".into(), min_cbm_bits: 2, shareable_bits: "600".into() };
        assert_eq!((tree.l3.as_ref(), tree.bandwidth), (Some(&cache), true));
        assert_eq!(tree.caches.iter().copied().collect::<Vec<_>>(), [0, 16]);
        assert_eq!(tree.mask_lines(), [SchemataResource::L3]);
    }

    #[test]
    fn q24_a_tree_that_is_not_mounted_yet_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(&roots(folder.path())), ResctrlFacts::default(), "no such kernel");
        put(folder.path(), &[CPUINFO]);
        fs::create_dir_all(folder.path().join("fs/resctrl")).unwrap();
        let facts = read(&roots(folder.path()));
        assert!(facts.is_offered() && facts.tree.is_none());
        put(
            folder.path(),
            &[
                ("fs/resctrl/schemata", "L3CODE:0=ff\nL3DATA:0=ff\n"),
                ("fs/resctrl/info/L3CODE/cbm_mask", "ff\n"),
                ("fs/resctrl/info/L3DATA/cbm_mask", "ff\n"),
            ],
        );
        let tree = read(&roots(folder.path())).tree.unwrap();
        assert_eq!(tree.mask_lines(), [SchemataResource::L3Code, SchemataResource::L3Data]);
        assert_eq!((tree.l3.unwrap().min_cbm_bits, tree.bandwidth, tree.caches.len()), (1, false, 1));
    }
}
