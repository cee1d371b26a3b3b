//! What a process costs: CPU time, memory, system calls.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// CPU time used by all threads so far, from the scheduler's own nanoseconds.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).context("the agent's threads")?;
    let mut nanos = 0;
    for task in tasks {
        // A thread may end between the listing and here.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanos += text.split(' ').next().and_then(|first| first.parse::<u64>().ok()).context("schedstat")?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// CPU used over `time`, in milli-cores. Threads must not come and go meanwhile.
pub(crate) fn milli_cpu(pid: u32, time: Duration) -> Result<f64> {
    let (from, start) = (cpu_time(pid)?, Instant::now());
    sleep(time);
    Ok((cpu_time(pid)?.saturating_sub(from)).as_secs_f64() * 1000.0 / start.elapsed().as_secs_f64())
}

/// Resident memory in MiB.
pub(crate) fn resident_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS")?;
    Ok(kib / 1024.0)
}

/// System calls a second over `time`, counted by strace.
pub(crate) fn syscalls_a_second(pid: u32, time: Duration) -> Result<f64> {
    let report = Report::new()?;
    let mut strace = Command::new("strace")
        .args(["-f", "-c", "-U", "calls,name", "-p", &pid.to_string(), "-o"])
        .arg(&report.0)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting strace")?;
    let start = Instant::now();
    sleep(time);
    kill(Pid::from_raw(strace.id().try_into()?), Signal::SIGINT)?;
    let elapsed = start.elapsed();
    strace.wait()?;
    let text = fs::read_to_string(&report.0)?;
    let Some(calls) = total_calls(&text) else { bail!("strace counted nothing:\n{text}") };
    Ok(calls / elapsed.as_secs_f64())
}

struct Report(PathBuf);

impl Report {
    fn new() -> Result<Self> {
        Ok(Self(tempfile::Builder::new().prefix("strace").tempfile()?.into_temp_path().keep()?))
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        // A file that stays in the temporary folder is no reason to fail.
        fs::remove_file(&self.0).ok();
    }
}

/// The line `      1234 total` at the end of `strace -c`.
fn total_calls(report: &str) -> Option<f64> {
    let line = report.lines().rev().find(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn straces_total_is_found() {
        let report = "    calls syscall\n--------- ----------------\n       40 epoll_wait\n        2 read\n\
                      --------- ----------------\n       42 total\n";
        assert_eq!(total_calls(report), Some(42.0));
        assert_eq!(total_calls(""), None);
    }

    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let pid = std::process::id();
        assert!(cpu_time(pid).expect("own CPU time") > Duration::ZERO);
        assert!(resident_mib(pid).expect("own memory") > 0.1);
    }
}
