//! CPU burst, qos.md 5.4: containers of latency-sensitive pods may go above their CPU limit for a while. Two ways, by
//! policy: a budget that the kernel keeps (`static_burst`), and a quota that is raised while the container is throttled
//! and the CPUs that pods share have room (`quota`, `limiter`, `node_state`).
//!
//! Pure: all of it is claims. A quota at its base is not claimed, so that nothing here stands against a rule, and
//! switching off needs no code: what is not claimed any more goes back to what rules or the pod's spec yield.
//!
//! Missing figures neither freeze a raised quota for ever nor let go of it at once: see [`quota::BLIND_TICKS`].

mod claims;
pub mod limiter;
mod members;
pub mod node_state;
pub mod quota;
pub mod static_burst;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use members::{Base, Member, Members};
use node_state::{NodeState, SharePool};
use quota::{BLIND_TICKS, ContainerState, Seen};

use super::strategy::{Strategy, StrategyNotice, TickInput};
use crate::cgroup::path::CgroupDir;
use crate::claims::claim::{Claims, Owner};
use crate::state::scaled::ScaledContainer;
use crate::state::series::key::SeriesKey;
use crate::state::series::metric::Metric;
use crate::state::series::shared::SharedSeries;
use crate::units::Nanos;

/// Longest window over which the use of the node is looked at.
const LONGEST_WINDOW: Nanos = Nanos(10_000_000_000);

/// How burst is paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstSettings {
    /// Time between ticks.
    pub interval: Nanos,
    /// Time between samples; of a container the newest one of the last two of these counts.
    pub collect_interval: Nanos,
    /// Where the chance of new buckets comes from.
    pub seed: u64,
}

impl BurstSettings {
    /// The window of the node's use.
    fn window(&self) -> Nanos {
        Nanos(self.interval.0.saturating_mul(5)).min(LONGEST_WINDOW)
    }

    /// A number from 0 to 1 that is another one for each container and each start of the agent.
    fn chance(&self, id: &str) -> f64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, id).hash(&mut hasher);
        (hasher.finish() >> 32) as f64 / f64::from(u32::MAX)
    }
}

/// What burst remembers from tick to tick: a plain value that can be recorded and replayed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BurstState {
    /// Containers whose quota may be raised, by full id.
    pub containers: BTreeMap<String, ContainerState>,
    /// Ticks in a row without a verdict on the shared CPUs.
    pub blind: u32,
}

/// The strategy.
#[derive(Debug)]
pub struct CpuBurst {
    settings: BurstSettings,
    members: Members,
    /// Quotas that the kernel held when the agent started.
    present: BTreeMap<CgroupDir, i64>,
    state: BurstState,
    claims: Claims,
    scaled: Arc<Vec<ScaledContainer>>,
    decided: bool,
}

impl CpuBurst {
    /// A starting strategy; `present` are the quotas of containers that the kernel holds, in microseconds per 100 ms.
    /// Those above the container's limit are bursts, which go on from there (qos.md 5.9).
    pub fn new(settings: BurstSettings, present: BTreeMap<CgroupDir, i64>) -> Self {
        Self {
            settings,
            members: Members::default(),
            present,
            state: BurstState::default(),
            claims: Claims::default(),
            scaled: Arc::default(),
            decided: false,
        }
    }

    /// Goes on from a recorded state.
    #[must_use]
    pub fn with_state(self, state: BurstState) -> Self {
        Self { state, ..self }
    }

    /// What is remembered.
    pub fn state(&self) -> &BurstState {
        &self.state
    }

    /// How busy the shared CPUs are.
    fn node_state(&self, input: &TickInput<'_>) -> NodeState {
        let from = Nanos(input.now.0.saturating_sub(self.settings.window().0));
        let mean = |key: &SeriesKey| input.series.query_one(key, from, input.now).avg;
        let of_pod = |uid| mean(&SeriesKey::pod(Metric::PodCpuUsage, uid));
        let topology = input.snapshot.topology.as_ref();
        let pool = SharePool {
            cpus: topology.map(|topology| topology.cpus.len()).filter(|cpus| *cpus > 0),
            requests_apart: self.members.requests_apart,
            node_use: mean(&SeriesKey::node(Metric::NodeCpuUsage)),
            use_apart: self.members.apart.iter().filter_map(of_pod).sum(),
            threshold: input.snapshot.slo.burst.share_pool_threshold,
        };
        pool.state()
    }

    /// Forgets containers that are gone, and takes up new ones.
    fn take_up(&mut self) {
        let mut before = std::mem::take(&mut self.state.containers);
        for member in &self.members.list {
            let Some(base) = member.base else { continue };
            let state = before.remove(&*member.id).unwrap_or_else(|| {
                let present = self.present.get(&member.dir).filter(|quota| is_burst(**quota, member, base));
                ContainerState::new(present.copied().unwrap_or(base.quota), base.quota)
            });
            self.state.containers.insert(member.id.to_string(), state);
        }
        // What starts later has what its runtime gave it.
        self.present.clear();
    }

