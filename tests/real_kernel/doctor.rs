//! `koordlet doctor` on this machine: its answer, its exit code, and that it leaves nothing behind.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kit::hierarchy::Hierarchies;
use kit::{binary, need, offers};
use serde_json::Value;

/// The exit code and the answer.
fn doctor(flags: &[&str]) -> Result<(Option<i32>, Value)> {
    let output = Command::new(binary::koordlet()?)
        .args(["doctor", "-o", "json"])
        .args(flags)
        .env("agent_mode", "hostMode")
        .env_remove("NODE_NAME")
        .output()?;
    let report = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("doctor {flags:?}: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok((output.status.code(), report))
}

fn check<'a>(report: &'a Value, name: &str) -> Result<&'a Value> {
    let checks = report["checks"].as_array().context("no list of checks")?;
    checks
        .iter()
        .find(|check| check["name"] == name)
        .with_context(|| format!("no check {name} in {report:#}"))
}

#[test]
fn doctor_passes_on_files_and_leaves_no_group() -> Result<()> {
    need!(offers::cgroups());
    let (code, report) = doctor(&["--ebpf=off"])?;
    ensure!(code == Some(0) && report["ok"] == true && report["degraded"] == false, "{code:?} {report:#}");
    for name in ["cpus", "cgroup-cpu", "cgroup-cpuset", "run-dir"] {
        let check = check(&report, name)?;
        ensure!(check["status"] == "ok" && check["required"] == true, "{check}");
    }
    for mount in Hierarchies::of_this_host()?.mounts() {
        let mut names = std::fs::read_dir(mount)?.map(|entry| entry.map(|entry| entry.file_name()));
        let left = names.find(|name| {
            name.as_ref().is_ok_and(|name| name.to_string_lossy().starts_with("koordlet-doctor-"))
        });
        ensure!(left.is_none(), "{left:?} in {}", mount.display());
    }
    Ok(())
}

#[test]
fn doctor_tries_each_tracepoint() -> Result<()> {
    need!(offers::ebpf());
    let (code, report) = doctor(&["--ebpf=required"])?;
    ensure!(code == Some(0) && report["ok"] == true && report["degraded"] == false, "{code:?} {report:#}");
    for name in ["tracepoint-cgroup_mkdir", "tracepoint-cgroup_rmdir", "tracepoint-sched_stat_runtime"] {
        let check = check(&report, name)?;
        ensure!(check["status"] == "ok" && check["required"] == true, "{check}");
    }
    Ok(())
}

#[test]
fn doctor_fails_where_nothing_can_be_enforced() -> Result<()> {
    let (code, report) = doctor(&["--ebpf=off", "--cgroup-root-dir=/nonexistent"])?;
    ensure!(code == Some(1) && report["ok"] == false, "{code:?} {report:#}");
    ensure!(check(&report, "cgroup-layout")?["status"] == "failed", "{report:#}");
    let (code, report) = doctor(&["--ebpf=off", "--run-dir=/proc/koordlet"])?;
    ensure!(code == Some(1) && check(&report, "run-dir")?["status"] == "failed", "{code:?} {report:#}");
    Ok(())
}

#[test]
fn doctor_says_of_cpi_and_resctrl_whether_they_are_on_or_why_not() -> Result<()> {
    const GATES: &str = "--feature-gates=CPICollector=true,ResctrlCollector=true";
    let line = |flags: &[&str], name: &str| -> Result<(String, String)> {
        let (_, report) = doctor(&[&["--ebpf=off"], flags].concat())?;
        let text = |field: &str| check(&report, name)?[field].as_str().map(str::to_owned).context("no text");
        Ok((text("status")?, text("detail")?))
    };
    let off = |flags: &[&str], name: &str, switch: &str| -> Result<()> {
        let (status, detail) = line(flags, name)?;
        ensure!(status == "off" && detail.starts_with(switch), "{name} {status} {detail}");
        Ok(())
    };
    off(&[], "collector-cpi", "--feature-gates=CPICollector=true switches it on; ")?;
    off(&[], "collector-resctrl", "--feature-gates=ResctrlCollector=true with --enable")?;
    off(&[GATES], "collector-resctrl", "--enable-resctrl-collector switches it on; ")?;
    for name in ["collector-cpi", "collector-resctrl"] {
        let (status, detail) = line(&[GATES, "--enable-resctrl-collector"], name)?;
        let told =
            (status == "ok" && detail.starts_with("on: ")) || (status == "missing" && !detail.is_empty());
        ensure!(told, "{name} {status} {detail}");
    }
    Ok(())
}

#[test]
fn doctor_lists_what_stands_in_for_vendors_files_with_and_without_the_flag() -> Result<()> {
    need!(offers::cgroups());
    for (flags, usual) in [(&["--ebpf=off"][..], "off"), (&["--ebpf=off", "--mainline-equivalents"], "ok")] {
        let (_, report) = doctor(flags)?;
        let bvt = check(&report, "mainline-cpu.bvt_warp_ns")?;
        // A vendor's kernel needs nothing.
        let vendors = check(&report, "cpu.bvt_warp_ns")?["status"] == "ok";
        ensure!(bvt["required"] == false && (vendors || bvt["status"] == usual), "{bvt}");
        ensure!(vendors || bvt["detail"].as_str().is_some_and(|text| text.contains("cpu.")), "{bvt}");
        check(&report, "mainline-memory.wmark_ratio")?;
        check(&report, "mainline-blkio.cost.weight")?;
    }
    Ok(())
}
