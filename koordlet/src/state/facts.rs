//! The board of what the collectors found out last: one typed value of each kind, replaced whole, so that no
//! reader ever sees half of a round (collection.md 15 row 19). Decisions are woken by the hub, not by this.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::be_resources::BeResources;
use super::cache_use::CacheUse;
use super::cold_memory::ColdMemory;
use super::cpi::CpiCounts;
use super::disks::Disks;
use super::group_stats::GroupStats;
use super::node_metric::build::Report;
use super::pressure::NodePressure;
use super::system_usage::SystemUsage;
use crate::host::numa::NodeNumaInfo;
use crate::host::topology::NodeCpuInfo;

/// A value that one part publishes and any number read. Clones share it.
#[derive(Debug)]
pub struct Published<T>(Arc<RwLock<Option<Arc<T>>>>);

impl<T> Published<T> {
    /// Replaces the value.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(value));
    }

    /// Replaces the value by another one; an equal one stays the one that readers hold.
    pub fn update(&self, value: T)
    where
        T: PartialEq,
    {
        if self.get().is_none_or(|held| *held != value) {
            self.set(value);
        }
    }

    /// Takes the value away: its source has ended, or the node has none any more.
    pub fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The last value; `None` before the first.
    pub fn get(&self) -> Option<Arc<T>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<T> Clone for Published<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Published<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

/// A wish that one part has and others look at. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<AtomicBool>);

impl Switch {
    /// Has it, or no longer.
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }

    /// Whether it is there.
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// All of them. Each has one writer, named beside it. Clones share the values.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// CPUs of the node; from the collector of node information.
    pub cpus: Published<NodeCpuInfo>,
    /// NUMA nodes with memory and hugepages; likewise.
    pub numa: Published<NodeNumaInfo>,
    /// Memory, throttling and NUMA figures read from cgroup files; from the round of group files.
    pub groups: Published<GroupStats>,
    /// What best-effort pods may use, ask for and use; from the round of group files.
    pub be: Published<BeResources>,
    /// Use that belongs to no pod and no host application; from the round of group files.
    pub system: Published<SystemUsage>,
    /// Pressure; from the PSI collector.
    pub pressure: Published<NodePressure>,
    /// Cycles and instructions; from the CPI collector.
    pub cpi: Published<CpiCounts>,
    /// Last-level cache and memory bandwidth by class; from the resctrl collector.
    pub cache_use: Published<CacheUse>,
    /// Cold memory; from the kidled collector.
    pub cold_memory: Published<ColdMemory>,
    /// The last report of use, and what was predicted for it; from the NodeMetric reporter.
    pub report: Published<Report>,
    /// Block devices; from the disk collector.
    pub disks: Published<Disks>,
    /// Whether somebody wants the history of memory with page cache though no flag says so; from the NodeMetric's
    /// policy.
    pub page_cache_asked: Switch,
}
