//! What a round of CPI costs beside its window: opening, starting, reading and closing the counters. Machines without
//! counters of the CPU are measured with the kernel's own events, which take the same calls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use kit::{Class, Driver, Tree};
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::resource::Controller;
use koordlet::host::offers::State;
use koordlet::host::online::online_cpus;
use koordlet::host::roots::Roots;
use koordlet::node::cpi::{CPI_EVENTS, CpiCollector, offer};
use koordlet::node::perf_group::PerfEvent;
use koordlet::node::rounds::Collect as _;
use koordlet::state::facts::Facts;
use koordlet::state::hub::hub;
use koordlet::state::pods::PodTable;
use koordlet::state::series::settings::SeriesSettings;
use koordlet::state::series::shared::SharedSeries;
use koordlet::units::Nanos;

use crate::row::Row;

const CONTAINERS: usize = 100;
const ROUNDS: usize = 50;

/// One row; none where perf events cannot be used.
pub(crate) fn round() -> Result<Vec<Row>> {
    let roots = Roots::host();
    let layout = Layout::detect(&roots)?;
    let events = match offer(&layout, &roots).state {
        State::Ok => CPI_EVENTS,
        _ => [PerfEvent::TaskClock, PerfEvent::ContextSwitches],
    };
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let (writers, readers) = hub();
    writers.pods.set(Arc::new(containers(&tree, &layout)?));
    let (facts, series) = (Facts::default(), SharedSeries::new(SeriesSettings::default()));
    let collector = CpiCollector::new(
        &layout,
        &roots,
        events,
        Duration::ZERO,
        readers.pods.clone(),
        facts.cpi.clone(),
        series,
    );
    let mut collector = match collector {
        Ok(collector) => collector,
        Err(why) => {
            kit::skip::announce(format_args!("{why}"));
            return Ok(Vec::new());
        }
    };
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        collector.round(Nanos(0)).map_err(|error| anyhow!("{error}"))?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let counted = facts.cpi.get().map_or(0, |counts| counts.containers.len());
    anyhow::ensure!(counted == CONTAINERS, "only {counted} of {CONTAINERS} containers were counted");
    times.sort_unstable_by(f64::total_cmp);
    let middle = times.get(ROUNDS / 2).copied().context("no round")?;
    let name =
        format!("a round of CPI without its window, 100 containers on {} CPUs", online_cpus(&roots)?.len());
    Ok(vec![Row::new(&name, middle, "ms")])
}

/// One pod of all containers, with their directories where events are counted.
fn containers(tree: &Tree, layout: &Layout) -> Result<PodTable> {
    let root = layout.hierarchy_root(Controller::PerfEvent).context("no hierarchy has perf_event")?;
    let pod = format!("{}/pod1", tree.class_dir(Class::Burstable));
    let names: Vec<String> = (0..CONTAINERS).map(|number| format!("c{number}")).collect();
    for name in &names {
        std::fs::create_dir_all(root.join(&pod).join(name))?;
    }
    kit::one_pod(&pod, &names)
}
