//! What is remembered of each pod, container and host application from one tick to the next: its last readings of
//! CPU time -> its use.
//!
//! A group is its directory and, where the source of CPU time knows it, the cgroup's id: a static pod comes
//! back under the same path, and its counters start anew. The list of groups is made anew only when pods or
//! applications are other ones, so that a tick copies no name.

use std::collections::HashMap;
use std::sync::Arc;

use super::rate::{self, Reading, Recent};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::path_hash::PathHash;
use crate::state::groups::{Group, GroupKind, GroupList, HostAppDir, PerGroup};
use crate::state::pods::PodTable;
use crate::state::usage::{CpuPlace, CpuReading, CpuTime, GroupUsage};
use crate::units::Nanos;

/// All groups.
#[derive(Debug)]
pub(super) struct Groups {
    list: Arc<GroupList>,
    /// What the list was made from.
    pods: Arc<PodTable>,
    host_apps: Vec<HostAppDir>,
    /// As many as the list has groups, in its order.
    states: Vec<State>,
    last_tick: Option<Nanos>,
    cpus: u32,
    odd: u64,
}

/// What is remembered of one group.
#[derive(Debug, Default)]
struct State {
    place: CpuPlace,
    identity: Option<u64>,
    last: Option<Reading>,
    recent: Recent,
    recent_identity: Option<u64>,
}

impl Groups {
    /// For a machine of `cpus` CPUs.
    pub(super) fn new(cpus: u32) -> Self {
        Self {
            list: Arc::default(),
            pods: Arc::default(),
            host_apps: Vec::new(),
            states: Vec::new(),
            last_tick: None,
            cpus,
            odd: 0,
        }
    }

    /// Makes the list that of these pods and applications.
    pub(super) fn follow(&mut self, pods: &Arc<PodTable>, host_apps: &[HostAppDir]) {
        if Arc::ptr_eq(&self.pods, pods) && self.host_apps == host_apps {
            return;
        }
        self.pods = Arc::clone(pods);
        self.host_apps = host_apps.to_vec();
        let list = GroupList::of(pods, host_apps);
        if list == *self.list {
            return;
        }
        let former = self.list.as_slice().iter().map(|group| group.dir.clone());
        let mut former: HashMap<CgroupDir, State, PathHash> = former.zip(self.states.drain(..)).collect();
        let state = |group: &Group| former.remove(&group.dir).unwrap_or_default();
        self.states = list.as_slice().iter().map(state).collect();
        self.list = Arc::new(list);
    }

    /// Pairs of readings that could not be right, since the start.
    pub(super) fn odd(&self) -> u64 {
        self.odd
    }

    /// The use of each group since the last tick.
    pub(super) fn tick(&mut self, cpu_time: &mut dyn CpuTime, now: Nanos) -> PerGroup<GroupUsage> {
        let Self { list, states, last_tick, cpus, odd, .. } = self;
        let last_tick = last_tick.replace(now);
        let mut states = states.iter_mut();
        PerGroup::new(Arc::clone(list), |group| {
            let Some(state) = states.next() else { return GroupUsage::default() };
            let Some(reading) = cpu_time.reading_at(&group.dir, &mut state.place) else {
                *state = State::default();
                return GroupUsage::default();
            };
            state.advance(reading, now, last_tick, *cpus, odd)
        })
    }

    /// The use of pods and host applications over about 200 ms.
    pub(super) fn look(&mut self, cpu_time: &mut dyn CpuTime, now: Nanos) -> PerGroup<GroupUsage> {
        let Self { list, states, cpus, .. } = self;
        let mut states = states.iter_mut();
        PerGroup::new(Arc::clone(list), |group| {
            let looked_at = states.next().filter(|_| group.kind != GroupKind::Container);
            let reading =
                looked_at.and_then(|state| Some((cpu_time.reading_at(&group.dir, &mut state.place)?, state)));
            reading.map(|(reading, state)| state.look(reading, now, *cpus)).unwrap_or_default()
        })
    }
}

impl State {
    fn advance(
        &mut self,
        reading: CpuReading,
        now: Nanos,
        last_tick: Option<Nanos>,
        cpus: u32,
        odd: &mut u64,
    ) -> GroupUsage {
        let CpuReading { total, identity, born } = reading;
        let is_another = differ(identity, self.identity);
        if is_another {
            *self = Self::default();
        }
        self.identity = identity.or(self.identity);
        let to = Reading { at: now, total };
        let from = self.last.replace(to);
        let cpu = from.and_then(|from| rate::between(from, to, cpus));
        if from.is_some() && cpu.is_none() {
            *odd = odd.saturating_add(1);
        }
        // Its path was another's, or nobody's, at the last tick: it has used nothing before.
        let born_since = |tick: Nanos| is_another || born.is_some_and(|born| born > tick);
        let birth = last_tick.filter(|tick| from.is_none() && born_since(*tick));
        let since_birth = birth.and_then(|at| rate::between(Reading { at, total: Nanos(0) }, to, cpus));
        GroupUsage { cpu, of_node: cpu.or(since_birth), total: Some(total), identity: self.identity }
    }

    fn look(&mut self, reading: CpuReading, now: Nanos, cpus: u32) -> GroupUsage {
        let CpuReading { total, identity, born: _ } = reading;
        if differ(identity, self.recent_identity) {
            self.recent = Recent::default();
        }
        self.recent_identity = identity.or(self.recent_identity);
        self.recent.push(Reading { at: now, total });
        let cpu = self.recent.usage(cpus);
        GroupUsage { cpu, of_node: cpu, total: Some(total), identity: self.recent_identity }
    }
}

/// Whether both are known and not the same.
fn differ(a: Option<u64>, b: Option<u64>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a != b)
}
