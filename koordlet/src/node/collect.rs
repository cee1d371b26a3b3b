//! One tick: CPU time of all groups, ticks and memory of the node -> one `Usage` (collection.md 6.2, 6.3, 6.5).
//! What has to be read from a file of each group is not here: that may take long (`group_files`).
//!
//! CPU time comes from a `CpuTime`, so that nothing here knows whether eBPF or files gave it. A figure that is
//! not known is absent, never 0: a group has no CPU figure until two readings of it exist.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nix::unistd::{SysconfVar, sysconf};

use super::groups::Groups;
use super::numa_use::{NumaUse, WholeNode};
use super::procfs::{ProcError, ProcReader};
use super::rate::{self, Reading};
use crate::cgroup::path::CgroupDir;
use crate::error_chain::chain;
use crate::host::meminfo::Meminfo;
use crate::host::online::present_cpus;
use crate::host::roots::Roots;
use crate::state::groups::HostAppDir;
use crate::state::pods::PodTable;
use crate::state::usage::{CpuTime, NanoCpu, Usage};
use crate::units::{Bytes, Nanos};

/// What turns the kernel's numbers into figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Length of a tick of `/proc/stat`.
    pub jiffy: Nanos,
    /// Number of CPUs: no figure is above it.
    pub cpus: u32,
}

impl Scale {
    /// Of the machine behind these roots; ticks of 10 ms where the system does not tell, and any number of CPUs where
    /// it tells none.
    pub fn of_machine(roots: &Roots) -> Self {
        let ask = |name| sysconf(name).ok().flatten().and_then(|value| u64::try_from(value).ok());
        let ticks = ask(SysconfVar::CLK_TCK).filter(|ticks| *ticks > 0).unwrap_or(100);
        let present = present_cpus(roots).ok().and_then(|cpus| u32::try_from(cpus.len()).ok());
        Self { jiffy: Nanos(1_000_000_000 / ticks), cpus: present.unwrap_or(u32::MAX) }
    }
}

/// Takes samples and remembers what the next one needs.
#[derive(Debug)]
pub struct Collector {
    scale: Scale,
    proc: ProcReader,
    node: Option<Reading>,
    groups: Groups,
    numa: Option<NumaUse>,
    be_dir: Option<CgroupDir>,
    odd_memory: u64,
    stat_trouble: Option<String>,
    cpus_trouble: Option<String>,
    meminfo_trouble: Option<String>,
}

impl Collector {
    /// For the machine whose procfs is `proc`.
    pub fn new(proc: &Path, scale: Scale) -> Self {
        Self {
            scale,
            proc: ProcReader::new(proc),
            node: None,
            groups: Groups::new(scale.cpus),
            numa: None,
            be_dir: None,
            odd_memory: 0,
            stat_trouble: None,
            cpus_trouble: None,
            meminfo_trouble: None,
        }
    }

    /// Samples hold the use of each NUMA node, too.
    #[must_use]
    pub fn with_numa(self, numa: NumaUse) -> Self {
        Self { numa: Some(numa), ..self }
    }

    /// Samples hold the CPU time of the best-effort directory, too.
    #[must_use]
    pub fn with_best_effort(self, dir: CgroupDir) -> Self {
        Self { be_dir: Some(dir), ..self }
    }

    /// One full sample. `now` is the time right before the call (`CLOCK_MONOTONIC`): the sample is the first
    /// thing taken.
    pub fn tick(
        &mut self,
        cpu_time: &mut dyn CpuTime,
        pods: &Arc<PodTable>,
        host_apps: &[HostAppDir],
        now: Nanos,
    ) -> Usage {
        cpu_time.sample();
        let (node_cpu, ticks) = self.node_cpu(now);
        let info = known(self.proc.meminfo(), &mut self.meminfo_trouble);
        self.groups.follow(pods, host_apps);
        let whole = WholeNode { at: now, cpu: node_cpu, meminfo: info.as_ref() };
        Usage {
            at: now,
            node_cpu,
            numa: self.numa.as_mut().map(|numa| numa.sample(whole, ticks)).unwrap_or_default(),
            be_cpu_time: self.be_dir.as_ref().and_then(|dir| cpu_time.reading(dir)),
            node_memory: info.and_then(|info| self.node_memory(&info)),
            node_memory_with_page_cache: info.filter(has_free).map(|info| info.used_with_page_cache()),
            groups: self.groups.tick(cpu_time, now),
        }
    }

    /// A quick look between two ticks: CPU use of pods and host applications over the last 200 ms, nothing
    /// else. No system call beyond the sample's own. The first looks after a start have no figures.
    pub fn recent_cpu(
        &mut self,
        cpu_time: &mut dyn CpuTime,
        pods: &Arc<PodTable>,
        host_apps: &[HostAppDir],
        now: Nanos,
    ) -> Usage {
        cpu_time.sample();
        self.groups.follow(pods, host_apps);
        Usage { at: now, groups: self.groups.look(cpu_time, now), ..Usage::default() }
    }

    /// Pairs of readings that gave no figure since the start: counters or times that went back, and memory
    /// figures that cannot be right.
    pub fn odd_samples(&self) -> u64 {
        self.groups.odd().saturating_add(self.odd_memory)
    }

    /// Why the node's use is not known in full, if so.
    pub fn trouble(&self) -> Option<&str> {
        self.stat_trouble.as_deref().or(self.meminfo_trouble.as_deref())
    }

    /// Use of all CPUs since the last tick, collection.md 6.2, and the ticks of each where they are needed: from
    /// one reading of the file.
    fn node_cpu(&mut self, now: Nanos) -> (Option<NanoCpu>, Option<BTreeMap<u32, u64>>) {
        let per_cpu = self.numa.as_ref().is_some_and(NumaUse::needs_ticks);
        let read = if per_cpu {
            self.proc.all_ticks().map(|ticks| (ticks.node, Some(ticks.cpus)))
        } else {
            self.proc.total_ticks().map(|total| (total, None))
        };
        let Some((total, each)) = known(read, &mut self.stat_trouble) else { return (None, None) };
        let reading = Reading { at: now, total: Nanos(total.saturating_mul(self.scale.jiffy.0)) };
        let last = self.node.replace(reading);
        let usage = last.and_then(|last| rate::between(last, reading, self.scale.cpus));
        (usage, each.and_then(|each| known(each, &mut self.cpus_trouble)))
    }

    /// Memory in use on the node without page cache, collection.md 6.2.
    fn node_memory(&mut self, info: &Meminfo) -> Option<Bytes> {
        let (total, available) = (info.get("MemTotal")?, info.get("MemAvailable")?);
        if available > total {
            self.odd_memory = self.odd_memory.saturating_add(1);
        }
        Some(info.used())
    }
}

/// Whether `used_with_page_cache` means anything.
fn has_free(info: &Meminfo) -> bool {
    info.get("MemTotal").is_some() && info.get("MemFree").is_some()
}

/// The value; a failure is logged once until it is over.
fn known<T>(read: Result<T, ProcError>, trouble: &mut Option<String>) -> Option<T> {
    match read {
        Ok(value) => {
            *trouble = None;
            Some(value)
        }
        Err(error) => {
            if trouble.is_none() {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "use of the node is not known");
                *trouble = Some(chain(error));
            }
            None
        }
    }
}

#[cfg(test)]
mod tests;
