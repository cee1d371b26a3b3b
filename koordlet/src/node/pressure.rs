//! The PSI collector: pressure of pods and containers, collection.md 6.9 (gate `PSICollector`). On v1 only vendors'
//! kernels have the files. A kernel without them, or with pressure switched off (`psi=0`), is told of once and ends
//! the collector, nothing else (C071, C072).

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::held_stats::{GroupFileError, HeldStat, StatReader};
use super::round_log::RoundResult;
use super::rounds::Collect;
use crate::cgroup::held_file::{ReadError, is_unsupported};
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::path_hash::PathHash;
use crate::cgroup::read::{Pressure, StatError, parse_pressure};
use crate::cgroup::resource::Resource;
use crate::error_chain::chain;
use crate::host::offers::Offer;
use crate::state::facts::Published;
use crate::state::pods::{ContainerKind, PodTable};
use crate::state::pressure::{GroupPressure, NodePressure};
use crate::state::series::shared::SharedSeries;
use crate::units::Nanos;

/// Its name in `koordlet doctor`.
pub const OFFER: &str = "collector-psi";

/// The files of a group, in the order of `Group::files`.
const FILES: [Resource; 3] = [Resource::CpuPressure, Resource::MemoryPressure, Resource::IoPressure];

/// The part of the process's descriptors that is held: an eighth.
const SHARE: u64 = 8;

/// The collector.
#[derive(Debug)]
pub struct PressureCollector {
    reader: StatReader,
    layout: Arc<Layout>,
    kubepods: CgroupDir,
    pods: watch::Receiver<Arc<PodTable>>,
    pressure: Published<NodePressure>,
    series: SharedSeries,
    groups: HashMap<CgroupDir, Group, PathHash>,
    round: u64,
    stage: Stage,
}

/// What the collector knows of the kernel.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// There was no kubepods directory to look into yet.
    Waiting,
    /// It has the files.
    On,
    /// It will never have them.
    Over,
}

/// What is kept of a group from round to round.
#[derive(Debug)]
struct Group {
    name: Arc<str>,
    files: [HeldStat; 3],
    failing: bool,
    round: u64,
}

impl PressureCollector {
    /// Reads files of `layout` for the pods beneath `kubepods`, publishes to `pressure`.
    pub fn new(
        layout: Arc<Layout>,
        kubepods: CgroupDir,
        pods: watch::Receiver<Arc<PodTable>>,
        pressure: Published<NodePressure>,
        series: SharedSeries,
    ) -> Self {
        let reader = StatReader::with_share(Arc::clone(&layout), SHARE);
        let (groups, stage) = (HashMap::default(), Stage::Waiting);
        Self { reader, layout, kubepods, pods, pressure, series, groups, round: 0, stage }
    }

    /// All groups once; `Err` if the kernel turns out to have no pressure.
    fn collect(&mut self, now: Nanos) -> Result<NodePressure, GroupFileError> {
        let pods = Arc::clone(&self.pods.borrow());
        let mut found = NodePressure { at: now, ..NodePressure::default() };
        self.round = self.round.wrapping_add(1);
        self.reader.begin();
        for pod in pods.pods.values() {
            if let Some((uid, figures)) = self.group(&pod.uid, &pod.dir)? {
                found.pods.insert(uid, figures);
            }
            for container in pod.containers.iter().filter(|container| container.kind == ContainerKind::App) {
                if let (Some(id), Some(dir)) = (&container.id, &container.dir)
                    && let Some((id, figures)) = self.group(id, dir)?
                {
                    found.containers.insert((Arc::clone(&pod.uid), id), figures);
                }
            }
        }
        let round = self.round;
        self.groups.retain(|_, group| group.round == round);
        self.reader.end(self.groups.values_mut().flat_map(|group| &mut group.files));
        Ok(found)
    }

    /// Figures of one group; `None` if it is gone or one of its files cannot be used, which is told once.
    fn group(
        &mut self,
        name: &str,
        dir: &CgroupDir,
    ) -> Result<Option<(Arc<str>, GroupPressure)>, GroupFileError> {
        let group = self.groups.entry(dir.clone()).or_insert_with(|| Group::new(name));
        group.round = self.round;
        if *group.name != *name {
            group.name = name.into();
        }
        let figures = match group.read(&mut self.reader, dir) {
            Ok(figures) => {
                group.failing = false;
                figures
            }
            Err(error) if is_without_feature(&error) => return Err(error),
            Err(error) => {
                if !group.failing {
                    tracing::warn!(%dir, error = chain(&error), "its pressure is not known");
                }
                group.failing = true;
                None
            }
        };
        Ok(figures.map(|figures| (Arc::clone(&group.name), figures)))
    }

