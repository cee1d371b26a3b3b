//! Without eBPF: inotify and cgroup files give the same as the tracepoints do.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::{Class, Controller, Driver, Tree, need, offers};
use koordlet::config::{CpuUsageSource, EbpfMode};
use koordlet::ebpf::events::CgroupEvent;
use koordlet::ebpf::sensors::{SensorConfig, SensorError, SensorMode, Sensors, start};

use crate::running::{Background, collect, config, dir, event_dir, offers_ebpf, sensors};

fn off(tree: &Tree) -> Result<SensorConfig> {
    Ok(SensorConfig { mode: EbpfMode::Off, ..config(tree)? })
}

/// Births and deaths without their order, which differs between hierarchies.
fn sorted(events: &[CgroupEvent]) -> BTreeSet<String> {
    events.iter().map(|event| format!("{event:?}")).collect()
}

fn wait_for_birth(sensors: &mut Sensors, path: &str) -> bool {
    let path = dir(path);
    kit::until(kit::patience(), || {
        std::iter::from_fn(|| sensors.events.try_recv().ok())
            .any(|event| matches!(event, CgroupEvent::Born { .. }) && event_dir(&event) == Some(&path))
    })
}

#[test]
fn inotify_gives_the_same_events_as_ebpf() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Systemd)?;
    let background = Background::new()?;
    let mut by_ebpf = sensors(&background, &config(&tree)?)?;
    let mut by_inotify = sensors(&background, &off(&tree)?)?;
    ensure!(by_ebpf.mode.is_ebpf() && !by_inotify.mode.is_ebpf());
    let burstable = tree.class_dir(Class::Burstable);
    let pod = format!("{burstable}/kubepods-burstable-pod1_2.slice");
    let container = format!("{pod}/cri-containerd-ab.scope");
    let guaranteed = format!("{}/kubepods-pod3.slice/cri-containerd-cd.scope", tree.kubepods());
    tree.make(&container)?;
    tree.make(&guaranteed)?;
    tree.make(&format!("{}/elsewhere", tree.root()))?;
    let mounts = tree.hierarchies().mounts().len();
    let births = [collect(&mut by_ebpf, 4 * mounts), collect(&mut by_inotify, 4 * mounts)];
    ensure!(births[0].len() == 4 * mounts, "{:?}", births[0]);
    ensure!(sorted(&births[0]) == sorted(&births[1]), "{:#?}\n{:#?}", births[0], births[1]);
    tree.remove(&burstable)?;
    let deaths = [collect(&mut by_ebpf, 3 * mounts), collect(&mut by_inotify, 3 * mounts)];
    ensure!(deaths[0].len() == 3 * mounts, "{:?}", deaths[0]);
    ensure!(sorted(&deaths[0]) == sorted(&deaths[1]), "{:#?}\n{:#?}", deaths[0], deaths[1]);
    Ok(())
}

/// c147, h06: a container made at once after its pod is seen, though no watch was on the pod yet.
#[test]
fn h06_what_is_made_before_the_watch_is_found_by_listing() -> Result<()> {
    need!(offers::cgroups());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut sensors = sensors(&background, &off(&tree)?)?;
    let resume = background.pause();
    let container = format!("{}/pod1/c1", tree.class_dir(Class::BestEffort));
    tree.make(&container)?;
    drop(resume);
    ensure!(wait_for_birth(&mut sensors, &container));
    Ok(())
}

/// c204: directories that were removed and made again are watched again, the top one included.
#[test]
fn c204_removed_and_made_again_is_watched_again() -> Result<()> {
    need!(offers::cgroups());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut sensors = sensors(&background, &off(&tree)?)?;
    let class = tree.class_dir(Class::BestEffort);
    for (round, removed) in [class.clone(), tree.kubepods(), class.clone()].iter().enumerate() {
        tree.remove(removed)?;
        tree.make(&class)?;
        ensure!(wait_for_birth(&mut sensors, &class), "round {round}: the class");
        let pod = format!("{class}/pod{round}");
        tree.make(&pod)?;
        ensure!(wait_for_birth(&mut sensors, &pod), "round {round}: the pod");
    }
    Ok(())
}

