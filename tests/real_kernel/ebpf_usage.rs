//! CPU time from the eBPF map against the kernel's own files: claims of design.md 2 and 4.
//!
//! A figure is compared with its file between two reads of the file, so that no clock plays a part.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kit::load::Work;
use kit::{Controller, Driver, Load, Tree, need};
use koordlet::ebpf::sensors::Sensors;
use koordlet::ebpf::usage::Pace;
use koordlet::ebpf::usage_stats::Count;

use crate::running::{Background, config, dir, id, offers_ebpf, sensors};

/// Waits short enough for a test to see burials and slots serve again.
const QUICK: Pace = Pace {
    dead: Duration::from_millis(200),
    forgotten: Duration::from_millis(100),
    verify: Duration::from_hours(1),
    full: Duration::from_hours(1),
    stranger: Duration::from_hours(1),
};

/// A charge that one side has seen and the other not: at most a scheduler tick on every CPU.
const IN_FLIGHT: u64 = 10_000_000;

fn pod(tree: &Tree, number: usize) -> String {
    format!("{}/pod{number}", tree.class_dir(kit::Class::Burstable))
}

fn container(tree: &Tree, number: usize, name: &str) -> String {
    format!("{}/{name}", pod(tree, number))
}

/// The figure, with the file read before and after. A birth may still be on its way.
fn bracket(tree: &Tree, sensors: &mut Sensors, path: &str) -> Result<(u64, u64, u64)> {
    let id = id(tree, Controller::Cpuacct, path)?;
    kit::until(kit::patience(), || {
        sensors.cpu_time.identity(&dir(path)) == Some(id) || {
            sensors.cpu_time.sample();
            false
        }
    });
    let low = tree.cpu_usage_nanos(path)?;
    sensors.cpu_time.sample();
    let figure = sensors.cpu_time.total(&dir(path)).with_context(|| format!("{path} is unknown"))?.0;
    let high = tree.cpu_usage_nanos(path)?;
    Ok((low, figure, high))
}

/// Within 1 % of the file, but for what is in flight.
fn assert_agrees(tree: &Tree, sensors: &mut Sensors, path: &str) -> Result<()> {
    let (low, figure, high) = bracket(tree, sensors, path)?;
    let slack = low / 100 + IN_FLIGHT;
    ensure!(
        figure + slack >= low && figure <= high + slack,
        "{path}: the map says {figure}, the file between {low} and {high}"
    );
    Ok(())
}

