//! An hour of ticks in simulated time, with 1,000 containers of which 20 a second are replaced: what collectors
//! and series take of memory at the end, and of CPU at each tick. Beside it a naive agent over the same folder,
//! which opens each file at each tick and keeps every figure with its time. Each in a process of its own.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use koordlet::cgroup::layout::Layout;
use koordlet::ebpf::sensors::file_cpu_time;
use koordlet::host::roots::Roots;
use koordlet::node::collect::{Collector, Scale};
use koordlet::node::follower::Follow as _;
use koordlet::node::group_files::GroupFiles;
use koordlet::node::history::History;
use koordlet::state::facts::Facts;
use koordlet::state::pods::PodTable;
use koordlet::state::series::key::SeriesKey;
use koordlet::state::series::metric::Metric;
use koordlet::state::series::settings::SeriesSettings;
use koordlet::state::series::shared::SharedSeries;
use koordlet::units::Nanos;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::churn::Churn;
use crate::naive::Naive;
use crate::process::resident_mib;
use crate::row::Row;

/// First argument of the processes inside.
pub(crate) const INSIDE: &str = "inside-the-hour";

/// Ticks of one second.
const TICKS: u32 = 3600;
/// More ticks than any window of a container has.
const WINDOWS: u32 = 1800;
/// Ticks between two looks at what is gone, as the agent has it.
const TIDY: u32 = 10;

/// What a process inside found.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Found {
    /// Resident at the end.
    mib: f64,
    /// CPU time of a tick.
    millis: f64,
    /// Series at the end.
    series: usize,
    /// MiB that they take.
    series_mib: f64,
    /// Samples that were not taken.
    refused: u64,
}

/// Runs both.
pub(crate) fn rows() -> Result<Vec<Row>> {
    let (agent, naive) = (inside("agent")?, inside("naive")?);
    ensure!(agent.refused == 0, "{} samples were refused", agent.refused);
    let (each, pairs) = bytes_of_a_series();
    Ok(vec![
        Row::new("RSS of collectors and series, an hour with churn", agent.mib, "MiB")
            .against(naive.mib)
            .at_most(32.0),
        Row::new("CPU of their tick, 90 % idle, from files alone", agent.millis, "ms").against(naive.millis),
        Row::new("series at the end of the hour", agent.series as f64, "").against(naive.series as f64),
        Row::new("memory of all series at the end of the hour", agent.series_mib, "MiB"),
        Row::new("memory of a series over its whole window", each, "bytes").against(pairs),
    ])
}

/// Bytes of a series of a container that has lived for longer than its window, beside pairs of time and value.
fn bytes_of_a_series() -> (f64, f64) {
    let series = SharedSeries::new(SeriesSettings::default());
    let ids: Vec<Arc<str>> = (0..1000).map(|number| format!("containerd://{number:064x}").into()).collect();
    for tick in 0..WINDOWS {
        let value = f64::from(tick % 100);
        let sample = |id: &Arc<str>| (SeriesKey::container(Metric::ContainerCpuUsage, id), value);
        series.append(second(tick), ids.iter().map(sample));
    }
    let stats = series.stats();
    let each = |figure: usize| figure as f64 / ids.len() as f64;
    (each(stats.bytes), each(stats.samples * 16))
}

fn inside(who: &str) -> Result<Found> {
    let mut command = Command::new(std::env::current_exe()?);
    let output =
        command.args([INSIDE, who]).stderr(Stdio::inherit()).output().context("starting the hour")?;
    ensure!(output.status.success(), "the hour of {who}: {}", output.status);
    serde_json::from_slice(&output.stdout).context("what the hour found")
}

/// The process inside: prints what it found.
pub(crate) fn run_inside(who: Option<&str>) -> Result<String> {
    let mut churn = Churn::start()?;
    let found = match who {
        Some("agent") => agent(&mut churn)?,
        Some("naive") => naive(&mut churn)?,
        _ => bail!("whose hour?"),
    };
    Ok(serde_json::to_string(&found)?)
}

fn agent(churn: &mut Churn) -> Result<Found> {
    let layout = Arc::new(Layout::of_folder(churn.root())?);
    let mut cpu_time = file_cpu_time(&layout);
    let facts = Facts::default();
    let series = SharedSeries::new(SeriesSettings::default());
    let mut history = History::new(series.clone(), &facts, false);
    let of_files = History::new(series.clone(), &facts, false);
    let mut collector = Collector::new(&Roots::host().proc, Scale::of_machine(&Roots::host()));
    let mut files = GroupFiles::new(layout, facts, of_files);
    let mut pods = Arc::new(PodTable::default());
    let mut used = Duration::ZERO;
    for tick in 0..TICKS {
        churn.second()?;
        let objects = churn.pods();
        let before = cpu_clock()?;
        pods = Arc::new(PodTable::build(objects, churn.naming(), &pods).0);
        let now = second(tick);
        let usage = collector.tick(cpu_time.as_mut(), &pods, &[], now);
        history.usage(&usage);
        files.follow(&usage).map_err(|error| anyhow::anyhow!("{error}"))?;
        if tick % TIDY == TIDY - 1 {
            tidy(&series, &pods, now);
        }
        used += cpu_clock()?.saturating_sub(before);
    }
    tidy(&series, &pods, second(TICKS));
    let stats = series.stats();
    Ok(Found {
        mib: resident_mib(std::process::id())?,
        millis: used.as_secs_f64() * 1000.0 / f64::from(TICKS),
        series: stats.series,
        series_mib: stats.bytes as f64 / f64::from(1 << 20),
        refused: stats.refused,
    })
}

/// As the agent does it: what has no pod any more goes.
fn tidy(series: &SharedSeries, pods: &PodTable, now: Nanos) {
    series.expire(now);
    let live: std::collections::HashSet<&str> = pods
        .pods
        .values()
        .flat_map(|pod| &pod.containers)
        .filter_map(|container| container.id.as_deref())
        .collect();
    series.retire(|key: &SeriesKey| {
        key.pod_uid().is_none_or(|uid| pods.pods.contains_key(uid))
            && key.container_id().is_none_or(|id| live.contains(id))
    });
}

fn naive(churn: &mut Churn) -> Result<Found> {
    let mut naive = Naive::default();
    let mut used = Duration::ZERO;
    for tick in 0..TICKS {
        churn.second()?;
        let before = cpu_clock()?;
        naive.tick(churn.root(), churn.groups(), second(tick).0)?;
        if tick % TIDY == TIDY - 1 {
            naive.tidy(churn.groups());
        }
        used += cpu_clock()?.saturating_sub(before);
    }
    naive.tidy(churn.groups());
    Ok(Found {
        mib: resident_mib(std::process::id())?,
        millis: used.as_secs_f64() * 1000.0 / f64::from(TICKS),
        series: naive.series(),
        ..Found::default()
    })
}

fn second(tick: u32) -> Nanos {
    Nanos((1000 + u64::from(tick)) * 1_000_000_000)
}

/// CPU time of this thread.
fn cpu_clock() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
