//! Last-level cache and memory bandwidth of the QoS classes, from the monitoring files of their resctrl groups
//! (collection.md 6.12). Only reads: the groups are made, and resctrl is mounted, by whoever enforces them. A group,
//! a cache or a file that is not there, or that goes away between two looks, has no figures and is no error.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::round_log::RoundResult;
use super::rounds::Collect;
use crate::cgroup::held_file::is_gone;
use crate::host::cpuinfo::CpuModel;
use crate::host::offers::Offer;
use crate::host::roots::Roots;
use crate::host::text_file;
use crate::state::cache_use::{CacheFigures, CacheUse};
use crate::state::facts::Published;
use crate::state::series::key::{MbType, SeriesKey};
use crate::state::series::shared::SharedSeries;
use crate::units::{Bytes, Nanos};

/// Its line in `doctor`.
pub const OFFER: &str = "collector-resctrl";

/// Groups that are read: one for each class that the policy tells apart.
const GROUPS: [&str; 3] = ["LSR", "LS", "BE"];

/// What the CPU must be able to do.
const FLAGS: [&str; 6] = ["cat_l3", "mba", "cqm_llc", "cqm_occup_llc", "cqm_mbm_total", "cqm_mbm_local"];

/// Makers whose CPUs have it.
const VENDORS: [&str; 2] = ["GenuineIntel", "AuthenticAMD"];

/// A monitoring file that says something else than a figure or the kernel's words for none.
#[derive(Debug, thiserror::Error)]
#[error("{} says {text:?}, which is no number of bytes", path.display())]
pub struct NoFigure {
    /// The file.
    path: PathBuf,
    /// Its text, shortened.
    text: String,
}

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
pub enum ResctrlError {
    /// A file or directory that is there did not answer.
    #[error("cannot read {}", path.display())]
    Read {
        /// What was read.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// It answered with something else.
    #[error("cannot use a monitoring file")]
    NoFigure(#[from] NoFigure),
}

/// The collector.
#[derive(Debug)]
pub struct ResctrlCollector {
    /// `<sys_fs>/resctrl`
    root: PathBuf,
    published: Published<CacheUse>,
    series: SharedSeries,
}

impl ResctrlCollector {
    /// Reads below `roots`.
    ///
    /// # Errors
    /// What the CPU lacks.
    pub fn new(roots: &Roots, published: Published<CacheUse>, series: SharedSeries) -> Result<Self, String> {
        cpu_can(&CpuModel::read(roots))?;
        Ok(Self { root: roots.sys_fs.join("resctrl"), published, series })
    }
}

impl Collect for ResctrlCollector {
    fn name(&self) -> &'static str {
        "resctrl"
    }

    fn round(&mut self, now: Nanos) -> RoundResult {
        let found = read(&self.root, now)?;
        self.series.append(found.at, samples(&found));
        self.published.set(found);
        Ok(())
    }
}

/// What this node offers, for `doctor`.
pub fn offer(roots: &Roots) -> Offer {
    match cpu_can(&CpuModel::read(roots)) {
        Err(why) => Offer::missing(OFFER, why),
        Ok(()) if !roots.sys_fs.join("resctrl/info/L3_MON").is_dir() => {
            Offer::missing(OFFER, "the CPU can, but resctrl with L3 monitoring is not mounted yet")
        }
        Ok(()) => Offer::ok(OFFER, "on: cache and memory bandwidth of the classes are told"),
    }
}

/// What the CPU lacks for all figures, collection.md 6.12.
fn cpu_can(cpu: &CpuModel) -> Result<(), String> {
    if !VENDORS.contains(&cpu.vendor.as_str()) {
        return Err(format!("the CPU is of {}, not of {}", cpu.vendor, VENDORS.join(" or ")));
    }
    let lacking: Vec<_> = FLAGS.into_iter().filter(|flag| !cpu.has(flag)).collect();
    if lacking.is_empty() { Ok(()) } else { Err(format!("the CPU lacks {}", lacking.join(" "))) }
}

/// The series of one round; a figure that is absent is no sample.
fn samples(found: &CacheUse) -> impl Iterator<Item = (SeriesKey, f64)> {
    found.groups.iter().flat_map(|((group, id), CacheFigures { occupancy, local, total })| {
        let samples = [
            (SeriesKey::llc(group, *id), occupancy),
            (SeriesKey::mb(group, *id, MbType::Local), local),
            (SeriesKey::mb(group, *id, MbType::Total), total),
        ];
        samples.into_iter().filter_map(|(key, bytes)| Some((key, (*bytes)?.0 as f64)))
    })
}

/// Reads all groups.
fn read(root: &Path, at: Nanos) -> Result<CacheUse, ResctrlError> {
    let mut found = CacheUse { at, ..CacheUse::default() };
    for group in GROUPS {
        let dir = root.join(group).join("mon_data");
        for (id, cache) in caches(&dir)? {
            found.groups.insert((group, id), figures(&cache)?);
        }
    }
    Ok(found)
}

/// The caches below `mon_data`: their ids, which may have holes (C089), and directories.
fn caches(dir: &Path) -> Result<Vec<(u32, PathBuf)>, ResctrlError> {
    let failed = |source| ResctrlError::Read { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = match entry {
            Err(error) if is_gone(&error) => break,
            other => other.map_err(failed)?,
        };
        if let Some(id) = entry.file_name().to_str().and_then(cache_id) {
            found.push((id, entry.path()));
        }
    }
    Ok(found)
}

/// `mon_L3_00` is cache 0. Other directories monitor something else.
fn cache_id(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("mon_L3_")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn figures(cache: &Path) -> Result<CacheFigures, ResctrlError> {
    Ok(CacheFigures {
        occupancy: figure(&cache.join("llc_occupancy"))?,
        local: figure(&cache.join("mbm_local_bytes"))?,
        total: figure(&cache.join("mbm_total_bytes"))?,
    })
}

/// One figure; `None` where there is no such file or the hardware has no figure for now.
fn figure(path: &Path) -> Result<Option<Bytes>, ResctrlError> {
    let text = match text_file::read(path) {
        Err(error) if is_gone(&error) => return Ok(None),
        other => other.map_err(|source| ResctrlError::Read { path: path.to_owned(), source })?,
    };
    match text.trim() {
        // No counter is assigned, the counter just overflowed, or the hardware failed to tell.
        "Unavailable" | "Error" | "Unassigned" => Ok(None),
        text => text.parse().map(|bytes| Some(Bytes(bytes))).map_err(|_| {
            let text = text.chars().take(40).collect();
            NoFigure { path: path.to_owned(), text }.into()
        }),
    }
}

#[cfg(test)]
mod tests;
