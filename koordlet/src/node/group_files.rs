//! The round of group files: memory, throttling and NUMA memory of pods, containers and host applications
//! (collection.md 6.3, 6.5, 6.7, 6.11), each read from a file of the group -> `GroupStats`.
//!
//! A group's memory hardly moves while no task of it runs, and reading it makes the kernel sum up its
//! per-CPU figures. So an idle group's files are read every 15 s, spread over that time, and its last figures
//! stand in between. Its throttling cannot change at all meanwhile: the ratio is 0 without a look.

use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::Arc;

use super::follower::Follow;
use super::held_stats::{GroupFileError, HeldStat, StatReader};
use super::history::History;
use super::round_log::RoundResult;
use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::path_hash::PathHash;
use crate::cgroup::read::{StatError, Throttling};
use crate::cgroup::resource::Resource;
use crate::state::facts::Facts;
use crate::state::group_stats::{GroupStat, GroupStats, MemoryUse};
use crate::state::groups::{Group, GroupKind, GroupList, PerGroup};
use crate::state::usage::{GroupUsage, Usage};
use crate::units::{Bytes, Nanos};

/// Longest age of an idle group's figures.
const IDLE_PERIOD: Nanos = Nanos(15_000_000_000);

/// Samples that a busy group's throttling is not looked at after it had no period: it has no limit then, and one
/// that it gets is seen so much later.
const WITHOUT_LIMIT: u32 = 4;

/// The step of the follower.
#[derive(Debug)]
pub struct GroupFiles {
    reader: StatReader,
    facts: Facts,
    history: History,
    list: Arc<GroupList>,
    /// As many as the list has groups, in its order.
    members: Vec<Member>,
    started: u64,
}

/// What is remembered of one group.
#[derive(Debug, Default)]
struct Member {
    identity: Option<u64>,
    /// Its CPU time when its files were looked at last.
    total: Option<Nanos>,
    /// When its files are read again even if nothing ran; `None` before the first time.
    due: Option<Nanos>,
    files: Files,
    throttling: Option<Throttling>,
    /// Samples for which throttling need not be looked at.
    unthrottled: u32,
    numa_memory: Option<BTreeMap<u32, Bytes>>,
    stat: GroupStat,
    /// Its file by NUMA node is not there, or tells nothing of all beneath it.
    lacks_lists: bool,
    failing: bool,
}

#[derive(Debug, Default)]
struct Files {
    memory_stat: HeldStat,
    memory_usage: HeldStat,
    cpu_stat: HeldStat,
    numa_stat: HeldStat,
}

/// What each visit needs.
struct Round<'a> {
    reader: &'a mut StatReader,
    now: Nanos,
    with_numa: bool,
    /// Whether `memory.numa_stat` is the cheaper file.
    with_lists: bool,
    /// Groups seen for the first time so far: their next readings are spread over the period.
    started: &'a mut u64,
}

impl GroupFiles {
    /// For the groups of `layout`; publishes to `facts.groups`.
    pub fn new(layout: Arc<Layout>, facts: Facts, history: History) -> Self {
        let (list, members) = (Arc::default(), Vec::new());
        Self { reader: StatReader::new(layout), facts, history, list, members, started: 0 }
    }

    fn read(&mut self, usage: &Usage) -> GroupStats {
        self.adopt(usage.groups.list());
        let with_numa = self.facts.numa.get().is_some_and(|numa| numa.numa_infos.len() > 1);
        let Self { reader, members, list, started, .. } = self;
        reader.begin();
        let mut round = Round {
            with_lists: reader.layout().has_memory_lists(),
            reader,
            now: usage.at,
            with_numa,
            started,
        };
        let mut visits = usage.groups.iter().zip(members.iter_mut());
        let groups = PerGroup::new(Arc::clone(list), |_| {
            visits
                .next()
                .map(|((group, usage), member)| member.visit(&mut round, group, usage))
                .unwrap_or_default()
        });
        self.reader.end(self.members.iter_mut().flat_map(|member| member.files.all()));
        GroupStats { at: usage.at, groups, pods_numa_memory: self.pods_numa_memory(with_numa) }
    }

    /// Makes the members those of another list; what is known of groups that are in both stays.
    fn adopt(&mut self, list: &Arc<GroupList>) {
        if Arc::ptr_eq(&self.list, list) {
            return;
        }
        let former = self.list.as_slice().iter().map(|group| group.dir.clone());
        let mut former: HashMap<CgroupDir, Member, PathHash> = former.zip(self.members.drain(..)).collect();
        let member = |group: &Group| former.remove(&group.dir).unwrap_or_default();
        self.members = list.as_slice().iter().map(member).collect();
        self.list = Arc::clone(list);
    }

    /// Sum over pods by NUMA node; `None` if no pod's is known.
    fn pods_numa_memory(&self, with_numa: bool) -> Option<BTreeMap<u32, Bytes>> {
        let mut known = self.members.iter().filter_map(|member| member.numa_memory.as_ref()).peekable();
        known.peek().filter(|_| with_numa)?;
        let mut sums = BTreeMap::new();
        for (node, bytes) in known.flatten() {
            let sum: &mut Bytes = sums.entry(*node).or_default();
            *sum = *sum + *bytes;
        }
        Some(sums)
    }
}

impl Follow for GroupFiles {
    fn name(&self) -> &'static str {
        "group-files"
    }

    fn follow(&mut self, usage: &Usage) -> RoundResult {
        let stats = self.read(usage);
        self.history.groups(&stats);
        self.facts.groups.set(stats);
        Ok(())
    }
}

