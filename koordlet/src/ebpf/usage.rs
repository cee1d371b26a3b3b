//! [`CpuTime`] from the eBPF map: slots -> accounts, kept right by the tree on disk and by its files.
//!
//! A sample costs no system call a directory. What does cost some is rare: a death (two map calls), lost events
//! (the tree is walked), a full map (files of the pods concerned), and a slow comparison with the files, which
//! finds and counts what the tracepoint missed (real-time tasks on some kernels).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use koordlet_common::loss::Loss;

use super::accounts::Accounts;
use super::load::Programs;
use super::losses::Losses;
use super::pod_unit::{names_a_pod, pod_of};
use super::reader::{UsageEvent, UsageFeed};
use super::slots::{Slot, SlotTable};
use super::usage_stats::{Count, UsageStats};
use super::usage_tree::UsageTree;
use crate::cgroup::held_file::ReadBuffer;
use crate::cgroup::path::CgroupDir;
use crate::node::file_usage::{FileCpuTime, UsageFile, UsageFiles};
use crate::state::usage::{CpuPlace, CpuReading, CpuTime};
use crate::units::Nanos;

/// How long things wait.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// A dead group's last tasks may still be charged so long.
    pub dead: Duration,
    /// A program may still hold a slot so long after it left the hash.
    pub forgotten: Duration,
    /// Between two comparisons with a file.
    pub verify: Duration,
    /// Without a new refusal for so long, directories on files are counted again.
    pub full: Duration,
    /// An unknown owner of a slot may be a birth not heard of yet, for so long.
    pub stranger: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            dead: Duration::from_secs(2),
            forgotten: Duration::from_secs(1),
            verify: Duration::from_millis(500),
            full: Duration::from_secs(30),
            stranger: Duration::from_mins(1),
        }
    }
}

/// What [`EbpfCpuTime`] reads from.
pub struct UsageSources {
    /// The slots.
    pub table: SlotTable,
    /// Births and deaths in the usage hierarchy.
    pub feed: Arc<UsageFeed>,
    /// What the programs lost.
    pub losses: Arc<Losses>,
    /// The usage hierarchy on disk.
    pub tree: UsageTree,
    /// Its files.
    pub files: UsageFiles,
    /// Keeps the programs attached.
    pub programs: Arc<Programs>,
}

/// CPU time of every cgroup in the usage hierarchy.
pub struct EbpfCpuTime {
    sources: UsageSources,
    accounts: Accounts,
    readings: Vec<Slot>,
    buffer: ReadBuffer,
    pace: Pace,
    stats: Arc<UsageStats>,
    on_files: FileCpuTime,
    /// Directories on files.
    by_file: Vec<CgroupDir>,
    refusals: u64,
    refused_at: Nanos,
    strangers_since: Option<Nanos>,
    verified_at: Nanos,
    to_verify: Vec<CgroupDir>,
}

/// Below this a difference to the file is a charge that one side has seen and the other not yet.
const TOLERANCE: u64 = 1_000_000;

impl EbpfCpuTime {
    /// Takes the attached map over and scans the tree: the order that counts every nanosecond once.
    pub fn new(sources: UsageSources, pace: Pace) -> Self {
        let stats = Arc::new(UsageStats::default());
        let capacity = sources.table.capacity();
        stats.set(Count::SlotCapacity, capacity);
        let on_files = FileCpuTime::new(sources.files.clone(), capacity);
        let mut new = Self {
            sources,
            accounts: Accounts::default(),
            readings: Vec::new(),
            buffer: ReadBuffer::default(),
            pace,
            stats,
            on_files,
            by_file: Vec::new(),
            refusals: 0,
            refused_at: Nanos(0),
            strangers_since: None,
            verified_at: Nanos(0),
            to_verify: Vec::new(),
        };
        new.rescan(monotonic());
        new
    }

    /// Counters for metrics and tests.
    pub fn stats(&self) -> Arc<UsageStats> {
        self.stats.clone()
    }

