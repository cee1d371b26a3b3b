//! The order of writes as a table, with the kernel refusals that it avoids (design.md 4; hooks.md 7.3). Pure.
//!
//! Two passes over everything that changes at once. Widening goes from the outside in, narrowing from the
//! inside out. A quota or limit is written once, in the pass of its direction; a CPU list that gains and loses
//! is widened to the union first where something beneath it changes too. By induction a child is within its
//! parent after each single write, provided that it was before and is wished to be. Within one directory:
//!
//! | pass | order | avoids |
//! | --- | --- | --- |
//! | widen | mems, cpus | tasks without memory nodes (ENOSPC) |
//! | widen | quota, burst | burst above quota (EINVAL) |
//! | widen | idle off, shares, idle on | shares of an idle group (EINVAL); idle off resets shares to 1024 |
//! | widen | memsw, memory limit | memory above memory and swap (EINVAL) |
//! | narrow | burst, quota | burst above quota (EINVAL) |
//! | narrow | memory limit, memsw | memory above memory and swap (EINVAL) |
//! | both | parent's `memory.min` at least its children's | protection that the parent does not back |
//!
//! Across directories: a child's quota above its parent's is EINVAL, CPUs outside the parent's EACCES, a
//! parent without a child's CPUs EBUSY. The same order is harmless where the kernel has no such rule.

use std::cmp::Reverse;

use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::cpuset::CpuSet;

/// A value that has to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub dir: CgroupDir,
    /// What.
    pub resource: Resource,
    /// The present value; `None` if it could not be understood.
    pub now: Option<Value>,
    /// The wished value.
    pub want: Value,
}

/// The direction of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pass {
    /// Outside in.
    Widen,
    /// Inside out.
    Narrow,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the change that it belongs to.
    pub change: usize,
    /// When.
    pub pass: Pass,
    /// What to write.
    pub value: Value,
    /// Whether the change is done with it; false for the union of a CPU list.
    pub last: bool,
}

/// The writes that make all `changes`, in order.
pub fn steps(changes: &[Change]) -> Vec<Step> {
    let mut steps: Vec<(usize, Step)> = Vec::with_capacity(changes.len());
    for (index, change) in changes.iter().enumerate() {
        let step = |pass, value, last| (index, Step { change: index, pass, value, last });
        match direction(change) {
            Direction::Widen => steps.push(step(Pass::Widen, change.want.clone(), true)),
            Direction::Narrow => steps.push(step(Pass::Narrow, change.want.clone(), true)),
            Direction::Both(union) => {
                if changes_beneath(changes, change) {
                    steps.push(step(Pass::Widen, Value::Cpus(union), false));
                }
                steps.push(step(Pass::Narrow, change.want.clone(), true));
            }
        }
    }
    steps.sort_by_cached_key(|(index, step)| {
        let change = &changes[*index];
        let depth = change.dir.depth();
        let (outside_in, inside_out) = match step.pass {
            Pass::Widen => (depth, Reverse(0)),
            Pass::Narrow => (0, Reverse(depth)),
        };
        (step.pass, outside_in, inside_out, change.dir.clone(), rank(change, step.pass))
    });
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Whether `later` has no chance or is not safe after `failed` has failed: a widening that failed stops all
/// on the same axis beneath it, a narrowing that failed stops its parents' narrowing.
pub fn blocks(failed: (&Change, Pass), later: (&Change, Pass)) -> bool {
    let ((failed, failed_pass), (later, later_pass)) = (failed, later);
    let Some(axis) = axis(failed.resource) else { return false };
    if Some(axis) != self::axis(later.resource) {
        return false;
    }
    if failed.dir == later.dir {
        return failed_pass == later_pass || failed.resource == later.resource;
    }
    match failed_pass {
        Pass::Widen => failed.dir.contains(&later.dir),
        Pass::Narrow => later_pass == Pass::Narrow && later.dir.contains(&failed.dir),
    }
}

/// Resources that constrain each other, in a directory and between a directory and its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    Bandwidth,
    Cpuset,
    MemoryLimit,
    Protection(Resource),
}

fn axis(resource: Resource) -> Option<Axis> {
    match resource {
        Resource::CfsQuota | Resource::CfsBurst => Some(Axis::Bandwidth),
        Resource::Cpus | Resource::Mems => Some(Axis::Cpuset),
        Resource::MemoryLimit | Resource::MemswLimit => Some(Axis::MemoryLimit),
        Resource::MemoryMin | Resource::MemoryLow => Some(Axis::Protection(resource)),
        _ => None,
    }
}

enum Direction {
    Widen,
    Narrow,
    Both(CpuSet),
}

/// Values without an order (shares, switches) count as widening: they are written outside in.
fn direction(change: &Change) -> Direction {
    let narrows = match (&change.now, &change.want) {
        (Some(Value::Cpus(now)), Value::Cpus(want)) => {
            if now.is_subset(want) {
                false
            } else if want.is_subset(now) {
                true
            } else {
                return Direction::Both(now.union(want));
            }
        }
        (Some(Value::Quota(now)), Value::Quota(want)) => want < now,
        (Some(Value::Memory(now)), Value::Memory(want)) => memory_key(*want) < memory_key(*now),
        (Some(Value::Int(now)), Value::Int(want)) => axis(change.resource).is_some() && want < now,
        _ => false,
    };
    if narrows { Direction::Narrow } else { Direction::Widen }
}

fn memory_key(limit: crate::units::MemoryLimit) -> u64 {
    match limit {
        crate::units::MemoryLimit::Bytes(bytes) => bytes,
        crate::units::MemoryLimit::Unlimited => u64::MAX,
    }
}

fn changes_beneath(changes: &[Change], parent: &Change) -> bool {
    changes
        .iter()
        .any(|c| c.resource == parent.resource && c.dir != parent.dir && parent.dir.contains(&c.dir))
}

/// Place within a directory and pass; see the table above.
fn rank(change: &Change, pass: Pass) -> u8 {
    let clears_idle = change.want == Value::Int(0);
    match (pass, change.resource) {
        (_, Resource::Mems) => 0,
        (_, Resource::Cpus) => 1,
        (Pass::Widen, Resource::CfsQuota) | (Pass::Narrow, Resource::CfsBurst) => 2,
        (Pass::Widen, Resource::CfsBurst) | (Pass::Narrow, Resource::CfsQuota) => 3,
        (_, Resource::CpuIdle) if clears_idle => 4,
        (_, Resource::CpuShares) => 5,
        (_, Resource::CpuIdle) => 6,
        (Pass::Widen, Resource::MemswLimit) | (Pass::Narrow, Resource::MemoryLimit) => 7,
        (Pass::Widen, Resource::MemoryLimit) | (Pass::Narrow, Resource::MemswLimit) => 8,
        _ => 9,
    }
}

/// Whether a runtime sets this resource while it makes a container, after the directory is there, so that
/// an earlier value of ours would be lost (design.md 4, "A birth is not finished at mkdir").
pub fn set_by_runtimes(resource: Resource) -> bool {
    matches!(
        resource,
        Resource::CpuShares
            | Resource::CfsQuota
            | Resource::CfsPeriod
            | Resource::Cpus
            | Resource::Mems
            | Resource::MemoryLimit
            | Resource::MemswLimit
    )
}

/// Whether a write may keep its caller in the kernel for seconds, reclaiming memory.
pub fn may_be_slow(resource: Resource) -> bool {
    matches!(resource, Resource::MemoryLimit | Resource::MemswLimit | Resource::MemoryHigh)
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
