//! What the sensors cost: a sample of CPU time against reading files, a scheduler event, an event's way up.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _, pipe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kit::latency::Latencies;
use kit::{Class, Controller, Driver, Tree};
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::path::CgroupDir;
use koordlet::ebpf::events::WatchedDirs;
use koordlet::ebpf::load::measure_run_time;
use koordlet::ebpf::sensors::{SensorConfig, Sensors, file_cpu_time, start};
use koordlet::host::roots::Roots;
use koordlet::state::usage::CpuTime;
use koordlet_common::names::program;

use crate::row::Row;

const CONTAINERS: usize = 1000;
const PER_POD: usize = 10;
const SAMPLES: usize = 200;
const ROUND_TRIPS: u32 = 50_000;
const BIRTHS: usize = 500;

/// All rows of the sensors; none where eBPF cannot be used.
pub(crate) fn rows() -> Result<Vec<Row>> {
    if let Err(reason) = kit::offers::ebpf() {
        kit::skip::announce(format_args!("{reason}"));
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut rows = samples(&runtime)?;
    rows.extend(scheduler_events(&runtime)?);
    rows.extend(births(&runtime)?);
    Ok(rows)
}

/// One sample of 1,000 containers, with every container's figure taken, against their files.
fn samples(runtime: &tokio::runtime::Runtime) -> Result<Vec<Row>> {
    let tree = Tree::with_driver(Driver::Systemd)?;
    let accounting = tree.hierarchies().mount(Controller::Cpuacct).to_owned();
    let mut sensors = open(runtime, &tree)?;
    let paths = containers(&tree);
    let dirs: Vec<CgroupDir> = paths.iter().map(|path| CgroupDir::new(path)).collect::<Result<_, _>>()?;
    let load = tree.spin(&tree.kubepods(), 1)?;
    // Each container runs for a moment, so that each has a slot.
    for path in &paths {
        let dir = accounting.join(path);
        std::fs::create_dir_all(&dir)?;
        put(&dir.join("cgroup.procs"), &load.pid().to_string())?;
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(load);
    settle(runtime);
    let mut counted = || take(sensors.cpu_time.as_mut(), &dirs);
    let known = counted();
    if known < CONTAINERS {
        bail!("only {known} of {CONTAINERS} containers are counted");
    }
    let sample = median(&mut counted);
    let layout = Arc::new(Layout::detect(&Roots::host())?);
    let mut held = file_cpu_time(&layout);
    take(held.as_mut(), &dirs);
    let held = median(&mut || take(held.as_mut(), &dirs));
    let name = if tree.is_v2() { "cpu.stat" } else { "cpuacct.usage" };
    let files: Vec<PathBuf> = paths.iter().map(|path| accounting.join(path).join(name)).collect();
    let opened = median(&mut || files.iter().filter(|file| read(file).is_some()).count());
    Ok(vec![
        Row::new("CPU time of 1,000 containers from the map", sample, "us")
            .against(opened)
            .times_faster(100.0),
        Row::new("CPU time of 1,000 containers from held files", held, "us").against(opened),
    ])
}

/// Nanoseconds of the program at each scheduler event, and what that does to a process that switches all the time.
fn scheduler_events(runtime: &tokio::runtime::Runtime) -> Result<Vec<Row>> {
    let tree = Tree::with_driver(Driver::Systemd)?;
    let inside = Inside::enter(&tree)?;
    ping_pong()?;
    let (mut on, mut off, mut per_event) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        off.push(ping_pong()?);
        let sensors = open(runtime, &tree)?;
        on.push(ping_pong()?);
        let measured = measure_run_time()?;
        let before = run_stats(&sensors)?;
        ping_pong()?;
        let after = run_stats(&sensors)?;
        drop(measured);
        let runs = after.0.saturating_sub(before.0).max(1);
        per_event.push(after.1.saturating_sub(before.1).as_secs_f64() * 1e9 / runs as f64);
    }
    drop(inside);
    let (on, off) = (middle(&mut on), middle(&mut off));
    Ok(vec![
        Row::new("eBPF, one scheduler event", middle(&mut per_event), "ns").at_most(100.0),
        Row::new("a round trip through two pipes, eBPF on", on, "us").against(off),
    ])
}

/// From `mkdir` to the event in user space.
fn births(runtime: &tokio::runtime::Runtime) -> Result<Vec<Row>> {
    let tree = Tree::with_driver(Driver::Systemd)?;
    let mut sensors = open(runtime, &tree)?;
    let cpu = tree.hierarchies().mount(Controller::Cpu).join(tree.class_dir(Class::Burstable));
    let mut latencies = Latencies::default();
    for number in 0..BIRTHS {
        let path = cpu.join(format!("born{number}"));
        let maker = std::thread::spawn(move || {
            // The reader is to be asleep when the event comes.
            std::thread::sleep(Duration::from_millis(2));
            let at = Instant::now();
            std::fs::create_dir(&path).map(|()| at)
        });
        runtime.block_on(sensors.events.recv()).context("no events")?;
        let now = Instant::now();
        let made = maker.join().map_err(|_| anyhow::anyhow!("the maker panicked"))??;
        latencies.push(now.duration_since(made));
    }
    let micros = |percent| latencies.percentile(percent).unwrap_or_default().as_secs_f64() * 1e6;
    Ok(vec![
        Row::new("cgroup mkdir to event, p50", micros(50), "us"),
        Row::new("cgroup mkdir to event, p99", micros(99), "us"),
    ])
}

fn open(runtime: &tokio::runtime::Runtime, tree: &Tree) -> Result<Sensors> {
    let roots = Roots::host();
    let layout = Arc::new(Layout::detect(&roots)?);
    let watched = WatchedDirs::new([CgroupDir::new(&tree.kubepods())?]);
    let _inside = runtime.enter();
    let sensors = start(&SensorConfig { queue: 16_384, ..SensorConfig::new(roots, layout, watched) })?;
    if !sensors.usage_mode.is_ebpf() {
        bail!("no eBPF: {:?}", sensors.usage_mode);
    }
    Ok(sensors)
}

fn containers(tree: &Tree) -> Vec<String> {
    let class = tree.class_dir(Class::Burstable);
    let pod = |n: usize| format!("{class}/kubepods-burstable-pod{n:08}_1111_2222_3333_444444444444.slice");
    (0..CONTAINERS).map(|n| format!("{}/cri-containerd-{n:064}.scope", pod(n / PER_POD))).collect()
}

/// Lets the runtime hear what has happened.
fn settle(runtime: &tokio::runtime::Runtime) {
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(200)).await });
}