    /// One tick of all containers. Whether a quota is another one.
    fn step(&mut self, node: NodeState, input: &TickInput<'_>) -> bool {
        let Self { settings, members, state, .. } = self;
        let mut changed = false;
        for member in &members.list {
            let (Some(base), Some(state)) = (member.base, state.containers.get_mut(&*member.id)) else {
                continue;
            };
            if !member.runs {
                continue;
            }
            let before = (state.quota, state.base, state.cause);
            let seen = seen(member, base, node, input.series, settings, input.now);
            state.step(&member.policy, &seen, settings.chance(&member.id), input.now);
            changed |= before != (state.quota, state.base, state.cause);
        }
        changed
    }

    fn tell(&self, notices: &mut Vec<StrategyNotice>) {
        let mut tell = |text: String| notices.push(StrategyNotice { owner: Owner::CpuBurst, text });
        self.members.refused.iter().for_each(|text| tell(text.clone()));
        let raises = |member: &&Member| member.base.is_some() && member.policy.policy.raises_quota();
        if self.state.blind >= BLIND_TICKS && self.members.list.iter().any(|member| raises(&member)) {
            tell(format!(
                "no figures of the node's CPU use for {BLIND_TICKS} ticks: raised quotas go down to their base"
            ));
            return;
        }
        let is_blind = |member: &&Member| {
            let state = self.state.containers.get(&*member.id);
            state.is_some_and(|state| state.blind >= BLIND_TICKS && state.was_raised())
        };
        // One line however many there are.
        if let Some(member) = self.members.list.iter().filter(raises).find(is_blind) {
            let meta = &member.pod.pod.metadata;
            tell(format!(
                "no figures of throttling for {BLIND_TICKS} ticks, e.g. of container {} of pod {}/{}: where it is \
                 so, a raised quota goes down to its base",
                member.name, meta.namespace, meta.name
            ));
        }
    }

    fn scaled_containers(&self) -> Vec<ScaledContainer> {
        let scaled = |member: &Member| {
            let raises = member.policy.policy.raises_quota();
            let state = self.state.containers.get(&*member.id).filter(|_| raises);
            ScaledContainer {
                namespace: member.pod.pod.metadata.namespace.clone(),
                pod: member.pod.pod.metadata.name.clone(),
                container: member.name.clone(),
                id: Arc::clone(&member.id),
                quota_us: state.map(|state| state.quota),
                burst_us: claims::budget(member),
            }
        };
        self.members.list.iter().map(scaled).collect()
    }
}

impl Strategy for CpuBurst {
    fn owner(&self) -> Owner {
        Owner::CpuBurst
    }

    fn tick(&mut self, input: &TickInput<'_>, notices: &mut Vec<StrategyNotice>) -> bool {
        if !input.snapshot.pods.synced || !input.snapshot.slo.synced {
            return false;
        }
        let is_first = !std::mem::replace(&mut self.decided, true);
        let mut changed = self.members.follow(input);
        if changed {
            self.take_up();
        }
        if !self.members.list.is_empty() {
            let node = self.node_state(input);
            self.state.blind =
                if node == NodeState::Unknown { self.state.blind.saturating_add(1) } else { 0 };
            changed |= self.step(node, input);
        }
        self.tell(notices);
        if !changed {
            return is_first;
        }
        let claims = claims::claims(&self.members.list, &self.state.containers);
        self.scaled = Arc::new(self.scaled_containers());
        let differs = claims != self.claims;
        self.claims = claims;
        differs || is_first
    }

    fn claims(&self) -> &Claims {
        &self.claims
    }

    fn has_decided(&self) -> bool {
        self.decided
    }

    fn scaled(&self) -> Option<&Arc<Vec<ScaledContainer>>> {
        Some(&self.scaled)
    }
}

/// Whether a quota that the kernel held at start is a burst: above the base, and above what the runtime wrote.
fn is_burst(quota: i64, member: &Member, base: Base) -> bool {
    quota > base.quota && quota > member.limit.0.saturating_mul(100)
}

/// The newest figures of a container that count, qos.md 4.2.
fn seen(
    member: &Member,
    base: Base,
    node: NodeState,
    series: &SharedSeries,
    settings: &BurstSettings,
    now: Nanos,
) -> Seen {
    let from = Nanos(now.0.saturating_sub(settings.collect_interval.0.saturating_mul(2)));
    let newest =
        |metric| series.newest(&SeriesKey::container(metric, &member.id), from, now).map(|(_, value)| value);
    // Only the limiter asks for the use.
    let is_limited = member.policy.cfs_quota_burst_period_seconds >= 0;
    Seen {
        base: base.quota,
        limit_cores: member.limit_cores(base),
        throttled: newest(Metric::ContainerCpuThrottled),
        used: is_limited.then(|| newest(Metric::ContainerCpuUsage)).flatten(),
        node,
    }
}
