//! Crashes and restarts on the real kernel: what was changed is known, and can be put back.

use std::env;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kit::{need, offers};
use koordlet::cgroup::resource::Resource;
use koordlet::claims::plan::Decision;
use koordlet::executor::{self, ExecutorError};

use crate::executor_rig::{Dirs, Plans, Rig, config, quota, shares};

/// Makes the test that finds it the child, and tells on which run directory and class directory it works.
const CHILD: &str = "KOORDTEST_EXECUTOR_CHILD";

/// The process that `a_ledger_survives_kill_9_at_any_moment` kills: writes for ever.
fn write_until_killed(given: &str) -> Result<()> {
    let (run_dir, class) = given.split_once('\n').context("two lines")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let executor = executor::spawn(config(&PathBuf::from(run_dir))?)?;
    for raw in (0..).map(|step| 20_000 + 10 * (step % 1000)) {
        let plan = Plans::new().hold(class, Resource::CfsQuota, quota(raw))?.hold(
            &format!("{class}/pod1"),
            Resource::CpuShares,
            shares(600),
        )?;
        executor.apply(plan.plan());
        runtime.block_on(executor.settled())?;
    }
    bail!("the steps have no end");
}

#[test]
fn a_ledger_survives_kill_9_at_any_moment() -> Result<()> {
    need!(offers::cgroups());
    if let Ok(given) = env::var(CHILD) {
        return write_until_killed(&given);
    }
    let dirs = Dirs::new()?;
    dirs.tree.set_cfs_quota(&dirs.class, 500_000)?;
    let run_dir = tempfile::tempdir()?;
    for pause in [0, 1, 2, 5, 10, 20, 50, 100] {
        let name = "executor_ledger::a_ledger_survives_kill_9_at_any_moment";
        let mut child = Command::new(env::current_exe()?)
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, format!("{}\n{}", run_dir.path().display(), dirs.class))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let wrote = kit::until(kit::patience(), || {
            dirs.tree.cfs_quota(&dirs.class).is_ok_and(|quota| quota < 500_000)
        });
        std::thread::sleep(Duration::from_millis(pause));
        child.kill()?;
        child.wait()?;
        ensure!(wrote, "the child did not get to its first write");
        let report = executor::restore_offline(config(run_dir.path())?)?;
        ensure!(report.failed.is_empty(), "{report:?}");
        ensure!(dirs.tree.cfs_quota(&dirs.class)? == 500_000, "after {pause} ms");
    }
    Ok(())
}

#[test]
fn an_upgrade_lets_go_of_nothing_and_a_withdrawn_claim_is_undone_after_it() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    dirs.tree.set_cfs_quota(&dirs.pod, 77_000)?;
    let held = Plans::new().hold(&dirs.pod, Resource::CfsQuota, quota(50_000))?;
    let rig = Rig::start()?;
    rig.apply(&held)?;
    let rig = Rig::start_in(rig.stop(false)?)?;
    rig.apply(&Plans::default())?;
    ensure!(dirs.tree.cfs_quota(&dirs.pod)? == 50_000, "nobody has spoken yet");
    rig.apply(&held)?;
    ensure!(rig.report("pod1/cpu.cfs_quota_us").or_else(|_| rig.report("pod1/cpu.max"))?.replaced.is_some());
    let rig = Rig::start_in(rig.stop(false)?)?;
    rig.apply(&Plans::new())?;
    ensure!(dirs.tree.cfs_quota(&dirs.pod)? == 77_000, "the recorded original");
    Ok(())
}

#[test]
fn restore_on_exit_and_restore_all_put_everything_back() -> Result<()> {
    need!(offers::cgroups());
    let dirs = Dirs::new()?;
    dirs.tree.set_cfs_quota(&dirs.pod, 90_000)?;
    let plan = Plans::new().hold(&dirs.class, Resource::CfsQuota, quota(50_000))?.decide(
        &dirs.container,
        Resource::CfsQuota,
        Decision::Leave,
    )?;
    let rig = Rig::start()?;
    rig.apply(&plan)?;
    let report = rig.restore_all()?;
    ensure!(report.failed.is_empty() && dirs.tree.cfs_quota(&dirs.class)? == -1, "{report:?}");
    ensure!(dirs.tree.cfs_quota(&dirs.pod)? == 90_000);
    let rig = Rig::start_in(rig.stop(false)?)?;
    rig.apply(&plan)?;
    rig.stop(true)?;
    ensure!(dirs.tree.cfs_quota(&dirs.class)? == -1 && dirs.tree.cfs_quota(&dirs.pod)? == 90_000);
    Ok(())
}

#[test]
fn a_second_agent_is_told_who_has_the_run_directory() -> Result<()> {
    need!(offers::cgroups());
    let rig = Rig::start()?;
    let refused = [
        executor::spawn(config(rig.run_dir.path())?).err(),
        executor::restore_offline(config(rig.run_dir.path())?).err(),
    ];
    for error in refused {
        let Some(error @ ExecutorError::Lock(_)) = error else { bail!("{error:?}") };
        ensure!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    }
    Ok(())
}

#[test]
fn c207_a_damaged_ledger_is_set_aside_and_the_executor_starts() -> Result<()> {
    need!(offers::cgroups());
    let run_dir = tempfile::tempdir()?;
    let path = run_dir.path().join("ledger");
    std::fs::File::options()
        .write(true)
        .create_new(true)
        .open(&path)?
        .write_all(b"\0\0not a line\n{\"op\"")?;
    let rig = Rig::start_in(run_dir)?;
    let notices = rig.executor()?.notices();
    let notice = notices.and_then(|mut notices| notices.try_recv().ok()).context("no notice")?;
    ensure!(notice.text.contains("ledger.damaged.0"), "{notice:?}");
    ensure!(rig.run_dir.path().join("ledger.damaged.0").exists());
    Ok(())
}
