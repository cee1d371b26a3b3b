//! What stands in on this machine for settings that only vendors' kernels have: the table of `cgroup::mainline`, each
//! file looked for. `doctor` prints it.

use std::path::{Path, PathBuf};

use super::offers::Offer;
use super::probe_group::ProbeGroup;
use crate::cgroup::layout::Layout;
use crate::cgroup::mainline::{Directories, Equivalent, TABLE};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;

/// One line for each setting of the table, named `mainline-<file>`. `is_on`: `--mainline-equivalents`.
pub fn equivalents(layout: &Layout, kubepods: &[CgroupDir], is_on: bool) -> Vec<Offer> {
    let mut offers: Vec<Offer> = Vec::new();
    for first in TABLE {
        let name = format!("mainline-{}", first.lacking);
        if !offers.iter().any(|offer| offer.name == name) {
            offers.push(equivalent(name, first, layout, kubepods, is_on));
        }
    }
    offers
}

fn equivalent(
    name: String,
    first: &Equivalent,
    layout: &Layout,
    kubepods: &[CgroupDir],
    is_on: bool,
) -> Offer {
    let place = Place::of(first, layout, kubepods);
    let is_there = |file: &str| place.as_ref().is_some_and(|place| place.path().join(file).exists());
    if is_there(first.lacking) {
        return Offer::ok(name, "this kernel has the file itself: nothing stands in for it");
    }
    let rows = TABLE.iter().filter(|row| row.lacking == first.lacking);
    let possible: Vec<String> = rows
        .filter_map(|row| {
            let instead = row.instead?;
            let file = row.substitute().and_then(|resource| file_name(layout, resource));
            let file = file.unwrap_or_else(|| instead.file.to_owned());
            let Equivalent { values, directories, why, .. } = row;
            is_there(&file).then(|| format!("{values} by {file} {} of {directories}: {why}", instead.value))
        })
        .collect();
    match (possible.is_empty(), is_on) {
        (true, _) if first.instead.is_none() => {
            Offer::missing(name, format!("nothing stands in: {}", first.why))
        }
        (true, _) => Offer::missing(name, "nothing stands in: this kernel does not have that either"),
        (false, true) => Offer::ok(name, possible.join("; ")),
        (false, false) => Offer::off(name, format!("with --mainline-equivalents: {}", possible.join("; "))),
    }
}

/// Where the files of a row are, if they are anywhere.
enum Place {
    Root(PathBuf),
    Group(ProbeGroup),
}

impl Place {
    fn of(row: &Equivalent, layout: &Layout, kubepods: &[CgroupDir]) -> Option<Self> {
        let root = layout.hierarchy_root(row.controller())?;
        if row.directories == Directories::Root {
            return Some(Self::Root(root.to_owned()));
        }
        let wanted: Vec<&str> = kubepods.iter().map(CgroupDir::as_str).collect();
        // Where none can be made, `optional_files` says why.
        ProbeGroup::beneath(root, &wanted).ok().map(Self::Group)
    }

    fn path(&self) -> &Path {
        match self {
            Self::Root(path) => path,
            Self::Group(group) => group.path(),
        }
    }
}

/// The name that a setting's file has in this kind of hierarchy.
fn file_name(layout: &Layout, resource: Resource) -> Option<String> {
    let file = layout.file(&CgroupDir::new("any").ok()?, resource)?;
    Some(file.relative.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host::offers::State;

    /// Offers on a host whose `kubepods` holds `files`, by name and state.
    #[expect(clippy::disallowed_methods, reason = "a fixture tree in a temporary directory")]
    fn offers(controllers: &[&str], files: &[&str], is_on: bool) -> Vec<Offer> {
        let root = tempfile::tempdir().unwrap();
        if controllers.is_empty() {
            fs::write(root.path().join("cgroup.controllers"), "cpu memory io\n").unwrap();
        }
        for controller in controllers.iter().chain(&["."]) {
            let group = root.path().join(controller).join("kubepods");
            fs::create_dir_all(&group).unwrap();
            for file in files {
                fs::write(group.join(file), "").unwrap();
            }
        }
        let layout = Layout::of_folder(root.path()).unwrap();
        equivalents(&layout, &[CgroupDir::new("kubepods").unwrap()], is_on)
    }

    fn of<'a>(offers: &'a [Offer], file: &str) -> &'a Offer {
        offers.iter().find(|offer| offer.name == format!("mainline-{file}")).unwrap()
    }

    #[test]
    fn what_stands_in_is_named_whether_the_flag_is_on_or_not() {
        for is_on in [false, true] {
            let v1 = offers(&["cpu", "memory", "blkio"], &["cpu.shares", "cpu.idle"], is_on);
            assert_eq!(v1.len(), 7, "each setting once: {v1:?}");
            let bvt = of(&v1, "cpu.bvt_warp_ns");
            assert_eq!(bvt.state, if is_on { State::Ok } else { State::Off });
            assert!(bvt.detail.contains("-1 by cpu.idle 1 of pods and containers"), "{bvt:?}");
            assert!(bvt.detail.contains("2 by cpu.shares 4 times the pod's own of pods"), "{bvt:?}");
            assert_eq!(of(&v1, "memory.wmark_ratio").state, State::Missing, "no memory.high on v1");
            assert_eq!(of(&v1, "blkio.cost.weight").state, State::Missing);
        }
    }

    #[test]
    fn on_the_unified_hierarchy_files_have_their_names_there() {
        let files = ["cpu.weight", "cpu.idle", "memory.high", "io.weight"];
        let v2 = offers(&[], &files, true);
        assert!(of(&v2, "cpu.bvt_warp_ns").detail.contains("1 by cpu.weight 2 times"), "{v2:?}");
        assert_eq!(of(&v2, "memory.wmark_ratio").state, State::Ok);
        assert_eq!(of(&v2, "blkio.cost.weight").state, State::Ok);
        let no_mark = of(&v2, "memory.wmark_scale_factor");
        assert_eq!(no_mark.state, State::Missing);
        assert!(no_mark.detail.contains("memory.high reclaims down to itself"), "{no_mark:?}");
    }

    #[test]
    fn a_vendors_kernel_needs_nothing() {
        let vendor = offers(&["cpu"], &["cpu.shares", "cpu.idle", "cpu.bvt_warp_ns"], true);
        let bvt = of(&vendor, "cpu.bvt_warp_ns");
        assert_eq!(bvt.state, State::Ok);
        assert!(bvt.detail.contains("has the file itself"), "{bvt:?}");
    }
}
