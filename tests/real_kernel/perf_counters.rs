//! Perf events of real groups. Machines without counters of the CPU run the same code with the kernel's own events:
//! CPU time of tasks and context switches.

use std::collections::BTreeMap;
use std::fs::{self, File};

use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::{Agent, Class, Driver, Load, Manifests, NodeManifest, Tree, need, offers};
use koordlet::cgroup::layout::Layout;
use koordlet::cgroup::resource::Controller;
use koordlet::error_chain::chain;
use koordlet::host::offers::State;
use koordlet::host::online::online_cpus;
use koordlet::host::roots::Roots;
use koordlet::node::cpi::{CPI_EVENTS, CpiCollector, offer};
use koordlet::node::perf_group::PerfEvent;
use koordlet::node::rounds::Collect as _;
use koordlet::state::cpi::{Cpi, CpiCounts};
use koordlet::state::facts::Published;
use koordlet::state::hub::{Readers, Writers, hub};
use koordlet::state::series::key::{CpiResource, SeriesKey};
use koordlet::state::series::settings::SeriesSettings;
use koordlet::state::series::shared::SharedSeries;
use koordlet::units::Nanos;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

const SOFTWARE: [PerfEvent; 2] = [PerfEvent::TaskClock, PerfEvent::ContextSwitches];

/// Containers of one pod in the hierarchies that account CPU time and that count events.
struct Counted {
    tree: Tree,
    pod: String,
    /// Root of the hierarchy that counts events.
    root: PathBuf,
    layout: Layout,
    writers: Writers,
    readers: Readers,
    published: Published<CpiCounts>,
    series: SharedSeries,
}

impl Counted {
    fn new() -> Result<Self> {
        let tree = Tree::with_driver(Driver::Cgroupfs)?;
        let pod = format!("{}/pod1", tree.class_dir(Class::Burstable));
        let layout = Layout::detect(&Roots::host())?;
        let root = layout.hierarchy_root(Controller::PerfEvent).context("no perf_event")?.to_owned();
        let (writers, readers) = hub();
        let series = SharedSeries::new(SeriesSettings::default());
        Ok(Self { tree, pod, root, layout, writers, readers, published: Published::default(), series })
    }

    /// The pod with these containers. No directory is made.
    fn say(&self, names: &[&str]) -> Result<()> {
        self.writers.pods.set(Arc::new(kit::one_pod(&self.pod, names)?));
        Ok(())
    }

    fn dir(&self, name: &str) -> String {
        format!("{}/{name}", self.pod)
    }

    /// Makes a container's directory in all hierarchies that are needed.
    fn make(&self, name: &str) -> Result<()> {
        self.tree.make(&self.dir(name))?;
        Ok(fs::create_dir_all(self.root.join(self.dir(name)))?)
    }

    /// A busy process in `beneath` of a container, as far as events are counted; its CPU time is the container's.
    fn spin(&self, name: &str, beneath: &str) -> Result<Load> {
        let load = self.tree.spin(&self.dir(name), 1)?;
        let group = self.root.join(self.dir(name)).join(beneath);
        fs::create_dir_all(&group)?;
        kit::hierarchy::write(&group.join("cgroup.procs"), &load.pid().to_string())?;
        Ok(load)
    }

    fn collector(&self, events: [PerfEvent; 2], window: Duration) -> Result<CpiCollector> {
        let (pods, published) = (self.readers.pods.clone(), self.published.clone());
        let series = self.series.clone();
        Ok(CpiCollector::new(&self.layout, &Roots::host(), events, window, pods, published, series)?)
    }

    /// A round's first figure of each container, by name.
    fn round(&self, collector: &mut CpiCollector) -> Result<BTreeMap<String, f64>> {
        collector.round(Nanos(0)).map_err(|error| anyhow::anyhow!("{}", chain(&*error)))?;
        let counts = self.published.get().context("nothing was published")?;
        let first = |((pod, container), cpi): (&(Arc<str>, Arc<str>), &Cpi)| {
            assert_eq!(pod.as_ref(), "1");
            (container.trim_start_matches("containerd://").to_owned(), cpi.cycles)
        };
        Ok(counts.containers.iter().map(first).collect())
    }
}

