//! The executor's writes on the real kernel: orders that it takes, values that it rounds or refuses.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::{Controller, Tree, need, offers};
use koordlet::cgroup::resource::Resource;
use koordlet::cgroup::value::Value;
use koordlet::claims::plan::Decision;
use koordlet::executor::TargetState;
use koordlet::units::MemoryLimit;

use crate::executor_rig::{Dirs, Plans, Rig, bytes, cpus, quota, shares};

const MIB: u64 = 1 << 20;

fn burst(dirs: &Dirs) -> Result<String> {
    let file = if dirs.tree.is_v2() { "cpu.max.burst" } else { "cpu.cfs_burst_us" };
    dirs.tree.read(Controller::Cpu, &dirs.pod, file)
}

fn both(dirs: &Dirs, raw: i64) -> Result<Plans> {
    let plan = Plans::new().hold(&dirs.pod, Resource::CfsQuota, quota(raw))?;
    plan.hold(&dirs.container, Resource::CfsQuota, quota(raw))
}

#[test]
fn c006_quotas_shrink_and_grow_without_a_refusal() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    let rig = Rig::start()?;
    for raw in [400_000, 200_000, 100_000, 300_000, -1, 150_000] {
        rig.apply(&both(&dirs, raw)?)?;
        ensure!(dirs.tree.cfs_quota(&dirs.pod)? == raw && dirs.tree.cfs_quota(&dirs.container)? == raw);
    }
    // A child without a limit is accepted under a limited parent.
    let open_child = Plans::new().hold(&dirs.pod, Resource::CfsQuota, quota(90_000))?.hold(
        &dirs.container,
        Resource::CfsQuota,
        quota(-1),
    )?;
    rig.apply(&open_child)?;
    ensure!(dirs.tree.cfs_quota(&dirs.container)? == -1);
    ensure!(rig.refusals()? == 0 && rig.not_held()?.is_empty(), "{:?}", rig.not_held()?);
    Ok(())
}

#[test]
fn a_rounded_quota_is_written_out_before_the_pod_is_narrowed_beneath_it() -> Result<()> {
    need!(offers::cgroup_v1());
    let dirs = Dirs::new()?;
    let rig = Rig::start()?;
    let container = Plans::new().hold(&dirs.container, Resource::CfsQuota, quota(119_001))?;
    dirs.tree.set_cfs_quota(&dirs.container, 120_000)?;
    rig.apply(&container)?;
    ensure!(dirs.tree.cfs_quota(&dirs.container)? == 120_000, "what systemd makes of it is as good");
    ensure!(dirs.tree.set_cfs_quota(&dirs.pod, 119_001).is_err(), "this kernel goes by the figure");
    rig.apply(&container.clone().hold(&dirs.pod, Resource::CfsQuota, quota(119_001))?)?;
    let held = (dirs.tree.cfs_quota(&dirs.pod)?, dirs.tree.cfs_quota(&dirs.container)?);
    ensure!(held == (119_001, 119_001), "{held:?}");
    ensure!(rig.refusals()? == 0 && rig.not_held()?.is_empty(), "{:?}", rig.not_held()?);
    rig.apply(&Plans::new())?;
    let given = (dirs.tree.cfs_quota(&dirs.pod)?, dirs.tree.cfs_quota(&dirs.container)?);
    ensure!(given == (-1, 120_000), "{given:?}");
    Ok(())
}