    /// Compares a directory with its file, between two reads of it; a difference is corrected and counted.
    /// Gives the nanoseconds by which the figure was corrected; `None` if the directory is gone.
    pub fn verify(&mut self, dir: &CgroupDir) -> Option<i128> {
        let file = self.sources.files.open(dir)?;
        let id = self.accounts.id(dir).filter(|id| *id == file.id)?;
        let mut correction = 0;
        // A charge may land between the two sides: only what is seen twice is a difference.
        for _ in 0..2 {
            let low = self.sources.files.read(&file, &mut self.buffer)?.0;
            self.fold();
            let figure = self.accounts.figure(id)?;
            let high = self.sources.files.read(&file, &mut self.buffer)?.0;
            if figure.saturating_add(TOLERANCE) >= low && figure <= high.saturating_add(TOLERANCE) {
                return Some(0);
            }
            correction = i128::from(figure.clamp(low, high)) - i128::from(figure);
        }
        let corrected = i128::from(self.accounts.figure(id)?) + correction;
        self.accounts.set_base(id, u64::try_from(corrected).unwrap_or(0));
        self.stats.drifted(correction);
        tracing::debug!(%dir, nanos = %correction, "CPU time corrected by the cgroup's file");
        Some(correction)
    }

    fn fold(&mut self) {
        self.sources.table.read(&mut self.readings);
        self.accounts.fold(&self.readings);
    }