#[test]
fn fifty_busy_containers_agree_with_their_files_through_death_and_nesting() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut paths: Vec<String> = (0..50).map(|n| container(&tree, n / 5, &format!("c{n}"))).collect();
    // Half of them have run before anybody looked.
    let (early, late) = paths.split_at(25);
    let mut loads: BTreeMap<String, Load> = BTreeMap::new();
    let start = |path: &String, loads: &mut BTreeMap<String, Load>| -> Result<()> {
        tree.make(path)?;
        loads.insert(path.clone(), tree.spin(path, 1)?);
        Ok(())
    };
    early.iter().try_for_each(|path| start(path, &mut loads))?;
    let mut sensors = sensors(&background, &{
        let mut config = config(&tree)?;
        config.pace = QUICK;
        config
    })?;
    ensure!(sensors.usage_mode.is_ebpf(), "{:?}", sensors.usage_mode);
    late.iter().try_for_each(|path| start(path, &mut loads))?;
    // One container has groups of its own, as systemd makes them.
    let nested_in = container(&tree, 10, "systemd");
    let nested = format!("{nested_in}/system.slice/unit.service");
    tree.make(&nested)?;
    let _deep = tree.spin(&nested, 1)?;
    paths.push(nested_in.clone());

    let watch: Vec<String> = (0..=10).map(|n| pod(&tree, n)).chain([tree.kubepods()]).collect();
    let mut highest: BTreeMap<&String, u64> = BTreeMap::new();
    let victim = paths.remove(7);
    let (begin, mut victim_lives) = (Instant::now(), true);
    while begin.elapsed() < Duration::from_secs(2) {
        sensors.cpu_time.sample();
        for path in &watch {
            let total = sensors.cpu_time.total(&dir(path)).map_or(0, |t| t.0);
            let before = highest.insert(path, total).unwrap_or(0);
            ensure!(total >= before, "{path} stepped back from {before} to {total}");
        }
        if victim_lives && begin.elapsed() > Duration::from_secs(1) {
            victim_lives = false;
            loads.remove(&victim);
            tree.remove(&victim)?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    for path in paths.iter().chain(&watch) {
        assert_agrees(&tree, &mut sensors, path)?;
    }
    ensure!(sensors.cpu_time.total(&dir(&victim)).is_none(), "a dead directory has no figure");
    let usage = sensors.handle.usage().context("counters")?;
    ensure!(usage.get(Count::Buried) >= 1, "the dead container's slot was given back");
    ensure!(usage.get(Count::DirsOnFiles) == 0);
    Ok(())
}

#[test]
fn slots_serve_one_container_after_another() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut config = config(&tree)?;
    (config.pace, config.slots) = (QUICK, 32);
    let mut sensors = sensors(&background, &config)?;
    let pod = pod(&tree, 1);
    tree.make(&pod)?;
    let mut highest = 0;
    for number in 0..60 {
        let path = container(&tree, 1, &format!("c{number}"));
        tree.make(&path)?;
        let load = tree.spin(&path, 1)?;
        std::thread::sleep(Duration::from_millis(30));
        load.stop();
        // Nothing runs in it any more: both sides hold still.
        let (low, figure, high) = bracket(&tree, &mut sensors, &path)?;
        ensure!(low == high, "{path} still runs");
        ensure!(figure.abs_diff(low) < 1_000_000, "{path}: the map says {figure}, the file {low}");
        let total = sensors.cpu_time.total(&dir(&pod)).context("the pod")?.0;
        ensure!(total >= highest, "the pod stepped back from {highest} to {total}");
        highest = total;
        tree.remove(&path)?;
    }
    kit::until(kit::patience(), || {
        sensors.cpu_time.sample();
        sensors.handle.usage().is_some_and(|usage| usage.get(Count::Buried) >= 60)
    });
    let usage = sensors.handle.usage().context("counters")?;
    ensure!(usage.get(Count::Buried) >= 60, "only {} burials", usage.get(Count::Buried));
    let (low, figure, _) = bracket(&tree, &mut sensors, &pod)?;
    ensure!(figure.abs_diff(low) < 3_000_000, "the pod: the map says {figure}, the file {low}");
    Ok(())
}

#[test]
fn groups_that_never_ran_are_forgotten_like_the_others() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut config = config(&tree)?;
    config.pace = QUICK;
    let mut sensors = sensors(&background, &config)?;
    tree.make(&pod(&tree, 1))?;
    for number in 0..20 {
        let path = container(&tree, 1, &format!("c{number}"));
        tree.make(&path)?;
        tree.remove(&path)?;
    }
    let buried = kit::until(kit::patience(), || {
        sensors.cpu_time.sample();
        sensors.handle.usage().is_some_and(|usage| usage.get(Count::Buried) >= 20)
    });
    ensure!(buried, "{:?} burials", sensors.handle.usage().map(|usage| usage.get(Count::Buried)));
    Ok(())
}

#[test]
fn a_static_pod_under_the_same_path_starts_anew() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut sensors = sensors(&background, &config(&tree)?)?;
    let path = container(&tree, 1, "same");
    tree.make(&path)?;
    let load = tree.spin(&path, 1)?;
    std::thread::sleep(Duration::from_millis(200));
    load.stop();
    assert_agrees(&tree, &mut sensors, &path)?;
    let first = sensors.cpu_time.identity(&dir(&path));
    ensure!(first == Some(id(&tree, Controller::Cpuacct, &path)?), "identity is the directory's inode");
    tree.remove(&pod(&tree, 1))?;
    tree.make(&path)?;
    let (low, figure, _) = bracket(&tree, &mut sensors, &path)?;
    ensure!((low, figure) == (0, 0), "a new group has used nothing: {figure}");
    let second = sensors.cpu_time.identity(&dir(&path));
    ensure!(second != first && second == Some(id(&tree, Controller::Cpuacct, &path)?));
    Ok(())
}