#[test]
fn c007_c017_c215_a_burst_goes_with_its_quota() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    dirs.tree.set_cfs_quota(&dirs.pod, 200_000)?;
    let file = if dirs.tree.is_v2() { "cpu.max.burst" } else { "cpu.cfs_burst_us" };
    dirs.tree.write(Controller::Cpu, &dirs.pod, file, "200000")?;
    let rig = Rig::start()?;
    rig.apply(&Plans::new().hold(&dirs.pod, Resource::CfsQuota, quota(150_000))?)?;
    ensure!((dirs.tree.cfs_quota(&dirs.pod)?, burst(&dirs)?) == (150_000, "150000".to_owned()));
    let wished = |b| {
        let plan = Plans::new().hold(&dirs.pod, Resource::CfsQuota, quota(150_000))?;
        plan.hold(&dirs.pod, Resource::CfsBurst, Value::Int(b))
    };
    rig.apply(&wished(1_000_000)?)?;
    ensure!(burst(&dirs)? == "150000", "cut to the quota");
    ensure!(rig.report(file)?.detail.is_some_and(|detail| detail.contains("150000")), "the cut is explained");
    rig.apply(&wished(0)?)?;
    ensure!(burst(&dirs)? == "0");
    rig.apply(&Plans::new())?;
    ensure!((dirs.tree.cfs_quota(&dirs.pod)?, burst(&dirs)?) == (200_000, "200000".to_owned()), "restored");
    ensure!(rig.refusals()? == 0);
    Ok(())
}

#[test]
fn c009_a_restored_period_comes_back_with_its_quota() -> Result<()> {
    need!(offers::cgroup_v1());
    let dirs = Dirs::new()?;
    let write = |dir: &str, file: &str, text: &str| dirs.tree.write(Controller::Cpu, dir, file, text);
    dirs.tree.set_cfs_quota(&dirs.pod, 50_000)?;
    dirs.tree.set_cfs_quota(&dirs.container, 25_000)?;
    write(&dirs.container, "cpu.cfs_period_us", "50000")?;
    let rig = Rig::start()?;
    rig.apply(&Plans::new().hold(&dirs.container, Resource::CfsQuota, quota(20_000))?)?;
    ensure!(dirs.tree.cfs_quota(&dirs.container)? == 10_000, "scaled to the period in force");
    write(&dirs.container, "cpu.cfs_period_us", "100000")?;
    let scaled = kit::until(kit::patience(), || {
        dirs.tree.cfs_quota(&dirs.container).is_ok_and(|quota| quota == 20_000)
    });
    ensure!(scaled, "another period scales the quota again");
    rig.apply(&Plans::new())?;
    let period = dirs.tree.read(Controller::Cpu, &dirs.container, "cpu.cfs_period_us")?;
    ensure!((dirs.tree.cfs_quota(&dirs.container)?, period.as_str()) == (25_000, "50000"));
    ensure!(rig.refusals()? == 0);
    Ok(())
}

#[test]
fn c011_c012_idle_keeps_shares_and_gives_them_back() -> Result<()> {
    need!(offers::cgroup_v1());
    let dirs = Dirs::new()?;
    let read = |file: &str| dirs.tree.read(Controller::Cpu, &dirs.pod, file);
    if read("cpu.idle").is_err() {
        kit::skip!("needs a kernel with cpu.idle on v1");
    }
    dirs.tree.write(Controller::Cpu, &dirs.pod, "cpu.shares", "2048")?;
    let rig = Rig::start()?;
    let idle = |on| Plans::new().hold(&dirs.pod, Resource::CpuIdle, Value::Int(on));
    rig.apply(&idle(1)?.hold(&dirs.pod, Resource::CpuShares, shares(512))?)?;
    ensure!((read("cpu.idle")?.as_str(), read("cpu.shares")?.as_str()) == ("1", "3"));
    rig.apply(&idle(0)?)?;
    ensure!(read("cpu.shares")? == "2048", "the kernel alone would leave 1024");
    ensure!(rig.refusals()? == 0);
    Ok(())
}

