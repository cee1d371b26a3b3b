//! What is remembered of each pod, container and host application from one tick to the next.
//!
//! A group is its directory and, where the source of CPU time knows it, the cgroup's id: a static pod comes
//! back under the same path, and its counters start anew. Nothing is copied for a group that is known.

use std::collections::HashMap;
use std::sync::Arc;

use super::memory::GroupMemory;
use super::rate::{self, Reading, Recent};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::path_hash::PathHash;
use crate::state::usage::{CpuTime, NanoCpu};
use crate::units::Nanos;

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    /// What the answer calls it: pod UID, container id or application name.
    pub(super) name: Arc<str>,
    /// When its `memory.stat` was read and what it said.
    pub(super) memory: GroupMemory,
    identity: Option<u64>,
    last: Option<Reading>,
    cpu: CpuSample,
    recent: Recent,
    round: u64,
}

/// What a tick found out about a group's CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuSample {
    /// Use since the last tick, if that can be told.
    pub(super) usage: Option<NanoCpu>,
    /// Whether the source knows the directory.
    pub(super) known: bool,
    /// Whether something ran in the group since the last tick, or that is not known.
    pub(super) ran: bool,
}

/// All groups.
#[derive(Debug)]
pub(super) struct Groups {
    by_dir: HashMap<CgroupDir, Group, PathHash>,
    cpus: u32,
    round: u64,
    odd: u64,
}

impl Groups {
    /// For a machine of `cpus` CPUs.
    pub(super) fn new(cpus: u32) -> Self {
        Self { by_dir: HashMap::default(), cpus, round: 0, odd: 0 }
    }

    /// Starts a tick.
    pub(super) fn begin(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// Ends a tick: groups that it did not visit are forgotten.
    pub(super) fn end(&mut self) {
        let round = self.round;
        self.by_dir.retain(|_, group| group.round == round);
    }

    /// Pairs of readings that could not be right, since the start.
    pub(super) fn odd(&self) -> u64 {
        self.odd
    }

    /// Visits a group in a tick. Named twice in one tick, it gives the same sample twice.
    pub(super) fn visit(
        &mut self,
        cpu_time: &mut dyn CpuTime,
        name: &str,
        dir: &CgroupDir,
        now: Nanos,
    ) -> (&mut Group, CpuSample) {
        let group = self.by_dir.entry(dir.clone()).or_insert_with(|| Group::new(name));
        if group.round != self.round {
            group.round = self.round;
            group.rename(name);
            group.cpu = match group.reading(cpu_time, dir, now) {
                Some(reading) => group.advance(reading, self.cpus, &mut self.odd),
                None => CpuSample::default(),
            };
        }
        let cpu = group.cpu;
        (group, cpu)
    }

    /// Looks at a group between two ticks: its name and its use over about 200 ms. `None` if the source does
    /// not know the directory.
    pub(super) fn look(
        &mut self,
        cpu_time: &mut dyn CpuTime,
        name: &str,
        dir: &CgroupDir,
        now: Nanos,
    ) -> Option<(Arc<str>, Option<NanoCpu>)> {
        let group = self.by_dir.entry(dir.clone()).or_insert_with(|| Group::new(name));
        let reading = group.reading(cpu_time, dir, now)?;
        group.recent.push(reading);
        Some((Arc::clone(&group.name), group.recent.usage(self.cpus)))
    }
}

impl Group {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            memory: GroupMemory::default(),
            identity: None,
            last: None,
            cpu: CpuSample::default(),
            recent: Recent::default(),
            round: 0,
        }
    }

    fn rename(&mut self, name: &str) {
        if *self.name != *name {
            self.name = name.into();
        }
    }

    /// The counter now; all that was remembered is dropped if the group has gone or is another one.
    fn reading(&mut self, cpu_time: &mut dyn CpuTime, dir: &CgroupDir, now: Nanos) -> Option<Reading> {
        // A source of files opens a directory's file when its total is first asked for.
        let total = cpu_time.total(dir);
        let identity = cpu_time.identity(dir);
        let another = identity.is_some() && self.identity.is_some() && identity != self.identity;
        let gone = total.is_none() && self.last.is_some();
        if another || gone {
            self.last = None;
            self.recent = Recent::default();
            self.memory = GroupMemory::default();
        }
        self.identity = identity.or(self.identity);
        total.map(|total| Reading { at: now, total })
    }

    fn advance(&mut self, reading: Reading, cpus: u32, odd: &mut u64) -> CpuSample {
        let usage = self.last.and_then(|last| rate::between(last, reading, cpus));
        if self.last.is_some() && usage.is_none() {
            *odd = odd.saturating_add(1);
        }
        let ran = self.last.is_none_or(|last| last.total != reading.total);
        self.last = Some(reading);
        CpuSample { usage, known: true, ran }
    }
}
