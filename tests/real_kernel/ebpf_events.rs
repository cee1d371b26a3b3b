//! Births and deaths of cgroups through the ring buffer.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kit::latency::Latencies;
use kit::{Controller, Driver, Tree, need};
use koordlet::cgroup::hierarchy::Hierarchy;
use koordlet::cgroup::layout::Layout;
use koordlet::config::EbpfMode;
use koordlet::ebpf::events::{CgroupEvent, WatchedDirs};
use koordlet::ebpf::load::{EMBEDDED, LoadConfig, load};
use koordlet::ebpf::offsets::{UsageHierarchy, VMLINUX_BTF};
use koordlet::ebpf::sensors::{SensorConfig, SensorMode, probe_tracepoints, start};
use koordlet::host::roots::Roots;
use koordlet_common::loss::Loss;
use koordlet_common::names::program;
use koordlet_common::record::Decoded;

use crate::running::{Background, collect, config, dir, id, offers_ebpf, sensors};

const ROUNDS: usize = 400;
const MADE: usize = 1000;

fn born(event: &CgroupEvent) -> bool {
    matches!(event, CgroupEvent::Born { .. })
}

/// c150: one event for each hierarchy of ours, with that hierarchy's id. c152: one death, on removal.
#[test]
fn c150_c152_each_hierarchy_tells_a_birth_and_a_death_once() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut sensors = sensors(&background, &config(&tree)?)?;
    let pod = format!("{}/pod1", tree.kubepods());
    tree.make(&pod)?;
    let mounts = tree.hierarchies().mounts().len();
    let births = collect(&mut sensors, mounts);
    ensure!(births.len() == mounts && births.iter().all(born), "{births:?}");
    for controller in Controller::ALL {
        let expected = id(&tree, controller, &pod)?;
        let mine = births.iter().filter_map(|event| match event {
            CgroupEvent::Born { controllers, id, dir } => Some((controllers, *id, dir)),
            _ => None,
        });
        let name = controller.name();
        let mine: Vec<_> = mine.filter(|(all, ..)| all.iter().any(|c| c.name() == name)).collect();
        ensure!(mine.len() == 1 && mine[0].1 == expected && *mine[0].2 == dir(&pod), "{name}: {mine:?}");
    }
    tree.remove(&pod)?;
    let deaths = collect(&mut sensors, mounts);
    ensure!(deaths.len() == mounts && !deaths.iter().any(born), "{deaths:?}");
    Ok(())
}

/// c177: whoever waits for the ring is woken for every event. Prints how long an event takes.
#[test]
fn c177_every_event_arrives_and_soon() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let sensors = sensors(&background, &config(&tree)?)?;
    let (arrived, arrivals) = std::sync::mpsc::channel();
    let mut events = sensors.events;
    background.handle.spawn(async move {
        while let Some(event) = events.recv().await {
            arrived.send((event, Instant::now())).ok();
        }
    });
    let cpu = tree.hierarchies().mount(Controller::Cpu).join(tree.kubepods());
    let mut latencies = Latencies::default();
    for round in 0..ROUNDS {
        let path = cpu.join(format!("pod{round}"));
        let made = Instant::now();
        std::fs::create_dir(&path)?;
        let (event, at) = arrivals.recv_timeout(kit::patience()).context("an event is missing")?;
        ensure!(born(&event), "{event:?}");
        latencies.push(at.duration_since(made));
        std::fs::remove_dir(&path)?;
        let (event, _) = arrivals.recv_timeout(kit::patience()).context("a death is missing")?;
        ensure!(!born(&event), "{event:?}");
        std::thread::sleep(Duration::from_millis(1 + round as u64 % 5));
    }
    println!("mkdir to event: {}", latencies.summary());
    Ok(())
}