fn take(cpu_time: &mut dyn CpuTime, dirs: &[CgroupDir]) -> usize {
    cpu_time.sample();
    dirs.iter().filter(|dir| cpu_time.total(dir).is_some()).count()
}

/// Opens, reads and closes one file with a system call each.
fn read(path: &Path) -> Option<usize> {
    let mut buffer = [0; 1024];
    std::fs::File::open(path).ok()?.read(&mut buffer).ok()
}

fn put(path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(path).with_context(|| path.display().to_string())?;
    Ok(file.write_all(text.as_bytes())?)
}

/// Median time of a call, in microseconds.
fn median(call: &mut dyn FnMut() -> usize) -> f64 {
    let mut times: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let begin = Instant::now();
            std::hint::black_box(call());
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    middle(&mut times)
}

fn middle(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn run_stats(sensors: &Sensors) -> Result<(u64, Duration)> {
    sensors.handle.run_stats(program::SCHED_STAT_RUNTIME).context("no statistics of the program")
}

/// Two threads hand one byte to and fro, as `perf bench sched pipe` does; microseconds of a round trip.
fn ping_pong() -> Result<f64> {
    let ((mut question, mut ask), (mut answer, mut reply)) = (pipe()?, pipe()?);
    let other = std::thread::spawn(move || -> std::io::Result<()> {
        let mut byte = [0];
        for _ in 0..ROUND_TRIPS {
            question.read_exact(&mut byte)?;
            reply.write_all(&byte)?;
        }
        Ok(())
    });
    let begin = Instant::now();
    let mut byte = [0];
    for _ in 0..ROUND_TRIPS {
        ask.write_all(&byte)?;
        answer.read_exact(&mut byte)?;
    }
    let took = begin.elapsed();
    other.join().map_err(|_| anyhow::anyhow!("the other side panicked"))??;
    Ok(took.as_secs_f64() * 1e6 / f64::from(ROUND_TRIPS))
}

/// This process in a container's group of the accounting hierarchy alone; it goes back where it was.
struct Inside {
    home: PathBuf,
}

impl Inside {
    fn enter(tree: &Tree) -> Result<Self> {
        let accounting = tree.hierarchies().mount(Controller::Cpuacct);
        let own = std::fs::read_to_string("/proc/self/cgroup")?;
        let line = |controller: &str| {
            own.lines().map(|line| line.splitn(3, ':')).find_map(|mut fields| {
                let names = fields.nth(1)?;
                names.split(',').any(|name| name == controller).then(|| fields.next())?
            })
        };
        let path = if tree.is_v2() { line("") } else { line("cpuacct") }.context("no accounting group")?;
        let home = accounting.join(path.trim_start_matches('/'));
        let container = containers(tree).swap_remove(0);
        let dir = accounting.join(&container);
        std::fs::create_dir_all(&dir)?;
        put(&dir.join("cgroup.procs"), "0")?;
        Ok(Self { home })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Where it fails, the tree's removal would end this very process.
        if put(&self.home.join("cgroup.procs"), "0").is_err() {
            std::process::abort();
        }
    }
}
