//! The latency-sensitive service: a process of its own in its container's cgroup, which takes a request rate and
//! reports the latency of each request.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kit::latency::Latencies;
use kit::{Tree, binary};
use serde_json::Value;

/// CPU time of one request, as the service has it.
const WORK: Duration = Duration::from_micros(500);

/// The running service; it ends when this is dropped.
pub(crate) struct Service {
    child: Child,
    rate: ChildStdin,
    reports: Receiver<Latencies>,
}

impl Service {
    /// Starts it in `dir` and waits until it is ready.
    pub(crate) fn start(tree: &Tree, dir: &str, workers: usize) -> Result<Self> {
        let mut child = Command::new(binary::load()?)
            .args(["serve", &workers.to_string()])
            .args(tree.procs_files(dir))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the service")?;
        let rate = child.stdin.take().context("no stdin")?;
        let mut out = BufReader::new(child.stdout.take().context("no stdout")?);
        let (sender, reports) = channel();
        let service = Self { child, rate, reports };
        let mut first = String::new();
        out.read_line(&mut first)?;
        if first.trim() != "ready" {
            bail!("the service did not get ready: {first:?}");
        }
        // Ends with the service's output.
        drop(thread::spawn(move || {
            let reports = out.lines().map_while(Result::ok).filter_map(|line| parse(&line));
            reports.map_while(|report| sender.send(report).ok()).for_each(drop);
        }));
        Ok(service)
    }

    /// Sets the load to a share of a machine with `cpus` CPUs.
    pub(crate) fn set_load(&mut self, share: f64, cpus: usize) -> Result<()> {
        let rate = share * cpus as f64 / WORK.as_secs_f64();
        writeln!(self.rate, "{rate:.0}")
            .and_then(|()| self.rate.flush())
            .context("setting the service's load")
    }

    /// Latencies of the requests that ended since the last call.
    pub(crate) fn take(&self) -> Latencies {
        self.reports.try_iter().flat_map(|report| report.iter().collect::<Vec<_>>()).collect()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn parse(line: &str) -> Option<Latencies> {
    let value: Value = serde_json::from_str(line).ok()?;
    let times = value["latencies_us"].as_array()?.iter().filter_map(Value::as_u64);
    Some(times.map(Duration::from_micros).collect())
}