    /// Walks the tree: unheard births are adopted, unheard deaths noted.
    fn rescan(&mut self, now: Nanos) {
        self.stats.add(Count::Rescans);
        let found = match self.sources.tree.walk() {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the cgroup tree could not be walked: CPU time of new groups may lack");
                return;
            }
        };
        let alive: HashSet<u64> = found.iter().map(|(_, id)| *id).collect();
        let dead: Vec<u64> =
            self.accounts.live_groups().map(|(id, _)| id).filter(|id| !alive.contains(id)).collect();
        for id in dead {
            self.accounts.died(id, now);
        }
        let new: Vec<CgroupDir> = found
            .into_iter()
            .filter_map(|(dir, id)| self.accounts.adopt(id, &dir, now).then_some(dir))
            .collect();
        self.rebase(&new);
        if self.sources.tree.is_whole() {
            for id in self.accounts.strangers().to_vec() {
                if !alive.contains(&id) {
                    self.accounts.bury_stranger(id, now);
                }
            }
        }
    }

    /// Sets the figures of `dirs` to what their files say now.
    fn rebase(&mut self, dirs: &[CgroupDir]) {
        for dir in dirs {
            let Some(file) = self.sources.files.open(dir) else { continue };
            if self.accounts.id(dir) == Some(file.id) {
                self.rebase_one(&file);
            }
        }
    }

    fn rebase_one(&mut self, file: &UsageFile) {
        // Read again if a charge landed meanwhile; a group that runs on many CPUs never holds still.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            self.fold();
            let before = self.accounts.figure(file.id);
            let Some(read) = self.sources.files.read(file, &mut self.buffer) else { return };
            self.fold();
            let quiet = self.accounts.figure(file.id) == before;
            self.accounts.set_base(file.id, read.0);
            if quiet {
                return;
            }
        }
    }

    fn hear(&mut self, now: Nanos) {
        let pending = self.sources.feed.take();
        for event in pending.events {
            match event {
                UsageEvent::Born { id, dir } => self.accounts.born(id, dir, now),
                UsageEvent::Died { id } => self.accounts.died(id, now),
            }
        }
        self.fold();
        if pending.lost {
            self.rescan(now);
        }
    }

    /// Gives the slots of the dead back, in two steps.
    fn reap(&mut self, now: Nanos) {
        for id in self.accounts.to_forget(now, nanos(self.pace.dead)) {
            if self.sources.table.forget(id) {
                self.accounts.forgotten(id, now);
            }
        }
        for id in self.accounts.to_bury(now, nanos(self.pace.forgotten)) {
            // Charged once more since: its new slot has to wait as well.
            if self.sources.table.knows(id) {
                if self.sources.table.forget(id) {
                    self.accounts.forgotten(id, now);
                }
                continue;
            }
            for slot in self.accounts.bury(id) {
                self.sources.table.release(slot);
            }
            self.stats.add(Count::Buried);
        }
    }

    /// Slots whose owner stays unknown: their births were missed, or they were charged after their burial.
    fn look_for_strangers(&mut self, now: Nanos) {
        if self.accounts.strangers().is_empty() {
            self.strangers_since = None;
            return;
        }
        let since = *self.strangers_since.get_or_insert(now);
        if now - since >= nanos(self.pace.stranger) {
            self.strangers_since = None;
            self.rescan(now);
        }
    }

    /// Puts pods on files whose groups the map has no room for, and takes them back later.
    fn look_for_refusals(&mut self, now: Nanos) {
        let refusals = self.sources.losses.count(Loss::SlotsFull);
        if refusals != self.refusals {
            (self.refusals, self.refused_at) = (refusals, now);
            self.put_on_files();
        } else if !self.by_file.is_empty() && now - self.refused_at >= nanos(self.pace.full) {
            let dirs = std::mem::take(&mut self.by_file);
            self.accounts.set_by_file(&dirs, false);
            self.rebase(&dirs);
        }
        self.keep_pods_whole();
        self.on_files.sample();
        for dir in &self.by_file {
            if let Some(total) = self.on_files.total(dir) {
                self.accounts.set_file(dir, total.0);
            }
        }
        self.stats.set(Count::DirsOnFiles, self.by_file.len());
    }

    /// Drops what is gone from the directories on files, and takes in what was born in their pods.
    fn keep_pods_whole(&mut self) {
        if self.by_file.is_empty() {
            return;
        }
        self.by_file.retain(|dir| self.accounts.is_by_file(dir));
        let born: Vec<CgroupDir> = self
            .accounts
            .live_groups()
            .map(|(_, dir)| dir)
            .filter(|dir| !self.accounts.is_by_file(dir))
            .filter(|dir| pod_of(dir).is_some_and(|pod| self.accounts.is_by_file(&pod)))
            .cloned()
            .collect();
        self.accounts.set_by_file(&born, true);
        self.by_file.extend(born);
    }

    /// A pod goes on files as a whole: a mixture of counted groups and files would count some time twice.
    fn put_on_files(&mut self) {
        let units: Vec<CgroupDir> = self
            .accounts
            .live_groups()
            .map(|(_, dir)| dir)
            .filter(|dir| !self.accounts.is_by_file(dir))
            .filter(|dir| pod_of(dir).is_none_or(|pod| pod == **dir))
            .cloned()
            .collect();
        let mut dirs = HashSet::new();
        for unit in units {
            if !self.lags(&unit) {
                continue;
            }
            if names_a_pod(unit.name()) {
                let inside = self.accounts.live_groups().map(|(_, dir)| dir).filter(|dir| unit.contains(dir));
                dirs.extend(inside.cloned());
            }
            dirs.extend(std::iter::successors(Some(unit), CgroupDir::parent));
        }
        let dirs: Vec<CgroupDir> = dirs.into_iter().filter(|dir| self.accounts.id(dir).is_some()).collect();
        if !dirs.is_empty() {
            tracing::warn!(
                directories = dirs.len(),
                "the usage map is full: CPU time of some pods comes from files"
            );
            self.accounts.set_by_file(&dirs, true);
            self.by_file.extend(dirs);
        }
    }

    /// Whether the file is ahead of the figure.
    fn lags(&mut self, dir: &CgroupDir) -> bool {
        let Some(file) = self.sources.files.open(dir) else { return false };
        let read = self.sources.files.read(&file, &mut self.buffer);
        let figure = self.accounts.figure(file.id);
        figure.zip(read).is_some_and(|(figure, read)| figure.saturating_add(TOLERANCE) < read.0)
    }

    fn verify_next(&mut self, now: Nanos) {
        if now - self.verified_at < nanos(self.pace.verify) {
            return;
        }
        self.verified_at = now;
        if self.to_verify.is_empty() {
            self.to_verify = self.accounts.live_groups().map(|(_, dir)| dir.clone()).collect();
        }
        if let Some(dir) = self.to_verify.pop()
            && !self.accounts.is_by_file(&dir)
        {
            self.verify(&dir);
        }
    }
}

impl CpuTime for EbpfCpuTime {
    fn sample(&mut self) {
        let now = monotonic();
        self.hear(now);
        self.reap(now);
        self.look_for_strangers(now);
        self.look_for_refusals(now);
        self.verify_next(now);
        self.stats.set(Count::SlotsUsed, self.readings.len());
    }

    fn reading(&mut self, dir: &CgroupDir) -> Option<CpuReading> {
        self.accounts.reading(dir)
    }

    fn reading_at(&mut self, dir: &CgroupDir, place: &mut CpuPlace) -> Option<CpuReading> {
        self.accounts.reading_at(dir, place)
    }
}

fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// `CLOCK_MONOTONIC`.
fn monotonic() -> Nanos {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(Nanos(0), |now| nanos(Duration::from(now)))
}