#[test]
fn a_full_map_puts_whole_pods_on_files_and_the_numbers_stay_right() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut config = config(&tree)?;
    (config.pace, config.slots) = (Pace { full: Duration::from_millis(500), ..QUICK }, 4);
    let mut sensors = sensors(&background, &config)?;
    let paths: Vec<String> = (0..9).map(|n| container(&tree, n / 3, &format!("c{n}"))).collect();
    let mut loads = Vec::new();
    for path in &paths {
        tree.make(path)?;
        loads.push(tree.spin(path, 1)?);
    }
    std::thread::sleep(Duration::from_millis(500));
    sensors.cpu_time.sample();
    let pods: Vec<String> = (0..3).map(|n| pod(&tree, n)).collect();
    let all: Vec<&String> = paths.iter().chain(&pods).collect();
    all.iter().try_for_each(|path| assert_agrees(&tree, &mut sensors, path))?;
    let refused: u64 =
        sensors.handle.losses().filter(|(r, _)| r.name() == "slots_full").map(|(_, n)| n).sum();
    ensure!(refused > 0, "four slots do for nine containers");
    ensure!(sensors.handle.usage().is_some_and(|usage| usage.get(Count::DirsOnFiles) > 0));
    // A container born in such a pod is on files as well.
    let born = container(&tree, 0, "born");
    tree.make(&born)?;
    loads.push(tree.spin(&born, 1)?);
    std::thread::sleep(Duration::from_millis(200));
    assert_agrees(&tree, &mut sensors, &born)?;
    // When there is room again, counting starts where the files are.
    loads.clear();
    for n in 1..3 {
        tree.remove(&pod(&tree, n))?;
    }
    let back = kit::until(kit::patience(), || {
        sensors.cpu_time.sample();
        sensors.handle.usage().is_some_and(|usage| usage.get(Count::DirsOnFiles) == 0)
    });
    ensure!(back, "still on files");
    let load = tree.spin(&paths[0], 1)?;
    std::thread::sleep(Duration::from_millis(200));
    load.stop();
    [&paths[0], &pods[0], &born].iter().try_for_each(|path| assert_agrees(&tree, &mut sensors, path))
}

#[test]
fn an_idle_container_is_known_to_be_idle() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut sensors = sensors(&background, &config(&tree)?)?;
    let (busy, idle) = (container(&tree, 1, "busy"), container(&tree, 1, "idle"));
    tree.make(&busy)?;
    tree.make(&idle)?;
    let _load = tree.load(&busy, Work::Duty { percent: 20 })?;
    tree.load(&idle, Work::Sleep)?.stop();
    std::thread::sleep(Duration::from_millis(100));
    let mut totals = || {
        sensors.cpu_time.sample();
        [&busy, &idle].map(|path| sensors.cpu_time.total(&dir(path)))
    };
    let before = totals();
    std::thread::sleep(Duration::from_millis(200));
    let after = totals();
    ensure!(before[0] < after[0] && before[1] == after[1], "{before:?}, then {after:?}");
    Ok(())
}

#[test]
fn c190_after_lost_births_the_tree_is_scanned() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut config = config(&tree)?;
    (config.pace, config.ring_bytes) = (QUICK, 4096);
    let mut sensors = sensors(&background, &config)?;
    let resume = background.pause();
    let paths: Vec<String> = (0..40).map(|n| container(&tree, 1, &format!("c{n}"))).collect();
    paths.iter().try_for_each(|path| tree.make(path))?;
    let load = tree.spin(&paths[39], 1)?;
    std::thread::sleep(Duration::from_millis(100));
    load.stop();
    drop(resume);
    let heard = kit::until(kit::patience(), || {
        sensors.cpu_time.sample();
        sensors.cpu_time.identity(&dir(&paths[39])).is_some()
    });
    ensure!(heard, "the births that were lost are found in the tree");
    paths.iter().try_for_each(|path| assert_agrees(&tree, &mut sensors, path))?;
    let lost = std::iter::from_fn(|| sensors.events.try_recv().ok())
        .any(|event| matches!(event, koordlet::ebpf::events::CgroupEvent::Lost { count } if count > 0));
    ensure!(lost, "the agent is told");
    Ok(())
}