#[test]
fn nothing_need_exist_at_start() -> Result<()> {
    need!(offers::cgroups());
    let tree = Tree::bare(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut sensors = sensors(&background, &off(&tree)?)?;
    let pod = format!("{}/pod1", tree.class_dir(Class::Burstable));
    tree.make(&pod)?;
    ensure!(wait_for_birth(&mut sensors, &pod));
    Ok(())
}

/// A host application's directory that the agent learns of later is watched from then on.
#[test]
fn a_directory_watched_later_gives_events() -> Result<()> {
    need!(offers::cgroups());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let config = off(&tree)?;
    let mut sensors = sensors(&background, &config)?;
    let apps = format!("{}/host-best-effort", tree.root());
    tree.make(&format!("{apps}/old"))?;
    config.watched.add(dir(&apps));
    // The watch begins at some point after this: apps are made until one is seen.
    let mut number = 0;
    let seen = kit::until(kit::patience(), || {
        number += 1;
        let app = format!("{apps}/app{number}");
        tree.make(&app).is_ok()
            && std::iter::from_fn(|| sensors.events.try_recv().ok())
                .any(|e| event_dir(&e).is_some_and(|d| dir(&apps).contains(d)))
    });
    ensure!(seen);
    Ok(())
}

/// c182, c191: no BTF, no object, switched off: files, with the reason; required: an error that says it.
#[test]
fn c182_each_reason_is_named_and_files_take_over() -> Result<()> {
    need!(offers::cgroups());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let empty = tempfile::tempdir()?;
    let no_btf = {
        let mut config = config(&tree)?;
        config.roots.sys = empty.path().to_owned();
        config.object = Some(b"not looked at");
        config
    };
    let not_built_in = SensorConfig { object: None, ..config(&tree)? };
    let cases = [(off(&tree)?, "off"), (no_btf, "no_btf"), (not_built_in, "not_built_in")];
    for (mut config, label) in cases {
        let mut sensors = sensors(&background, &config)?;
        let SensorMode::Files { reason } = &sensors.mode else { anyhow::bail!("{label}: eBPF is on") };
        ensure!(reason.label() == label, "{label}: {}", reason.chain());
        let pod = format!("{}/pod-{label}", tree.kubepods());
        tree.make(&pod)?;
        ensure!(wait_for_birth(&mut sensors, &pod));
        sensors.cpu_time.sample();
        ensure!(sensors.cpu_time.total(&dir(&pod)).is_some());
        if config.mode == EbpfMode::Auto {
            config.mode = EbpfMode::Required;
            let _inside = background.handle.enter();
            let refused = start(&config).err().with_context(|| format!("{label}: not refused"))?;
            let SensorError::Required { source, .. } = &refused;
            ensure!(source.label() == label);
        }
    }
    Ok(())
}

/// `--cpu-usage-source=files`: events from eBPF, CPU time from files; both sources give the same figures.
#[test]
fn files_and_ebpf_give_the_same_cpu_time() -> Result<()> {
    need!(offers_ebpf());
    let tree = Tree::with_driver(Driver::Cgroupfs)?;
    let background = Background::new()?;
    let mut counted = sensors(&background, &config(&tree)?)?;
    let files =
        SensorConfig { mode: EbpfMode::Required, usage_source: CpuUsageSource::Files, ..config(&tree)? };
    let mut read = sensors(&background, &files)?;
    ensure!(read.mode.is_ebpf() && !read.usage_mode.is_ebpf());
    let path = format!("{}/pod1/c", tree.kubepods());
    tree.make(&path)?;
    let load = tree.spin(&path, 1)?;
    std::thread::sleep(Duration::from_millis(300));
    load.stop();
    for path in [path.as_str(), &format!("{}/pod1", tree.kubepods()), &tree.kubepods()] {
        counted.cpu_time.sample();
        read.cpu_time.sample();
        let (a, b) = (counted.cpu_time.total(&dir(path)), read.cpu_time.total(&dir(path)));
        let (a, b) = (a.context("counted")?.0, b.context("read")?.0);
        ensure!(a.abs_diff(b) < 1_000_000, "{path}: {a} and {b}");
        ensure!(
            b == tree.read(Controller::Cpuacct, path, "cpuacct.usage").map_or(b, |t| t.parse().unwrap_or(b))
        );
    }
    Ok(())
}
