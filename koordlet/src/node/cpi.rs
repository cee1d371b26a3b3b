//! Cycles and instructions of containers, counted by perf events for a window in each round (collection.md 6.8).
//!
//! Each container has a group of two events on each online CPU, all closed when the window is over. Where all
//! containers together would take more than half of the descriptors that this process has left, they are counted
//! in batches one after another, each for a whole window: the round takes longer then.

mod batch;
mod offer;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use self::batch::{Batch, Target};
pub use self::offer::{OFFER, WhyNot, offer};
use super::perf_group::PerfEvent;
use super::round_log::RoundResult;
use super::rounds::Collect;
use crate::cgroup::layout::Layout;
use crate::cgroup::resource::Controller;
use crate::host::clock::monotonic;
use crate::host::online::online_cpus;
use crate::host::roots::Roots;
use crate::state::cpi::{Cpi, CpiCounts};
use crate::state::facts::Published;
use crate::state::pods::PodTable;
use crate::state::series::key::{CpiResource, SeriesKey};
use crate::state::series::shared::SharedSeries;
use crate::units::Nanos;

/// What is counted: cycles, then instructions.
pub const CPI_EVENTS: [PerfEvent; 2] = [PerfEvent::CpuCycles, PerfEvent::Instructions];

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
pub enum CpiError {
    /// Which CPUs are online is not known.
    #[error("cannot tell the online CPUs")]
    Cpus(#[source] io::Error),
    /// A container's counters.
    #[error("cannot count cycles of {} on CPU {cpu}", path.display())]
    Open {
        /// The cgroup directory.
        path: PathBuf,
        /// The CPU.
        cpu: u32,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A cgroup directory.
    #[error("cannot open {}", path.display())]
    Directory {
        /// The cgroup directory.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A container's counters were there and did not answer.
    #[error("cannot read the counters of {}", path.display())]
    Read {
        /// The cgroup directory.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
}

/// The collector.
#[derive(Debug)]
pub struct CpiCollector {
    /// Root of the hierarchy that has `perf_event`.
    root: PathBuf,
    roots: Roots,
    events: [PerfEvent; 2],
    window: Duration,
    pods: watch::Receiver<Arc<PodTable>>,
    published: Published<CpiCounts>,
    series: SharedSeries,
}

impl CpiCollector {
    /// Counts `events` (cycles and instructions: [`CPI_EVENTS`]) of the containers of `pods` for `window` in each
    /// round.
    ///
    /// # Errors
    /// This node cannot count them; tried, not guessed.
    pub fn new(
        layout: &Layout,
        roots: &Roots,
        events: [PerfEvent; 2],
        window: Duration,
        pods: watch::Receiver<Arc<PodTable>>,
        published: Published<CpiCounts>,
        series: SharedSeries,
    ) -> Result<Self, WhyNot> {
        offer::try_counting(layout, roots, events)?;
        let root = layout.hierarchy_root(Controller::PerfEvent).ok_or(WhyNot::NoHierarchy)?.to_owned();
        Ok(Self { root, roots: roots.clone(), events, window, pods, published, series })
    }

    /// The containers that have a directory.
    fn targets(&self) -> Vec<Target> {
        let pods = Arc::clone(&self.pods.borrow());
        let containers = pods.pods.values().flat_map(|pod| {
            pod.containers.iter().filter_map(|container| {
                let (id, dir) = (container.id.as_deref()?, container.dir.as_ref()?);
                Some(Target {
                    pod: Arc::clone(&pod.uid),
                    container: id.into(),
                    path: self.root.join(dir.as_str()),
                })
            })
        });
        containers.collect()
    }

    /// Counts all containers, batch by batch.
    fn count(&self) -> Result<CpiCounts, CpiError> {
        let targets = self.targets();
        let begun = monotonic();
        let mut counts = CpiCounts { at: begun, ..CpiCounts::default() };
        let mut rest = targets.as_slice();
        while !rest.is_empty() {
            let cpus = online_cpus(&self.roots).map_err(CpiError::Cpus)?;
            let batch = Batch::open(rest, self.events, &cpus, batch::room(&self.roots))?;
            rest = rest.get(batch.taken()..).unwrap_or_default();
            if batch.is_empty() {
                continue;
            }
            batch.start()?;
            // An agent that stops does not wait for this thread; its descriptors go with the process.
            thread::sleep(self.window);
            counts.at = monotonic();
            counts.took = Nanos(counts.at.0.saturating_sub(begun.0));
            for (target, [cycles, instructions]) in batch.read()? {
                let name = (Arc::clone(&target.pod), Arc::clone(&target.container));
                counts.containers.insert(name, Cpi { cycles, instructions });
            }
        }
        Ok(counts)
    }
}

impl Collect for CpiCollector {
    fn name(&self) -> &'static str {
        "cpi"
    }

    fn round(&mut self, _now: Nanos) -> RoundResult {
        let counts = self.count()?;
        self.series.append(counts.at, samples(&counts));
        self.published.set(counts);
        Ok(())
    }
}

/// Two series of each container, collection.md 6.8.
fn samples(counts: &CpiCounts) -> impl Iterator<Item = (SeriesKey, f64)> {
    counts.containers.iter().flat_map(|((pod, container), Cpi { cycles, instructions })| {
        [(CpiResource::Cycle, *cycles), (CpiResource::Instruction, *instructions)]
            .map(|(what, value)| (SeriesKey::cpi(pod, container, what), value))
    })
}
