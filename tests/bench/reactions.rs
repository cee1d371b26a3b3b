//! How soon the agent acts: new containers, foreign writes, a load step. Times are taken by looking at the kernel's
//! files from outside.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kit::latency::Latencies;
use kit::load::Work;
use kit::manifest::NODE;
use kit::{NodeSloManifest, Tree, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::field::{BATCH_QUOTA, Field};
use crate::row::Row;

/// No reaction takes this long, unless something is broken.
const LIMIT: Duration = Duration::from_secs(20);
/// How long the quota is watched after a step.
const WATCHED: Duration = Duration::from_secs(4);
/// Time between two looks.
const LOOK: Duration = Duration::from_micros(100);

/// New container directories of known pods, until their quota holds.
pub(crate) fn births() -> Result<Vec<Row>> {
    let field = Field::with(100, 1, None)?;
    let batch: Vec<String> = batch_containers(&field);
    for dir in &batch {
        field.tree.remove(dir)?;
    }
    let _agent = field.agent.start()?;
    sleep(Duration::from_secs(3));
    let mut times = Latencies::default();
    for dir in &batch {
        let start = Instant::now();
        field.tree.make(dir)?;
        times.push(until_quota(&field.tree, dir, start, |quota| quota == BATCH_QUOTA)?);
        // One after another, as a runtime makes them.
        sleep(Duration::from_millis(50));
    }
    Ok(spread("container mkdir to its quota held", &times, Some(20.0)))
}

/// Somebody else writes to a managed file, a fresh one each time, until it holds our value again.
pub(crate) fn repairs() -> Result<Vec<Row>> {
    let field = Field::with(100, 1, None)?;
    let _agent = field.agent.start()?;
    let batch = batch_containers(&field);
    let held = |dir: &String| field.tree.cfs_quota(dir).is_ok_and(|quota| quota == BATCH_QUOTA);
    if !until(LIMIT, || batch.iter().all(held)) {
        bail!("the agent does not hold the batch containers' quotas");
    }
    // A directory's first seconds are its birth, and other rules apply.
    sleep(Duration::from_secs(4));
    let mut times = Latencies::default();
    for dir in &batch {
        let start = Instant::now();
        field.tree.set_cfs_quota(dir, BATCH_QUOTA / 2)?;
        times.push(until_quota(&field.tree, dir, start, |quota| quota == BATCH_QUOTA)?);
        sleep(Duration::from_millis(50));
    }
    Ok(spread("foreign write to repair", &times, Some(50.0)))
}

/// Steps of a latency-sensitive pod from nothing to half a CPU, until the best-effort quota is first lowered and until it
/// is near its final value.
pub(crate) fn load_steps() -> Result<Vec<Row>> {
    const STEPS: u32 = 8;
    let field = Field::with(2, 1, None)?;
    field.manifests.write("slo", &NodeSloManifest::suppress(NODE, "cfsQuota", 65))?;
    let service = field.dirs.first().context("a pod")?.container("c0");
    let be = field.tree.class_dir(kit::Class::BestEffort);
    let load = field.tree.load(&service, Work::Duty { percent: 50 })?;
    let pid = Pid::from_raw(load.pid().try_into()?);
    kill(pid, Signal::SIGSTOP)?;
    let _agent = field.agent.start()?;
    let (mut first, mut near) = (Latencies::default(), Latencies::default());
    for _ in 0..STEPS {
        let before = settled_quota(&field.tree, &be)?;
        let start = Instant::now();
        kill(pid, Signal::SIGCONT)?;
        let seen = watch(&field.tree, &be, start, WATCHED)?;
        kill(pid, Signal::SIGSTOP)?;
        let lowered = seen.iter().find(|(_, quota)| *quota >= 0 && *quota < before);
        let lowered = lowered.with_context(|| format!("no reaction to a step from {before}: {seen:?}"))?;
        first.push(lowered.0);
        let last = final_quota(&seen).context("no quota was seen")?;
        let close = seen.iter().find(|(_, quota)| (quota - last).abs() * 10 <= last).context("never near")?;
        near.push(close.0);
    }
    let mut rows = spread("LS step to first BE write", &first, Some(300.0));
    rows.extend(spread("LS step to within 10 % of the final quota", &near, Some(600.0)));
    Ok(rows)
}

fn batch_containers(field: &Field) -> Vec<String> {
    let pods = field.pods.iter().zip(&field.dirs);
    pods.filter(|(pod, _)| pod.class() == kit::Class::BestEffort)
        .map(|(_, dirs)| dirs.container("c0"))
        .collect()
}

/// Time from `start` until the quota of `dir` is right.
fn until_quota(tree: &Tree, dir: &str, start: Instant, right: impl Fn(i64) -> bool) -> Result<Duration> {
    while start.elapsed() < LIMIT {
        if right(tree.cfs_quota(dir)?) {
            return Ok(start.elapsed());
        }
        sleep(LOOK);
    }
    bail!("{dir} still has {} after {LIMIT:?}", tree.cfs_quota(dir)?)
}

/// Each change of the quota within `time` of `start`.
fn watch(tree: &Tree, dir: &str, start: Instant, time: Duration) -> Result<Vec<(Duration, i64)>> {
    let mut seen: Vec<(Duration, i64)> = Vec::new();
    while start.elapsed() < time {
        let quota = tree.cfs_quota(dir)?;
        if seen.last().is_none_or(|(_, last)| *last != quota) {
            seen.push((start.elapsed(), quota));
        }
        sleep(LOOK);
    }
    Ok(seen)
}

/// The quota that held for most of the second half of the watch: other work on the machine moves it a little all the
/// time.
fn final_quota(seen: &[(Duration, i64)]) -> Option<i64> {
    let ends = seen.iter().skip(1).map(|(at, _)| *at).chain([WATCHED]);
    let mut held: Vec<(i64, Duration)> = seen
        .iter()
        .zip(ends)
        .map(|((from, quota), end)| (*quota, end.saturating_sub((*from).max(WATCHED / 2))))
        .collect();
    held.sort_unstable();
    let half = held.iter().map(|(_, time)| *time).sum::<Duration>() / 2;
    let mut passed = Duration::ZERO;
    held.iter().find_map(|(quota, time)| {
        passed += *time;
        (passed >= half).then_some(*quota)
    })
}

/// The quota once it leaves room for a step and has not grown for three ticks.
fn settled_quota(tree: &Tree, dir: &str) -> Result<i64> {
    const ROOM: i64 = 60_000;
    const PATIENCE: Duration = Duration::from_mins(2);
    let begin = Instant::now();
    let mut since = Instant::now();
    let mut best = i64::MIN;
    while begin.elapsed() < PATIENCE {
        let quota = tree.cfs_quota(dir)?;
        if quota > best || quota < ROOM {
            (best, since) = (quota, Instant::now());
        } else if since.elapsed() > Duration::from_secs(3) {
            return Ok(quota);
        }
        sleep(Duration::from_millis(20));
    }
    bail!(
        "this machine is too busy to measure a step: best-effort has a quota of {} us",
        tree.cfs_quota(dir)?
    )
}

/// Median and tail of a distribution; the budget is for the tail.
fn spread(name: &str, times: &Latencies, budget_ms: Option<f64>) -> Vec<Row> {
    let row = |percent| {
        let value = times.percentile(percent).unwrap_or_default().as_secs_f64() * 1000.0;
        Row::new(format!("{name}, p{percent} of {}", times.len()), value, "ms")
    };
    let tail = row(99);
    vec![row(50), budget_ms.map_or(tail.clone(), |limit| tail.at_most(limit))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_quota_is_the_one_that_held_longest_at_the_end() {
        let at = Duration::from_millis;
        let seen = [(at(0), 100), (at(80), 60), (at(500), 50), (at(3000), 49), (at(3900), 90)];
        assert_eq!(final_quota(&seen), Some(50));
        assert_eq!(final_quota(&[]), None);
    }
}
