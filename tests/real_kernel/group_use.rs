//! CPU and memory of 50 containers under load are what their cgroup files say, within 1 %.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::load::Work;
use kit::{Class, Controller, Driver, Load, Tree, need, offers};
use koordlet::cgroup::layout::Layout;
use koordlet::host::clock::monotonic;
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
use koordlet::state::usage::{CpuTime, Usage};

use crate::running::{Background, config, sensors};

const PODS: usize = 10;
const PER_POD: usize = 5;
/// Samples after the first.
const TICKS: usize = 5;

struct Field {
    tree: Tree,
    /// Full id and directory of each container.
    containers: Vec<(String, String)>,
    pods: Arc<PodTable>,
    _loads: Vec<Load>,
}

impl Field {
    /// 50 containers of which each runs a tenth of the time, as far as the CPUs go.
    fn new() -> Result<Self> {
        let tree = Tree::with_driver(Driver::Cgroupfs)?;
        let mut containers = Vec::new();
        let mut pods = Vec::new();
        for number in 0..PODS {
            let pod = format!("{}/pod{number}", tree.class_dir(Class::Burstable));
            let names: Vec<String> = (0..PER_POD).map(|index| format!("{number}-{index}")).collect();
            for name in &names {
                let path = format!("{pod}/{name}");
                tree.make(&path)?;
                containers.push((format!("containerd://{name}"), path));
            }
            pods.push(kit::pod_entry(&number.to_string(), &pod, &names)?);
        }
        let load = |(_, path): &(String, String)| tree.load(path, Work::Duty { percent: 10 });
        let loads = containers.iter().map(load).collect::<Result<_>>()?;
        Ok(Self { tree, containers, pods: Arc::new(kit::pod_table(pods)), _loads: loads })
    }

    /// CPU time of each container by its file.
    fn cpu(&self) -> Result<Vec<u64>> {
        self.containers.iter().map(|(_, path)| self.tree.cpu_usage_nanos(path)).collect()
    }

    /// Memory without page cache of a container by its file.
    fn memory(&self, path: &str) -> Result<u64> {
        let text = self.tree.read(Controller::Memory, path, "memory.stat")?;
        let prefix = if self.tree.is_v2() { "" } else { "total_" };
        let wanted = ["inactive_anon", "active_anon", "unevictable"].map(|key| format!("{prefix}{key}"));
        let figures = text.lines().filter_map(|line| line.split_once(' '));
        let figures = figures.filter(|(key, _)| wanted.iter().any(|wanted| wanted == key));
        figures.map(|(_, value)| Ok(value.parse::<u64>()?)).sum()
    }
}

/// A sample between two readings of all files.
struct Bracketed {
    before: Vec<u64>,
    usage: Usage,
    after: Vec<u64>,
}

fn sample(field: &Field, collector: &mut Collector, cpu_time: &mut dyn CpuTime) -> Result<Bracketed> {
    let before = field.cpu()?;
    let usage = collector.tick(cpu_time, &field.pods, &[], monotonic());
    Ok(Bracketed { before, usage, after: field.cpu()? })
}

#[test]
fn cpu_of_fifty_busy_containers_is_what_their_files_say() -> Result<()> {
    need!(offers::cgroups());
    let field = Field::new()?;
    let background = Background::new()?;
    let mut sensors = sensors(&background, &config(&field.tree)?)?;
    let cpu_time = &mut *sensors.cpu_time;
    let mut collector = Collector::new(&Roots::host().proc, Scale::of_machine(&Roots::host()));
    let first = sample(&field, &mut collector, cpu_time)?;
    let mut used = vec![0u128; field.containers.len()];
    let mut last = None;
    let mut at = first.usage.at;
    for _ in 0..TICKS {
        std::thread::sleep(Duration::from_secs(1));
        let next = sample(&field, &mut collector, cpu_time)?;
        for (used, (id, _)) in used.iter_mut().zip(&field.containers) {
            let cpu = next.usage.group(GroupKind::Container, id).and_then(|usage| usage.cpu);
            let elapsed = u128::from(next.usage.at.0 - at.0);
            *used +=
                u128::from(cpu.with_context(|| format!("no figure of {id}"))?.0) * elapsed / 1_000_000_000;
        }
        at = next.usage.at;
        last = Some(next);
    }
    let last = last.context("no sample")?;
    for (index, (id, _)) in field.containers.iter().enumerate() {
        // What the files counted between the samples, at least and at most.
        let least = last.before[index].saturating_sub(first.after[index]);
        let most = last.after[index] - first.before[index];
        let hundredth = u128::from(most / 100);
        let range = u128::from(least).saturating_sub(hundredth)..=u128::from(most) + hundredth;
        ensure!(range.contains(&used[index]), "{id}: {} ns, its file says {least} to {most}", used[index]);
        ensure!(most > 0, "{id} has not run");
    }
    Ok(())
}

#[test]
fn memory_of_fifty_busy_containers_is_what_their_files_say() -> Result<()> {
    need!(offers::cgroups());
    let field = Field::new()?;
    let roots = Roots::host();
    let layout = Arc::new(Layout::detect(&roots)?);
    let mut cpu_time = koordlet::ebpf::sensors::file_cpu_time(&layout);
    let mut collector = Collector::new(&roots.proc, Scale::of_machine(&roots));
    let facts = Facts::default();
    let series = SharedSeries::new(SeriesSettings::default());
    let mut files = GroupFiles::new(layout, facts.clone(), History::new(series, &facts, false));
    for (id, path) in &field.containers {
        let mut seen = String::new();
        // A process may grow between the two readings; not for ever.
        let same = kit::until(kit::patience(), || {
            let usage = collector.tick(cpu_time.as_mut(), &field.pods, &[], monotonic());
            let round = files.follow(&usage);
            let stats = facts.groups.get();
            let found = stats.as_ref().and_then(|stats| stats.group(GroupKind::Container, id)?.memory);
            let (Ok(()), Some(found), Ok(file)) = (round, found, field.memory(path)) else { return false };
            seen = format!("{found:?}, its file says {file}");
            found.without_page_cache.0.abs_diff(file) <= file / 100
        });
        ensure!(same, "{id}: {seen}");
    }
    Ok(())
}