    fn take(&mut self, collected: Result<NodePressure, GroupFileError>) {
        match collected {
            Ok(found) => {
                self.series.append(found.at, found.samples());
                self.pressure.set(found);
            }
            Err(error) => self.give_up(&switched_off(&error)),
        }
    }

    fn give_up(&mut self, why: &str) {
        tracing::info!(collector = "psi", why, "collector is off");
        self.stage = Stage::Over;
        self.groups.clear();
        self.pressure.clear();
    }
}

impl Collect for PressureCollector {
    fn name(&self) -> &'static str {
        "psi"
    }

    fn round(&mut self, now: Nanos) -> RoundResult {
        if self.stage == Stage::Waiting {
            match availability(&self.layout, &self.kubepods)? {
                Availability::On => self.stage = Stage::On,
                Availability::NotYet => {}
                Availability::Never(why) => self.give_up(&why),
            }
        }
        if self.stage == Stage::On {
            let collected = self.collect(now);
            self.take(collected);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }
}

impl Group {
    fn new(name: &str) -> Self {
        Self { name: name.into(), files: Default::default(), failing: false, round: 0 }
    }

    /// All three files must be there, each with its `some` line.
    fn read(
        &mut self,
        reader: &mut StatReader,
        dir: &CgroupDir,
    ) -> Result<Option<GroupPressure>, GroupFileError> {
        let mut read = |slot: &mut HeldStat, resource| {
            reader.read(slot, dir, resource, |_, text| complete(resource, text))
        };
        let [cpu, memory, io] = &mut self.files;
        let [of_cpu, of_memory, of_io] = FILES;
        let (cpu, memory, io) = (read(cpu, of_cpu)?, read(memory, of_memory)?, read(io, of_io)?);
        let (Some(cpu), Some(memory), Some(io)) = (cpu, memory, io) else { return Ok(None) };
        Ok(Some(GroupPressure { cpu, memory, io }))
    }
}

/// A pressure file with a `some` line, collection.md 3.7.
fn complete(resource: Resource, text: &str) -> Result<Pressure, StatError> {
    let pressure = parse_pressure(resource, text)?;
    if pressure.some.is_some() { Ok(pressure) } else { Err(StatError::Missing { resource, key: "some" }) }
}

/// Whether the kernel has the file without the feature.
fn is_without_feature(error: &GroupFileError) -> bool {
    match error {
        GroupFileError::Open(ReadError::Io { source, .. }) | GroupFileError::Read { source, .. } => {
            is_unsupported(source)
        }
        _ => false,
    }
}

/// Whether pressure can be had.
enum Availability {
    On,
    /// Nothing to look into.
    NotYet,
    Never(String),
}

/// Tries the files of the kubepods directory, whose answer holds for all beneath it (collection.md 3.5).
fn availability(layout: &Arc<Layout>, kubepods: &CgroupDir) -> Result<Availability, GroupFileError> {
    let mut reader = StatReader::new(Arc::clone(layout));
    for resource in FILES {
        match reader.read(&mut HeldStat::default(), kubepods, resource, |_, text| complete(resource, text)) {
            Ok(Some(_)) => {}
            Ok(None) if !exists(layout, kubepods, resource) => return Ok(Availability::NotYet),
            Ok(None) => return Ok(Availability::Never(lacks(kubepods, resource))),
            Err(error) if is_without_feature(&error) => return Ok(Availability::Never(switched_off(&error))),
            Err(error) => return Err(error),
        }
    }
    Ok(Availability::On)
}

fn lacks(kubepods: &CgroupDir, resource: Resource) -> String {
    format!("this kernel has no {} in {kubepods}", resource.v1_name())
}

fn switched_off(error: &GroupFileError) -> String {
    format!("the kernel has the files without figures, as with psi=0: {}", chain(error))
}

fn exists(layout: &Layout, dir: &CgroupDir, resource: Resource) -> bool {
    let root = layout.hierarchy_root(resource.controller());
    root.is_none_or(|root| root.join(dir.as_str()).is_dir())
}

/// What this node has of it, for `koordlet doctor`.
pub fn offer(layout: &Arc<Layout>, kubepods: Option<&CgroupDir>) -> Offer {
    match kubepods.map(|kubepods| availability(layout, kubepods)) {
        Some(Ok(Availability::On)) => Offer::ok(OFFER, "on: pods and containers have pressure files"),
        Some(Ok(Availability::NotYet)) | None => {
            Offer::missing(OFFER, "no kubepods directory yet; cpu.pressure above tells what this kernel has")
        }
        Some(Ok(Availability::Never(why))) => Offer::missing(OFFER, why),
        Some(Err(error)) => Offer::failed(OFFER, chain(&error)),
    }
}

#[cfg(test)]
mod tests;
