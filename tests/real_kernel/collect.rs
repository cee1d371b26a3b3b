//! One tick of the collector over real groups says what their files say.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::{Class, Controller, Driver, Tree, need, offers};
use koordlet::cgroup::layout::Layout;
use koordlet::ebpf::sensors::file_cpu_time;
use koordlet::host::roots::Roots;
use koordlet::node::collect::{Collector, Scale};
use koordlet::node::follower::Follow;
use koordlet::node::group_files::GroupFiles;
use koordlet::node::history::History;
use koordlet::state::facts::Facts;
use koordlet::state::groups::GroupKind;
use koordlet::state::pods::PodTable;
use koordlet::state::series::settings::SeriesSettings;
use koordlet::state::series::shared::SharedSeries;
use koordlet::state::usage::{CpuTime, NanoCpu, Usage};
use koordlet::units::{Bytes, Nanos};
use nix::time::{ClockId, clock_gettime};

const ID: &str = "containerd://c1";

/// A pod with one container, and what samples it.
struct Sampled {
    tree: Tree,
    pod: String,
    container: String,
    pods: Arc<PodTable>,
    cpu_time: Box<dyn CpuTime>,
    collector: Collector,
    files: GroupFiles,
    facts: Facts,
}

impl Sampled {
    fn new() -> Result<Self> {
        let tree = Tree::with_driver(Driver::Cgroupfs)?;
        let pod = format!("{}/pod1", tree.class_dir(Class::Burstable));
        let container = format!("{pod}/c1");
        let pods = kit::one_pod(&pod, &["c1".to_owned()])?.into();
        let roots = Roots::host();
        let layout = Arc::new(Layout::detect(&roots)?);
        let cpu_time = file_cpu_time(&layout);
        let collector = Collector::new(&roots.proc, Scale::of_machine(&roots));
        let facts = Facts::default();
        let series = SharedSeries::new(SeriesSettings::default());
        let files = GroupFiles::new(layout, facts.clone(), History::new(series, &facts, false));
        Ok(Self { tree, pod, container, pods, cpu_time, collector, files, facts })
    }

    fn tick(&mut self) -> Result<Usage> {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
        let now = Nanos(u64::try_from(Duration::from(now).as_nanos())?);
        Ok(self.collector.tick(self.cpu_time.as_mut(), &self.pods, &[], now))
    }

    /// The container's CPU use in a sample.
    fn cpu(usage: &Usage) -> Option<NanoCpu> {
        usage.group(GroupKind::Container, ID)?.cpu
    }

    /// The container's memory without page cache, as a tick and a round of files find it.
    fn found_memory(&mut self) -> Result<Option<Bytes>> {
        let usage = self.tick()?;
        self.files.follow(&usage).map_err(anyhow::Error::from_boxed)?;
        let stats = self.facts.groups.get().context("the round has published nothing")?;
        let figure = stats.group(GroupKind::Container, ID).and_then(|stat| stat.memory);
        Ok(figure.map(|memory| memory.without_page_cache))
    }

    /// A tick between two readings of the container's CPU time.
    fn bracketed_tick(&mut self) -> Result<(u64, Usage, u64)> {
        let before = self.tree.cpu_usage_nanos(&self.container)?;
        let usage = self.tick()?;
        Ok((before, usage, self.tree.cpu_usage_nanos(&self.container)?))
    }

    /// The container's memory without page cache, from its file.
    fn memory(&self) -> Result<Bytes> {
        let text = self.tree.read(Controller::Memory, &self.container, "memory.stat")?;
        let prefix = if self.tree.is_v2() { "" } else { "total_" };
        let wanted = ["inactive_anon", "active_anon", "unevictable"].map(|key| format!("{prefix}{key}"));
        let figures = text.lines().filter_map(|line| line.split_once(' '));
        let figures = figures.filter(|(key, _)| wanted.iter().any(|wanted| wanted == key));
        let sum = figures.map(|(_, value)| value.parse::<u64>()).sum::<Result<u64, _>>()?;
        Ok(Bytes(sum))
    }
}

#[test]
fn a_tick_says_of_real_groups_what_their_files_say() -> Result<()> {
    need!(offers::cgroups());
    let mut sampled = Sampled::new()?;
    sampled.tree.make(&sampled.container)?;
    let _busy = sampled.tree.spin(&sampled.container, 1)?;
    let (before_first, first, after_first) = sampled.bracketed_tick()?;
    ensure!(Sampled::cpu(&first).is_none() && first.group(GroupKind::Container, ID).is_some(), "{first:?}");
    let grown = || sampled.tree.cpu_usage_nanos(&sampled.container).unwrap_or(0) > after_first + 50_000_000;
    ensure!(kit::until(kit::patience(), grown), "the busy process does not run");
    let (before_second, second, after_second) = sampled.bracketed_tick()?;

    let cpu = Sampled::cpu(&second).context("no CPU figure")?;
    let elapsed = second.at.0 - first.at.0;
    let used = u128::from(cpu.0) * u128::from(elapsed) / 1_000_000_000;
    // The figure is rounded down to a billionth of a core.
    let (least, most) = (before_second.saturating_sub(after_first), after_second - before_first);
    let range = u128::from(least.saturating_sub(elapsed / 1_000_000_000 + 1))..=u128::from(most);
    ensure!(range.contains(&used), "{used} ns, the files say {least} to {most}");
    let pod = second.group(GroupKind::Pod, "1").context("no pod")?;
    ensure!(pod.cpu.is_some() && second.node_cpu.is_some() && second.node_memory.is_some());
    Ok(())
}

#[test]
fn memory_of_a_real_group_is_what_its_file_says() -> Result<()> {
    need!(offers::cgroups());
    let mut sampled = Sampled::new()?;
    sampled.tree.make(&sampled.container)?;
    // The kernel moves pages to the group's lists in batches of some dozens a CPU: many stacks make several, and
    // then there is a moment without a change.
    let _busy = sampled.tree.spin(&sampled.container, 64)?;
    let same = kit::until(kit::patience(), || {
        let (before, found, after) = (sampled.memory(), sampled.found_memory(), sampled.memory());
        let (Ok(before), Ok(found), Ok(after)) = (before, found, after) else { return false };
        before == after && before > Bytes(0) && found == Some(before)
    });
    ensure!(same, "{:?} against {:?}", sampled.found_memory()?, sampled.memory()?);
    Ok(())
}

#[test]
fn c076_a_real_group_that_is_made_again_starts_anew() -> Result<()> {
    need!(offers::cgroups());
    let mut sampled = Sampled::new()?;
    ensure!(sampled.tick()?.pods().next().is_none(), "nothing is there yet");
    sampled.tree.make(&sampled.container)?;
    sampled.tick()?;
    ensure!(Sampled::cpu(&sampled.tick()?).is_some());
    sampled.tree.remove(&sampled.pod)?;
    sampled.tree.make(&sampled.container)?;
    ensure!(Sampled::cpu(&sampled.tick()?).is_none(), "a figure from two groups");
    ensure!(Sampled::cpu(&sampled.tick()?).is_some());
    sampled.tree.remove(&sampled.pod)?;
    let usage = sampled.tick()?;
    ensure!(usage.pods().next().is_none() && usage.containers().next().is_none(), "{usage:?}");
    Ok(())
}
