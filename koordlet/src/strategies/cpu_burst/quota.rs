//! The quota of one container from tick to tick: up while it is throttled, down while there is no room, never below
//! the base that rules or the pod's spec yield, never above a share of it (qos.md 5.4).

use serde::{Deserialize, Serialize};

use super::limiter::{self, Bucket};
use super::node_state::NodeState;
use crate::state::slo::burst::CpuBurst;
use crate::units::{Nanos, Percent};

/// Ticks in a row without a figure after which a raised quota goes down to its base, step by step.
///
/// The reference keeps a raised quota for as long as it sees nothing: a container that was bursting when the samples
/// stopped would burst for ever, also where that hurts its neighbours. Less than this is no reason to act: with ticks
/// of a second a figure counts for two of them, and for ten a collector may be held up by a busy node, which is
/// when bursts matter most. Going down by steps of a fifth leaves no cliff (C126), and the base is what the container
/// would have without this strategy.
pub const BLIND_TICKS: u32 = 10;

/// What happens to a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Back to the base at once.
    Reset,
    /// A fifth less.
    Down,
    /// As it is.
    Keep,
    /// A fifth more.
    Up,
}

/// Why a quota is what it is: what last changed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// It was so when the agent started.
    #[default]
    Found,
    /// The container was throttled and there was room.
    Throttled,
    /// The shared CPUs are busy.
    Overload,
    /// The container has burst for as long as it may.
    UsedUp,
    /// There were no figures for too long.
    Blind,
    /// Base or ceiling are others.
    Bounds,
}

/// What is remembered of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerState {
    /// The quota in force, in microseconds per 100 ms.
    pub quota: i64,
    /// The base that it was computed for.
    pub base: i64,
    /// Why.
    pub cause: Cause,
    /// How long it may burst; `None` where that is for ever or never.
    pub bucket: Option<Bucket>,
    /// Ticks in a row without a figure.
    pub blind: u32,
}

/// What a tick sees of a container that runs.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its base quota.
    pub base: i64,
    /// Its CPU limit in cores.
    pub limit_cores: f64,
    /// Share of its periods in which it was throttled lately.
    pub throttled: Option<f64>,
    /// Its use in cores.
    pub used: Option<f64>,
    /// How busy the shared CPUs are.
    pub node: NodeState,
}

impl ContainerState {
    /// A container whose quota is `quota`.
    pub fn new(quota: i64, base: i64) -> Self {
        Self { quota, base, cause: Cause::default(), bucket: None, blind: 0 }
    }

    /// Whether its quota is above the base, or has come down from there for want of figures.
    pub fn was_raised(&self) -> bool {
        self.quota > self.base || self.cause == Cause::Blind
    }

    /// One tick, qos.md 5.4. `chance` (0 to 1) fills a new bucket.
    pub fn step(&mut self, policy: &CpuBurst, seen: &Seen, chance: f64, now: Nanos) {
        let allowed = self.count(policy, seen, chance, now);
        let is_blind = seen.throttled.is_none() || seen.node == NodeState::Unknown;
        self.blind = if is_blind { self.blind.saturating_add(1) } else { 0 };
        self.follow_base(seen.base);
        let (operation, cause) = self.operation(policy, allowed, seen);
        let ceiling = ceiling(seen.base, policy.cfs_quota_burst);
        let target = target(operation, self.quota, seen.base, ceiling);
        if target != self.quota {
            let by_bounds = operation == Operation::Keep;
            self.cause = if by_bounds { Cause::Bounds } else { cause };
            self.quota = target;
        }
    }

    /// Counts the limiter. Whether the container may stay above its limit.
    fn count(&mut self, policy: &CpuBurst, seen: &Seen, chance: f64, now: Nanos) -> bool {
        let (period, percent) = (policy.cfs_quota_burst_period_seconds, policy.cfs_quota_burst);
        if period < 0 || percent < Percent(100) {
            self.bucket = None;
            return period < 0;
        }
        let capacity = limiter::capacity(period, percent);
        let bucket = match &mut self.bucket {
            Some(bucket) if bucket.capacity() == capacity => bucket,
            other => other.insert(Bucket::new(capacity, Bucket::first_tokens(capacity, chance), now)),
        };
        bucket.count(limiter::use_percent(seen.used, seen.limit_cores), now)
    }

    /// Another base takes the raised quota along, so that what is not raised is never taken for raised.
    fn follow_base(&mut self, base: i64) {
        if base == self.base || self.base <= 0 {
            self.base = base;
            return;
        }
        let scaled = i128::from(self.quota) * i128::from(base) / i128::from(self.base);
        self.quota = i64::try_from(scaled).unwrap_or(i64::MAX);
        self.base = base;
        self.cause = Cause::Bounds;
    }

    fn operation(&self, policy: &CpuBurst, allowed: bool, seen: &Seen) -> (Operation, Cause) {
        if !policy.policy.raises_quota() {
            return (Operation::Reset, Cause::Bounds);
        }
        if !allowed {
            return (Operation::Down, Cause::UsedUp);
        }
        if self.blind >= BLIND_TICKS {
            return (Operation::Down, Cause::Blind);
        }
        let is_throttled = seen.throttled.is_some_and(|share| share > 0.0);
        match (seen.node, is_throttled) {
            (NodeState::Overload, _) => (Operation::Down, Cause::Overload),
            (NodeState::Idle, true) => (Operation::Up, Cause::Throttled),
            _ => (Operation::Keep, self.cause),
        }
    }
}

/// Highest quota: `percent` of the base, rounded down; the base where that is no more.
pub fn ceiling(base: i64, percent: Percent) -> i64 {
    let ceiling = i128::from(base) * i128::from(percent.0.max(100)) / 100;
    i64::try_from(ceiling).unwrap_or(i64::MAX).max(base)
}

/// The next quota, between base and ceiling. Fifths are rounded down.
pub fn target(operation: Operation, quota: i64, base: i64, ceiling: i64) -> i64 {
    let target = match operation {
        Operation::Reset => base,
        Operation::Down => fifths(quota, 4),
        Operation::Keep => quota,
        Operation::Up => fifths(quota, 6),
    };
    target.clamp(base, ceiling.max(base))
}

fn fifths(quota: i64, count: i128) -> i64 {
    i64::try_from(i128::from(quota) * count / 5).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows H2 and H3 of the specification: base of the limit, quota, ceiling in percent, operation -> quota.
    #[test]
    fn quotas_are_those_of_the_worked_examples() {
        use Operation::{Down, Keep, Reset, Up};
        let rows = [
            (200_000, 400_000, 300, Reset, 200_000),
            (200_000, 400_000, 300, Keep, 400_000),
            (200_000, 400_000, 300, Down, 320_000),
            (200_000, 202_000, 300, Down, 200_000),
            (200_000, 580_000, 300, Up, 600_000),
            (300_000, 300_000, 300, Up, 360_000),
            (200_000, 400_000, 90, Keep, 200_000),
            (200_000, 250_001, 300, Up, 300_001),
            (33_300, 100_000, 333, Up, 110_889),
            (1000, 1000, 300, Up, 1200),
        ];
        for (base, quota, percent, operation, wanted) in rows {
            let found = target(operation, quota, base, ceiling(base, Percent(percent)));
            assert_eq!(found, wanted, "{base} {quota} {percent} {operation:?}");
        }
        assert_eq!(target(Up, i64::MAX, 1000, ceiling(i64::MAX, Percent(i64::MAX))), i64::MAX);
        assert_eq!(ceiling(1000, Percent(i64::MIN)), 1000);
    }
}
