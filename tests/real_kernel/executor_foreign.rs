//! What others write on the real kernel, and directories that are being made.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kit::latency::Latencies;
use kit::{Controller, Tree, guest_scale, need, offers};
use koordlet::cgroup::path::CgroupDir;
use koordlet::cgroup::resource::{self, Resource};
use koordlet::cgroup::value::Value;
use koordlet::ebpf::events::CgroupEvent;

use crate::executor_rig::{Dirs, Plans, Rig, quota, shares};

/// Reads the quota without a pause until it is `wanted`, for at most 20 s.
fn repaired_after(tree: &Tree, dir: &str, wanted: i64) -> Result<Duration> {
    let start = Instant::now();
    while tree.cfs_quota(dir)? != wanted {
        ensure!(start.elapsed() < kit::patience(), "{dir} is not repaired");
        std::hint::spin_loop();
    }
    Ok(start.elapsed())
}

#[test]
fn c001_foreign_writes_are_repaired_in_one_write() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    let rig = Rig::start()?;
    let count = guest_scale(100, 20);
    let pods: Vec<String> = (0..count).map(|number| format!("{}/podf{number}", dirs.class)).collect();
    let mut plan = Plans::new();
    for pod in &pods {
        dirs.tree.make(pod)?;
        plan = plan.hold(pod, Resource::CfsQuota, quota(320_000))?;
    }
    rig.apply(&plan)?;
    let written = rig.stats()?.written.load(Ordering::Relaxed);
    let mut times = Latencies::default();
    for pod in &pods {
        dirs.tree.set_cfs_quota(pod, -1)?;
        times.push(repaired_after(&dirs.tree, pod, 320_000)?);
    }
    println!("foreign write to repaired, a fresh target each: {}", times.summary());
    rig.settle()?;
    let stats = rig.stats()?;
    let foreign = stats.foreign.load(Ordering::Relaxed);
    ensure!(usize::try_from(foreign)? == count, "{foreign} foreign writes seen of {count}");
    ensure!(stats.written.load(Ordering::Relaxed) - written == foreign, "one write each");
    Ok(())
}

#[test]
fn own_writes_are_not_foreign_and_an_unchanged_plan_writes_nothing() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    let rig = Rig::start()?;
    for raw in (1..=50).map(|step| 2000 * step) {
        rig.apply(&Plans::new().hold(&dirs.class, Resource::CfsQuota, quota(raw))?)?;
    }
    let last = Plans::new().hold(&dirs.class, Resource::CfsQuota, quota(100_000))?;
    sleep(Duration::from_millis(100));
    rig.settle()?;
    let before = rig.stats()?.written.load(Ordering::Relaxed);
    for _ in 0..20 {
        rig.apply(&last)?;
    }
    let stats = rig.stats()?;
    ensure!(stats.foreign.load(Ordering::Relaxed) == 0 && before == 50, "{before} writes");
    ensure!(stats.written.load(Ordering::Relaxed) == before);
    Ok(())
}

fn born(tree: &Tree, dir: &str) -> Result<CgroupEvent> {
    let id = fs::metadata(tree.file(Controller::Cpu, dir, ""))?.ino();
    Ok(CgroupEvent::Born { controllers: vec![resource::Controller::Cpu], id, dir: CgroupDir::new(dir)? })
}

/// What runc does: makes the groups, and only then sets shares and quota.
#[test]
fn c202_a_value_holds_at_the_end_of_a_birth_whatever_the_runtime_writes() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    let rig = Rig::start()?;
    let file = |v1: &'static str, v2: &'static str| if dirs.tree.is_v2() { v2 } else { v1 };
    for (number, pause) in [0, 1, 3, 8, 12, 30].into_iter().enumerate() {
        let pod = format!("{}/podb{number}", dirs.class);
        let plan = Plans::new()
            .hold(&pod, Resource::CfsQuota, quota(50_000))?
            .hold(&pod, Resource::CpuShares, shares(512))?
            .hold(&pod, Resource::CfsBurst, Value::Int(10_000))?;
        rig.apply(&plan)?;
        dirs.tree.make(&pod)?;
        rig.executor()?.cgroup_event(born(&dirs.tree, &pod)?);
        sleep(Duration::from_millis(pause));
        // The burst may be in already, and the kernel wants the quota above it.
        let weight = file("cpu.shares", "cpu.weight");
        dirs.tree.write(Controller::Cpu, &pod, weight, "100")?;
        dirs.tree.set_cfs_quota(&pod, 200_000)?;
        let held = kit::until(kit::patience(), || {
            rig.settle().is_ok()
                && rig.not_held().is_ok_and(|open| open.is_empty())
                && dirs.tree.cfs_quota(&pod).is_ok_and(|quota| quota == 50_000)
        });
        ensure!(held, "after {pause} ms: {:?}", rig.not_held()?);
        let wished = file("512", "20");
        let shares_hold = kit::until(kit::patience(), || {
            dirs.tree.read(Controller::Cpu, &pod, weight).is_ok_and(|text| text == wished)
        });
        ensure!(shares_hold);
    }
    let stats = rig.stats()?;
    ensure!(stats.foreign.load(Ordering::Relaxed) == 0, "a birth is not foreign");
    ensure!(rig.refusals()? == 0);
    Ok(())
}

#[test]
fn a_static_pod_that_comes_back_under_its_path_is_another_one() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    let rig = Rig::start()?;
    let plan = Plans::new().hold(&dirs.container, Resource::CfsQuota, quota(50_000))?;
    rig.apply(&plan)?;
    dirs.tree.remove(&dirs.pod)?;
    dirs.tree.make(&dirs.container)?;
    rig.executor()?.cgroup_event(born(&dirs.tree, &dirs.container)?);
    let held = kit::until(kit::patience(), || {
        dirs.tree.cfs_quota(&dirs.container).is_ok_and(|quota| quota == 50_000)
    });
    ensure!(held);
    rig.settle()?;
    let id = fs::metadata(dirs.tree.file(Controller::Cpu, &dirs.container, ""))?.ino();
    let report = rig.explain()?.pop().context("no report")?;
    ensure!(report.cgroup_id == Some(id), "{report:?}");
    dirs.tree.set_cfs_quota(&dirs.container, -1)?;
    repaired_after(&dirs.tree, &dirs.container, 50_000)?;
    Ok(())
}

/// Times that the executor's thread has gone to sleep.
fn sleeps() -> Result<u64> {
    let mut total = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        // Another thread of the test may end meanwhile.
        let Ok(name) = fs::read_to_string(task.join("comm")) else { continue };
        if name.trim() == "executor" {
            let status = fs::read_to_string(task.join("status"))?;
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            total += line.context("no such line")?.trim().parse::<u64>()?;
        }
    }
    Ok(total)
}

#[test]
fn an_idle_executor_sleeps() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    let rig = Rig::start()?;
    let mut plan = Plans::new();
    for number in 0..50 {
        let pod = format!("{}/podi{number}", dirs.class);
        dirs.tree.make(&pod)?;
        plan = plan.hold(&pod, Resource::CpuShares, shares(512))?;
    }
    rig.apply(&plan)?;
    // What its own writes have to say is over by then.
    sleep(Duration::from_millis(200));
    let before = sleeps()?;
    sleep(Duration::from_secs(3));
    let woken = sleeps()? - before;
    println!("an executor with 50 held targets woke {woken} times in 3 s");
    ensure!(woken <= 3, "it woke {woken} times");
    Ok(())
}
