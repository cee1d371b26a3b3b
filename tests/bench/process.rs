//! What a process costs: CPU time, memory, system calls.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

/// CPU time used by all threads so far, those that have ended too, in the scheduler's own nanoseconds.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into()?)).context("the agent's CPU clock")?;
    Ok(clock_gettime(clock).context("the agent's CPU time")?.into())
}

/// CPU used over `time`, in milli-cores.
pub(crate) fn milli_cpu(pid: u32, time: Duration) -> Result<f64> {
    let (from, start) = (cpu_time(pid)?, Instant::now());
    sleep(time);
    Ok((cpu_time(pid)?.saturating_sub(from)).as_secs_f64() * 1000.0 / start.elapsed().as_secs_f64())
}

/// Resident memory, in MiB.
pub(crate) struct Resident {
    /// Heap and stacks.
    pub(crate) data: f64,
    /// Pages of the program and of its libraries, which are shared with the page cache, and of mapped BPF arrays.
    pub(crate) files: f64,
}

impl Resident {
    /// All of it, as `VmRSS` counts.
    pub(crate) fn all(&self) -> f64 {
        self.data + self.files
    }
}

/// Resident memory of a process.
pub(crate) fn resident(pid: u32) -> Result<Resident> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mib = |name: &str| {
        let kib: f64 = field(&status, name).and_then(|kib| kib.parse().ok()).context(name.to_owned())?;
        anyhow::Ok(kib / 1024.0)
    };
    Ok(Resident { data: mib("RssAnon")?, files: mib("RssFile")? + mib("RssShmem")? })
}

/// The figure of a line `name:   1234 kB`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().trim_end_matches(" kB"))
}

/// Resident memory in MiB.
pub(crate) fn resident_mib(pid: u32) -> Result<f64> {
    Ok(resident(pid)?.all())
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