/// Descriptors that this process has open.
fn descriptors() -> Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// The limit of descriptors lowered for a while.
struct Limited(u64);

impl Limited {
    /// So that this many more can be had. The limit is about their numbers, among which others may have left gaps.
    fn leaving(free: usize) -> Result<Self> {
        let probes: Vec<File> =
            (0..=free).map(|_| File::open("/dev/null")).collect::<std::io::Result<_>>()?;
        let first_refused = probes.last().context("no descriptor")?.as_raw_fd();
        let (before, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        setrlimit(Resource::RLIMIT_NOFILE, u64::try_from(first_refused)?, hard)?;
        Ok(Self(before))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let raised = getrlimit(Resource::RLIMIT_NOFILE)
            .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, self.0, hard));
        assert!(raised.is_ok(), "{raised:?}");
    }
}

#[test]
fn task_clock_of_a_container_is_its_cpu_time() -> Result<()> {
    need!(offers::cgroups());
    let counted = Counted::new()?;
    counted.make("c1")?;
    counted.say(&["c1"])?;
    let _busy = counted.spin("c1", "nested/deeper")?;
    let mut collector = counted.collector(SOFTWARE, Duration::from_secs(1))?;
    // The kernel charges CPU time when it ticks, and a busy machine may hold the reader up on either side.
    let mut tries = Vec::new();
    let equal = (0..20).any(|_| {
        let mut measured = || -> Result<f64> {
            let before = counted.tree.cpu_usage_nanos(&counted.dir("c1"))?;
            let figure = counted.round(&mut collector)?.remove("c1").context("no figure")?;
            let used = counted.tree.cpu_usage_nanos(&counted.dir("c1"))?.saturating_sub(before);
            Ok(figure / used as f64)
        };
        let ratio = measured().unwrap_or(f64::NAN);
        tries.push(ratio);
        (0.97..=1.03).contains(&ratio)
    });
    kit::skip::note(format_args!("task clock to CPU time: {tries:.4?}"));
    ensure!(equal, "task clock to CPU time: {tries:?}");
    let counts = counted.published.get().context("nothing was published")?;
    let (pod, container) = counts.containers.keys().next().context("no container")?;
    let key = SeriesKey::cpi(pod, container, CpiResource::Cycle);
    let newest = counted.series.newest(&key, Nanos(0), Nanos(u64::MAX)).context("no sample")?;
    let cycles = counts.containers.values().next().context("no container")?.cycles;
    // Samples are kept with seven digits.
    ensure!(newest.0 == counts.at && (newest.1 / cycles - 1.0).abs() < 1e-6, "{newest:?} against {cycles}");
    Ok(())
}

#[test]
fn c096_a_thousand_rounds_leave_the_descriptors_as_they_were() -> Result<()> {
    need!(offers::cgroups());
    let counted = Counted::new()?;
    counted.make("c1")?;
    counted.say(&["c1"])?;
    let mut collector = counted.collector(SOFTWARE, Duration::ZERO)?;
    counted.round(&mut collector)?;
    let before = descriptors()?;
    for round in 0..1000 {
        ensure!(counted.round(&mut collector)?.contains_key("c1"), "round {round}");
    }
    ensure!(descriptors()? == before, "{} descriptors after, {before} before", descriptors()?);
    Ok(())
}