#[test]
fn a_class_directory_is_narrowed_above_quotas_that_nobody_claims() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    dirs.tree.set_cfs_quota(&dirs.pod, 100_000)?;
    dirs.tree.set_cfs_quota(&dirs.container, 80_000)?;
    let rig = Rig::start()?;
    let class = |raw| Plans::new().hold(&dirs.class, Resource::CfsQuota, quota(raw));
    for raw in [90_000, 50_000, 120_000, 30_000] {
        rig.apply(&class(raw)?)?;
        ensure!(dirs.tree.cfs_quota(&dirs.class)? == raw);
    }
    rig.apply(&Plans::new().decide(&dirs.class, Resource::CfsQuota, Decision::Release(quota(-1)))?)?;
    let quotas = [&dirs.class, &dirs.pod, &dirs.container].map(|dir| dirs.tree.cfs_quota(dir).ok());
    ensure!(quotas == [Some(-1), Some(100_000), Some(80_000)], "{quotas:?}");
    ensure!(rig.refusals()? == 0);
    Ok(())
}

#[test]
fn c027_cpusets_move_from_one_cpu_to_the_other_on_all_levels() -> Result<()> {
    need!(offers::cgroups());
    need!(offers::cpus(2));
    let dirs = Dirs::new()?;
    let rig = Rig::start()?;
    for list in ["0", "1", "0-1", "1", "0"] {
        let mut plan = Plans::new();
        for dir in [&dirs.class, &dirs.pod, &dirs.container] {
            plan = plan.hold(dir, Resource::Cpus, cpus(list)?)?;
        }
        rig.apply(&plan)?;
        for dir in [&dirs.class, &dirs.pod, &dirs.container] {
            ensure!(dirs.tree.read(Controller::Cpuset, dir, "cpuset.cpus")? == list, "{dir}");
        }
    }
    ensure!(rig.refusals()? == 0);
    Ok(())
}

#[test]
fn c024_cpus_outside_the_parents_are_cut_or_refused_and_explained() -> Result<()> {
    need!(offers::cgroup_v1());
    need!(offers::cpus(2));
    let dirs = Dirs::new()?;
    for dir in [&dirs.container, &dirs.pod, &dirs.class] {
        dirs.tree.write(Controller::Cpuset, dir, "cpuset.cpus", "0")?;
    }
    let rig = Rig::start()?;
    rig.apply(&Plans::new().hold(&dirs.container, Resource::Cpus, cpus("0-1")?)?)?;
    let report = rig.report("cpuset.cpus")?;
    ensure!(report.state == TargetState::Held && report.value.as_deref() == Some("0"), "{report:?}");
    ensure!(report.detail.is_some_and(|detail| detail.contains("0-1 cut to 0")), "what is left is said");
    rig.apply(&Plans::new().hold(&dirs.container, Resource::Cpus, cpus("1")?)?)?;
    let report = rig.report("cpuset.cpus")?;
    ensure!(report.state == TargetState::Refused, "nothing is left: {report:?}");
    ensure!(report.detail.is_some_and(|detail| detail.contains("EACCES")));
    for dir in [&dirs.class, &dirs.pod] {
        dirs.tree.write(Controller::Cpuset, dir, "cpuset.cpus", "0-1")?;
    }
    let held = kit::until(kit::patience(), || rig.not_held().is_ok_and(|open| open.is_empty()));
    ensure!(held, "tried again once the parent allows it");
    Ok(())
}

#[test]
fn c026_an_empty_list_is_not_written_to_a_group_with_tasks() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    let _task = dirs.tree.load(&dirs.container, kit::load::Work::Sleep)?;
    let before = dirs.tree.read(Controller::Cpuset, &dirs.container, "cpuset.cpus")?;
    let rig = Rig::start()?;
    rig.apply(&Plans::new().hold(&dirs.container, Resource::Cpus, cpus("")?)?)?;
    ensure!(dirs.tree.read(Controller::Cpuset, &dirs.container, "cpuset.cpus")? == before);
    ensure!(rig.report("cpuset.cpus")?.state == TargetState::Left && rig.refusals()? == 0);
    Ok(())
}

