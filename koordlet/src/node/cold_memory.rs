//! The cold memory collector: kidled's figures of the node, pods, containers and host applications, collection.md
//! 6.10 (gate `ColdPageCollector`). It reads only: switching kidled on is the admin's, so a kernel that has it
//! switched off is told of once, and looked at again each round.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::held_stats::{GroupFileError, HeldStat, StatReader};
use super::round_log::RoundResult;
use super::rounds::Collect;
use crate::cgroup::idle_pages::parse_idle_pages;
use crate::cgroup::layout::Layout;
use crate::cgroup::naming::Naming;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::read::StatError;
use crate::cgroup::resource::Resource;
use crate::error_chain::chain;
use crate::host::kidled::Kidled;
use crate::host::meminfo::Meminfo;
use crate::host::offers::Offer;
use crate::host::roots::Roots;
use crate::host::text_file;
use crate::state::cold_memory::{ColdFigures, ColdMemory};
use crate::state::facts::Published;
use crate::state::pods::{ContainerKind, PodTable};
use crate::state::series::shared::SharedSeries;
use crate::state::slo::Slo;
use crate::units::{Bytes, Nanos};

/// Its name in `koordlet doctor`.
pub const OFFER: &str = "collector-cold-memory";

/// Why cold memory of the node or of a group is not known.
#[derive(Debug, thiserror::Error)]
enum ColdError {
    #[error("a group's figures are not known")]
    Group(#[from] GroupFileError),
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use what the root group's file says")]
    Parse(#[from] StatError),
}

/// Where figures come from.
#[derive(Clone, Debug)]
pub struct ColdSources {
    /// Where the host's file systems are.
    pub roots: Roots,
    /// Where cgroup files are.
    pub layout: Arc<Layout>,
    /// Where host applications are.
    pub naming: Naming,
    /// Pods.
    pub pods: watch::Receiver<Arc<PodTable>>,
    /// The policy, which names host applications.
    pub slo: watch::Receiver<Arc<Slo>>,
}

/// The collector.
#[derive(Debug)]
pub struct ColdMemoryCollector {
    sources: ColdSources,
    reader: StatReader,
    cold: Published<ColdMemory>,
    series: SharedSeries,
    /// Why there are no figures, as it was told.
    told: Option<String>,
    over: bool,
    /// Groups failed in the last round, of which the first was told.
    failing: bool,
}

impl ColdMemoryCollector {
    /// Reads from `sources`, publishes to `cold` and `series`.
    pub fn new(sources: ColdSources, cold: Published<ColdMemory>, series: SharedSeries) -> Self {
        let reader = StatReader::new(Arc::clone(&sources.layout));
        Self { sources, reader, cold, series, told: None, over: false, failing: false }
    }

    fn collect(&mut self, now: Nanos) -> ColdMemory {
        let mut round = Round { failed: None, memory: ColdMemory { at: now, ..ColdMemory::default() } };
        round.memory.node = round.keep("the node", self.node().map(Some));
        let (pods, slo) = (Arc::clone(&self.sources.pods.borrow()), Arc::clone(&self.sources.slo.borrow()));
        for pod in pods.pods.values() {
            let figures = round.keep(&pod.dir, self.group(&pod.dir));
            round.memory.pods.extend(figures.map(|figures| (Arc::clone(&pod.uid), figures)));
            for container in pod.containers.iter().filter(|container| container.kind == ContainerKind::App) {
                let (Some(id), Some(dir)) = (&container.id, &container.dir) else { continue };
                let figures = round.keep(dir, self.group(dir));
                round.memory.containers.extend(figures.map(|figures| (Arc::from(id.as_str()), figures)));
            }
        }
        for app in &slo.host_applications {
            // A path that cannot be used was told of by whoever took the policy.
            let Ok(dir) = self.sources.naming.host_app_dir(app) else { continue };
            let figures = round.keep(&dir, self.group(&dir));
            round.memory.host_apps.extend(figures.map(|figures| (Arc::from(app.name.as_str()), figures)));
        }
        if let Some(failed) = &round.failed
            && !self.failing
        {
            tracing::warn!(what = failed, "cold memory of this one, and maybe of others, is not known");
        }
        self.failing = round.failed.is_some();
        round.memory
    }

    /// Hot memory of the node is all that is not free, less the cold.
    fn node(&mut self) -> Result<ColdFigures, ColdError> {
        let path = self.sources.roots.proc.join("meminfo");
        let used = Meminfo::parse(&text(&path)?).used_with_page_cache();
        let path = self.sources.layout.root_file(Resource::IdlePageStats).unwrap_or_default();
        let cold = cold_bytes(&text(&path)?)?;
        Ok(ColdFigures { cold, hot: used - cold })
    }

    /// `None` if the group is gone.
    fn group(&mut self, dir: &CgroupDir) -> Result<Option<ColdFigures>, ColdError> {
        let cold = self.read(dir, Resource::IdlePageStats, |_, text| cold_bytes(text))?;
        let used = self.read(dir, Resource::MemoryStat, |layout, text| {
            layout.parse_memory_stat(text).map(|stat| stat.with_page_cache())
        })?;
        Ok(cold.zip(used).map(|(cold, used)| ColdFigures { cold, hot: used - cold }))
    }

    /// Few kernels have kidled, and rounds are seconds apart: nothing is held.
    fn read(
        &mut self,
        dir: &CgroupDir,
        resource: Resource,
        parse: impl Fn(&Layout, &str) -> Result<Bytes, StatError>,
    ) -> Result<Option<Bytes>, ColdError> {
        Ok(self.reader.read(&mut HeldStat::default(), dir, resource, parse)?)
    }

    /// Says why there are no figures, once, and takes away those that there were.
    fn tell(&mut self, why: String) {
        if self.told.as_ref() != Some(&why) {
            tracing::info!(collector = "cold-memory", why, "collector is off");
        }
        self.told = Some(why);
        self.cold.clear();
    }
}

impl Collect for ColdMemoryCollector {
    fn name(&self) -> &'static str {
        "cold-memory"
    }

    fn round(&mut self, now: Nanos) -> RoundResult {
        match available(&self.sources.roots, &self.sources.layout) {
            Availability::On { .. } => {
                self.told = None;
                let memory = self.collect(now);
                self.series.append(now, memory.samples());
                self.cold.set(memory);
            }
            Availability::Off(why) => self.tell(why),
            Availability::Never(why) => {
                self.tell(why);
                self.over = true;
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }
}

/// One round as it comes together.
struct Round {
    memory: ColdMemory,
    /// The first failure.
    failed: Option<String>,
}

impl Round {
    /// The figures, or nothing and a note of why.
    fn keep(
        &mut self,
        what: impl std::fmt::Display,
        figures: Result<Option<ColdFigures>, ColdError>,
    ) -> Option<ColdFigures> {
        figures.unwrap_or_else(|error| {
            self.failed.get_or_insert_with(|| format!("{what}: {}", chain(&error)));
            None
        })
    }
}

fn cold_bytes(text: &str) -> Result<Bytes, StatError> {
    parse_idle_pages(text.trim_matches('\n')).map(|pages| pages.cold)
}

fn text(path: &Path) -> Result<String, ColdError> {
    text_file::read(path).map_err(|source| ColdError::Read { path: path.to_owned(), source })
}

/// Whether cold memory can be had.
enum Availability {
    On {
        period: u32,
    },
    /// Not now.
    Off(String),
    /// Not with this kernel.
    Never(String),
}

fn available(roots: &Roots, layout: &Layout) -> Availability {
    match Kidled::read(roots) {
        Kidled::Absent => Availability::Never("this kernel has no kidled".to_owned()),
        _ if layout.root_file(Resource::IdlePageStats).is_none() => Availability::Never(
            "groups of the memory controller have no memory.idle_page_stats here".to_owned(),
        ),
        Kidled::Off { why } => Availability::Off(why),
        Kidled::Scanning { period } => Availability::On { period },
    }
}

/// What this node has of it, for `koordlet doctor`.
pub fn offer(roots: &Roots, layout: &Layout) -> Offer {
    match available(roots, layout) {
        Availability::On { period } => {
            let seconds = u64::from(period) * 60;
            Offer::ok(OFFER, format!("on: kidled scans every {period} s, so cold means idle for {seconds} s"))
        }
        Availability::Off(why) | Availability::Never(why) => Offer::missing(OFFER, why),
    }
}

#[cfg(test)]
mod tests;