/// c190: with nobody reading, what was read and what was lost are what was made.
#[test]
fn c190_read_and_lost_are_what_was_made() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let layout = config(&tree)?.layout;
    let usage = layout.usage_hierarchy().and_then(Hierarchy::id).context("no usage hierarchy")?;
    let wanted = layout.hierarchy(koordlet::cgroup::resource::Controller::Cpu).and_then(Hierarchy::id);
    let load_config = LoadConfig {
        object: EMBEDDED,
        btf: std::path::Path::new("/sys").join(VMLINUX_BTF),
        usage: if usage == 0 { UsageHierarchy::Unified } else { UsageHierarchy::Cpuacct },
        usage_root_id: 1,
        count_usage: false,
        wanted_hierarchies: 1 << wanted.context("no cpu hierarchy")?,
        slots: 1,
        ring_bytes: 4096,
    };
    let cpu = tree.hierarchies().mount(Controller::Cpu).join(tree.kubepods());
    let own = format!("/{}/", tree.root());
    // Others may make cgroups of theirs meanwhile: then it is tried again.
    for _ in 0..5 {
        let mut loaded = load(&load_config)?;
        for number in 0..MADE {
            let path = cpu.join(format!("lost{number}"));
            std::fs::create_dir(&path)?;
            std::fs::remove_dir(&path)?;
        }
        let (mut read, mut foreign) = (0, 0);
        let ring = loaded.events.as_mut().context("no events")?;
        while let Some(bytes) = ring.next() {
            let record = Decoded::from_bytes(&bytes).context("a record")?;
            let mine = std::str::from_utf8(record.path)?.starts_with(&own);
            *(if mine { &mut read } else { &mut foreign }) += 1;
        }
        let lost = loaded.losses.count(Loss::RingFull);
        ensure!(lost > 0 && read > 0, "read {read}, lost {lost}");
        ensure!(read + foreign + lost >= 2 * MADE as u64, "read {read}, lost {lost}");
        if read + lost == 2 * MADE as u64 {
            return Ok(());
        }
    }
    kit::skip!("others make cgroups here all the time");
}

/// c186: a tracepoint that is not there is off by itself, with its reason; the others run.
#[test]
fn c186_a_missing_tracepoint_leaves_the_others_on() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut config = config(&tree)?;
    // An object whose third program has another name, as a kernel that renamed the tracepoint would have it.
    let mut object = EMBEDDED.context("an object")?.to_vec();
    let name = program::SCHED_STAT_RUNTIME.as_bytes();
    let places: Vec<usize> =
        (0..object.len() - name.len()).filter(|at| object[*at..].starts_with(name)).collect();
    for at in places {
        object[at] = b'x';
    }
    config.object = Some(object.leak());
    let mut sensors = sensors(&background, &config)?;
    ensure!(sensors.mode.is_ebpf() && !sensors.usage_mode.is_ebpf(), "{:?}", sensors.usage_mode);
    let results = probe_tracepoints(&config)?;
    let ok: Vec<_> = results.iter().map(|probe| (probe.name, probe.ok)).collect();
    ensure!(
        ok == [
            (program::CGROUP_MKDIR, true),
            (program::CGROUP_RMDIR, true),
            (program::SCHED_STAT_RUNTIME, false)
        ],
        "{results:?}"
    );
    let pod = format!("{}/pod1", tree.kubepods());
    tree.make(&pod)?;
    ensure!(collect(&mut sensors, 1).iter().any(born));
    sensors.cpu_time.sample();
    ensure!(sensors.cpu_time.total(&dir(&pod)).is_some(), "CPU time comes from files");
    config.mode = EbpfMode::Required;
    let _inside = background.handle.enter();
    ensure!(start(&config).is_err(), "required, and not there");
    Ok(())
}

/// Every tracepoint can be attached here, and is said to be.
#[test]
fn doctor_finds_each_tracepoint() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    for probe in probe_tracepoints(&config(&tree)?)? {
        ensure!(probe.ok, "{probe:?}");
    }
    Ok(())
}

/// c191: without the capability the answer is a reason, not an exit. The test runs itself as another user.
#[test]
fn c191_without_permission_the_reason_says_so() -> Result<()> {
    use std::os::unix::process::CommandExt as _;
    const UNPRIVILEGED: &str = "KOORDLET_TEST_UNPRIVILEGED";
    if let Ok(kubepods) = std::env::var(UNPRIVILEGED) {
        return say_why_not(&kubepods);
    }
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let mut child = Command::new(std::env::current_exe()?);
    child.args(["--exact", "--nocapture", "ebpf_events::c191_without_permission_the_reason_says_so"]);
    child.env(UNPRIVILEGED, tree.kubepods()).uid(65_534).gid(65_534);
    let output = match child.output() {
        Ok(output) => output,
        Err(error) => kit::skip!("another user cannot run the test binary: {error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(text.contains("WHY NOT: not_permitted"), "{text} {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The other user's part.
#[expect(clippy::print_stdout, reason = "the answer of this process to the one that started it")]
fn say_why_not(kubepods: &str) -> Result<()> {
    let roots = Roots::host();
    let layout = Arc::new(Layout::detect(&roots)?);
    let config = SensorConfig::new(roots, layout, WatchedDirs::new([dir(kubepods)]));
    let background = Background::new()?;
    if let SensorMode::Files { reason } = &sensors(&background, &config)?.mode {
        println!("WHY NOT: {} ({})", reason.label(), reason.chain());
    }
    Ok(())
}
