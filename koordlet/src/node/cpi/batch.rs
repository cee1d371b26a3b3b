//! The containers that are counted at the same time: their counters are opened, started and read together, and
//! closed on every way out.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit};

use super::CpiError;
use crate::cgroup::held_file::is_gone;
use crate::cpuset::CpuSet;
use crate::host::roots::Roots;
use crate::node::perf_group::{DESCRIPTORS, PerfEvent, PerfGroup};

/// A container to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Pod UID.
    pub(super) pod: Arc<str>,
    /// Full container id.
    pub(super) container: Arc<str>,
    /// Its directory in the hierarchy that has `perf_event`.
    pub(super) path: PathBuf,
}

/// Open counters. Closed on drop.
#[derive(Debug)]
pub(super) struct Batch<'t> {
    containers: Vec<(&'t Target, Vec<PerfGroup>)>,
    taken: usize,
}

/// How many descriptors a batch may take: half of those that this process may still open, since other parts hold
/// files too.
pub(super) fn room(roots: &Roots) -> usize {
    let limit = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // Where procfs does not tell, half of them are taken to be in use.
    let open = std::fs::read_dir(roots.proc.join("self/fd")).map_or(limit / 2, Iterator::count);
    limit.saturating_sub(open) / 2
}

impl<'t> Batch<'t> {
    /// Opens the counters of as many of `targets`, from the first on, as fit into `room` descriptors, but of one at
    /// least. Those whose cgroup is gone are taken without counters.
    pub(super) fn open(
        targets: &'t [Target],
        events: [PerfEvent; 2],
        cpus: &CpuSet,
        room: usize,
    ) -> Result<Self, CpiError> {
        let most = (room / (cpus.len().max(1) * DESCRIPTORS)).max(1);
        let mut batch = Self { containers: Vec::new(), taken: 0 };
        for target in targets {
            if batch.containers.len() == most {
                break;
            }
            match open(target, events, cpus) {
                // The limit is lower than was thought: the rest comes in the next batch.
                Err(error) if is_exhausted(&error) && !batch.is_empty() => break,
                Err(error) => return Err(error),
                Ok(groups) if groups.is_empty() => {}
                Ok(groups) => batch.containers.push((target, groups)),
            }
            batch.taken += 1;
        }
        Ok(batch)
    }

    /// How many targets are done with this batch.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Whether nothing is there to count.
    pub(super) fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// Begins to count.
    pub(super) fn start(&self) -> Result<(), CpiError> {
        self.containers.iter().try_for_each(|(target, groups)| {
            let started = groups.iter().try_for_each(PerfGroup::start);
            started.map_err(|source| CpiError::Read { path: target.path.clone(), source })
        })
    }

    /// The sums over all CPUs. A container whose counters were others' all the time on each CPU is left out.
    pub(super) fn read(&self) -> Result<Vec<(&'t Target, [f64; 2])>, CpiError> {
        let mut sums = Vec::with_capacity(self.containers.len());
        for (target, groups) in &self.containers {
            let mut sum: Option<[f64; 2]> = None;
            for group in groups {
                let count =
                    group.read().map_err(|source| CpiError::Read { path: target.path.clone(), source })?;
                if let Some([first, second]) = count.scaled() {
                    let [a, b] = sum.unwrap_or_default();
                    sum = Some([a + first, b + second]);
                }
            }
            sums.extend(sum.map(|sum| (*target, sum)));
        }
        Ok(sums)
    }
}

/// The groups of one container; none if its cgroup is gone. CPUs that went offline are left out.
fn open(target: &Target, events: [PerfEvent; 2], cpus: &CpuSet) -> Result<Vec<PerfGroup>, CpiError> {
    let path = || target.path.clone();
    let directory = match File::open(&target.path) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        other => other.map_err(|source| CpiError::Directory { path: path(), source })?,
    };
    let mut groups = Vec::with_capacity(cpus.len());
    for cpu in cpus.iter() {
        match PerfGroup::open(events, directory.as_fd(), cpu) {
            Ok(group) => groups.push(group),
            Err(error) if is_gone(&error) => {}
            Err(source) => return Err(CpiError::Open { path: path(), cpu, source }),
        }
    }
    Ok(groups)
}

/// Whether descriptors have run out.
fn is_exhausted(error: &CpiError) -> bool {
    let (CpiError::Open { source, .. } | CpiError::Directory { source, .. }) = error else { return false };
    matches!(source.raw_os_error().map(Errno::from_raw), Some(Errno::EMFILE | Errno::ENFILE))
}