impl Member {
    fn visit(&mut self, round: &mut Round<'_>, group: &Group, usage: &GroupUsage) -> GroupStat {
        let is_another = self.identity.zip(usage.identity).is_some_and(|(former, now)| former != now);
        if is_another || usage.total.is_none() {
            *self = Self::default();
        }
        let Some(total) = usage.total else { return GroupStat::default() };
        self.identity = usage.identity.or(self.identity);
        let ran = self.total.replace(total) != Some(total);
        if !ran {
            self.stat.throttled = self.throttling.map(|_| 0.0);
        }
        if ran || self.due.is_none_or(|due| round.now >= due) {
            let wait = if self.due.is_none() { round.first_wait() } else { IDLE_PERIOD };
            self.due = Some(round.now + wait);
            let memory = self.read_memory(round, group);
            let can_throttle = group.kind != GroupKind::HostApp;
            let throttling = if ran && can_throttle { self.read_throttling(round, group) } else { Ok(()) };
            self.tell(group, memory.and(throttling));
        }
        self.stat
    }

    fn read_memory(&mut self, round: &mut Round<'_>, group: &Group) -> Result<(), GroupFileError> {
        (self.stat.memory, self.numa_memory) = (None, None);
        let mut memory = self.read_lists(round, group)?;
        if memory.is_none() {
            memory = self.read_stat(round, group)?;
            // Not even that file: the group is not whole yet, or no longer.
            self.lacks_lists = memory.is_some();
        }
        let Some(mut memory) = memory else { return Ok(()) };
        if group.kind == GroupKind::HostApp {
            // collection.md 6.5: all that is charged to it.
            let file = &mut self.files.memory_usage;
            let charged =
                round.reader.read(file, &group.dir, Resource::MemoryUsage, Layout::parse_memory_usage)?;
            let Some(charged) = charged else { return Ok(()) };
            memory.with_page_cache = charged;
        }
        self.stat.memory = Some(memory);
        Ok(())
    }

    fn read_stat(
        &mut self,
        round: &mut Round<'_>,
        group: &Group,
    ) -> Result<Option<MemoryUse>, GroupFileError> {
        let file = &mut self.files.memory_stat;
        let read = round.reader.read(file, &group.dir, Resource::MemoryStat, Layout::parse_memory_stat)?;
        Ok(read.map(|stat| MemoryUse {
            without_page_cache: stat.without_page_cache(),
            with_page_cache: stat.with_page_cache(),
        }))
    }

    /// From the file by NUMA node: the memory of the group where that is the cheaper file, and of a pod that of
    /// each node where there are more of them.
    fn read_lists(
        &mut self,
        round: &mut Round<'_>,
        group: &Group,
    ) -> Result<Option<MemoryUse>, GroupFileError> {
        let with_numa = round.with_numa && group.kind == GroupKind::Pod;
        if !with_numa && (!round.with_lists || self.lacks_lists) {
            return Ok(None);
        }
        let parse = |layout: &Layout, text: &str| {
            let numa = with_numa.then(|| layout.parse_numa_memory(text)).transpose()?;
            let lists = if round.with_lists { layout.parse_memory_lists(text)? } else { None };
            Ok((numa, lists))
        };
        let file = &mut self.files.numa_stat;
        let read = round.reader.read(file, &group.dir, Resource::MemoryNumaStat, parse)?;
        let (numa, lists) = read.unwrap_or_default();
        self.numa_memory = numa;
        Ok(lists.map(|lists| MemoryUse {
            without_page_cache: lists.without_page_cache(),
            with_page_cache: lists.with_page_cache(),
        }))
    }

    /// collection.md 6.7. A group's first reading only tells where it starts from.
    fn read_throttling(&mut self, round: &mut Round<'_>, group: &Group) -> Result<(), GroupFileError> {
        if let Some(fewer) = self.unthrottled.checked_sub(1) {
            self.unthrottled = fewer;
            return Ok(());
        }
        self.stat.throttled = None;
        let earlier = self.throttling.take();
        self.throttling =
            round.reader.read(&mut self.files.cpu_stat, &group.dir, Resource::CpuStat, throttling)?.flatten();
        let pair = earlier.zip(self.throttling);
        self.stat.throttled = pair.and_then(|(from, to)| to.ratio_since(&from));
        if pair.is_some_and(|(from, to)| from.periods == to.periods) {
            self.unthrottled = WITHOUT_LIMIT;
        }
        Ok(())
    }

    /// Logs a failure, once until it is over.
    fn tell(&mut self, group: &Group, read: Result<(), GroupFileError>) {
        let failed = read.is_err();
        if let Err(error) = read
            && !self.failing
        {
            tracing::warn!(dir = %group.dir, error = &error as &dyn Error, "figures of a group are not known");
        }
        self.failing = failed;
    }
}

impl Files {
    fn all(&mut self) -> [&mut HeldStat; 4] {
        let Self { memory_stat, memory_usage, cpu_stat, numa_stat } = self;
        [memory_stat, memory_usage, cpu_stat, numa_stat]
    }
}

impl Round<'_> {
    /// 1 to 15 s in turn.
    fn first_wait(&mut self) -> Nanos {
        *self.started = self.started.wrapping_add(1);
        Nanos(IDLE_PERIOD.0 / 15 * (*self.started % 15 + 1))
    }
}

/// `None` where the controller is off: the file has only CPU time then (H10).
fn throttling(layout: &Layout, text: &str) -> Result<Option<Throttling>, StatError> {
    match layout.parse_throttling(text) {
        Err(StatError::Missing { .. }) => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests;