#[test]
fn c041_c042_memory_limits_are_compared_as_the_kernel_rounds_them() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    let file = if dirs.tree.is_v2() { "memory.max" } else { "memory.limit_in_bytes" };
    let read = || dirs.tree.read(Controller::Memory, &dirs.pod, file);
    let rig = Rig::start()?;
    rig.apply(&Plans::new().hold(&dirs.pod, Resource::MemoryLimit, bytes(100 * MIB + 1))?)?;
    let held = kit::until(kit::patience(), || rig.not_held().is_ok_and(|open| open.is_empty()));
    ensure!(held && read()? == (100 * MIB).to_string(), "{:?}", rig.not_held()?);
    let unlimited = Value::Memory(MemoryLimit::Unlimited);
    rig.apply(&Plans::new().hold(&dirs.pod, Resource::MemoryLimit, unlimited)?)?;
    let held = kit::until(kit::patience(), || rig.not_held().is_ok_and(|open| open.is_empty()));
    ensure!(held && ["9223372036854771712", "max"].contains(&read()?.as_str()), "{:?}", rig.not_held()?);
    ensure!(rig.refusals()? == 0);
    Ok(())
}

/// A process that holds so many bytes of memory in a group.
struct Hoard(Child);

impl Hoard {
    fn start(tree: &Tree, dir: &str, size: usize) -> Result<Self> {
        let mut tail = Command::new("tail");
        tail.args(["-c", &size.to_string()]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut hoard = Self(tail.spawn().context("tail")?);
        tree.attach(dir, hoard.0.id())?;
        // It keeps the last bytes of its input, and waits for more.
        hoard.0.stdin.as_mut().context("no stdin")?.write_all(&vec![7; size])?;
        Ok(hoard)
    }
}

impl Drop for Hoard {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn c039_a_memory_limit_below_use_is_refused_and_cpu_writes_do_not_wait_for_it() -> Result<()> {
    need!(offers::cgroup_v1());
    let dirs = Dirs::new()?;
    let hoard = Hoard::start(&dirs.tree, &dirs.pod, usize::try_from(64 * MIB)?)?;
    let rig = Rig::start()?;
    let plan = Plans::new().hold(&dirs.pod, Resource::MemoryLimit, bytes(32 * MIB))?;
    rig.apply(&plan)?;
    rig.apply(&plan.clone().hold(&dirs.class, Resource::CfsQuota, quota(50_000))?)?;
    ensure!(dirs.tree.cfs_quota(&dirs.class)? == 50_000, "while the kernel is at the memory limit");
    let refused = kit::until(Duration::from_secs(30), || rig.refusals().is_ok_and(|count| count > 0));
    if !refused {
        kit::skip!("needs a machine without swap: the kernel found room for the memory");
    }
    let report = rig.report("memory.limit_in_bytes")?;
    ensure!(report.detail.is_some_and(|detail| detail.contains("EBUSY")));
    drop(hoard);
    let held = kit::until(Duration::from_secs(90), || rig.not_held().is_ok_and(|open| open.is_empty()));
    ensure!(held, "tried again with back-off: {:?}", rig.not_held()?);
    Ok(())
}

#[test]
fn c031_a_directory_that_goes_is_no_failure() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    let other = format!("{}/pod2", dirs.class);
    dirs.tree.make(&other)?;
    let rig = Rig::start()?;
    let plan = |q| {
        let plan = Plans::new().hold(&dirs.pod, Resource::CfsQuota, quota(q))?;
        plan.hold(&other, Resource::CfsQuota, quota(q))
    };
    rig.apply(&plan(50_000)?)?;
    dirs.tree.remove(&dirs.pod)?;
    rig.apply(&plan(60_000)?)?;
    ensure!(dirs.tree.cfs_quota(&other)? == 60_000 && rig.refusals()? == 0);
    ensure!(
        rig.report(&dirs.tree.cfs_quota_file(&dirs.pod).display().to_string())?.state == TargetState::Pending
    );
    Ok(())
}