#[test]
fn containers_beyond_the_limit_of_descriptors_are_counted_in_batches() -> Result<()> {
    need!(offers::cgroups());
    let counted = Counted::new()?;
    let names: Vec<String> = (0..10).map(|number| format!("c{number}")).collect();
    names.iter().try_for_each(|name| counted.make(name))?;
    counted.say(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut collector = counted.collector(SOFTWARE, Duration::ZERO)?;
    let each = 2 * online_cpus(&Roots::host())?.len();
    let open = descriptors()?;
    let few = Limited::leaving(2 * 3 * each)?;
    let figures = counted.round(&mut collector);
    drop(few);
    ensure!(figures?.into_keys().eq(names), "some were left out");
    let none = Limited::leaving(0)?;
    let refused = counted.round(&mut collector);
    drop(none);
    let text = format!("{:#}", refused.err().context("counted without descriptors")?);
    ensure!(text.contains("Too many open files"), "{text}");
    ensure!(descriptors()? == open, "{} descriptors after, {open} before", descriptors()?);
    Ok(())
}

#[test]
fn containers_that_are_gone_have_no_figure_and_are_no_error() -> Result<()> {
    need!(offers::cgroups());
    let counted = Counted::new()?;
    counted.make("c1")?;
    counted.say(&["c0", "c1"])?;
    let mut collector = counted.collector(SOFTWARE, Duration::ZERO)?;
    ensure!(counted.round(&mut collector)?.into_keys().eq(["c1".to_owned()]), "c0 was never made");
    // One that goes while it is counted keeps its figure.
    let group = counted.root.join(counted.dir("c1"));
    let mut slow = counted.collector(SOFTWARE, Duration::from_millis(300))?;
    let remover = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        fs::remove_dir(group)
    });
    let figures = counted.round(&mut slow)?;
    remover.join().ok().context("the remover panicked")??;
    ensure!(figures.keys().all(|name| name == "c1"), "{figures:?}");
    ensure!(counted.round(&mut collector)?.is_empty(), "c1 is gone");
    Ok(())
}

#[test]
fn cycles_and_instructions_of_a_busy_container_are_counted() -> Result<()> {
    need!(offers::cgroups());
    let counted = Counted::new()?;
    let offer = offer(&counted.layout, &Roots::host());
    if offer.state != State::Ok {
        let refused = counted.collector(CPI_EVENTS, Duration::ZERO).err().context("counted all the same")?;
        ensure!(chain(refused.as_ref()) == offer.detail, "{refused:#} against {}", offer.detail);
        kit::skip!("{}", offer.detail);
    }
    counted.make("c1")?;
    counted.say(&["c1"])?;
    let _busy = counted.spin("c1", "")?;
    let mut collector = counted.collector(CPI_EVENTS, Duration::from_secs(1))?;
    counted.round(&mut collector)?;
    let counts = counted.published.get().context("nothing was published")?;
    let cpi = counts.containers.values().next().context("no figure")?;
    ensure!(cpi.cycles > 0.0 && cpi.instructions > 0.0, "{cpi:?}");
    Ok(())
}

#[test]
fn an_agent_says_once_why_a_collector_is_off() -> Result<()> {
    need!(offers::cgroups());
    let counted = Counted::new()?;
    let manifests = Manifests::new()?;
    manifests.write("node", &NodeManifest::this_host("node-1"))?;
    let agent = Agent::of(&counted.tree, &manifests)?
        .flag("feature-gates", "CPICollector=true,ResctrlCollector=true")
        .flag("enable-resctrl-collector", "true")
        .flag("cpi-collector-interval", "100ms")
        .flag("collect-cpi-timewindow", "100ms");
    let running = agent.start()?;
    let lines = |name: &str| {
        let log = running.log();
        let mine = |line: &&str| line.contains("collector is off") && line.contains(name);
        log.lines().filter(mine).map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = usize::from(offer(&counted.layout, &Roots::host()).state != State::Ok);
    ensure!(lines("cpi").len() == expected, "{}", running.log());
    std::thread::sleep(Duration::from_millis(500));
    ensure!(lines("cpi").len() == expected && lines("resctrl").len() <= 1, "{}", running.log());
    ensure!(!running.log().contains("round failed"), "{}", running.log());
    running.stop()?;
    Ok(())
}
