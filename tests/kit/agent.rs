//! The real agent binary as a child process: flags, readiness, `explain`, `/metrics`, and each way to end it.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::binary;
use crate::http;
use crate::load::{own_file, stop_child, wait_child};
use crate::manifest::{Manifests, NODE};
use crate::offers::{ebpf_is_off, guest_scale};
use crate::tree::Tree;
use crate::wait::until;

/// How the agent is started. Reusable: a restarted agent gets the same run directory.
#[derive(Debug)]
pub struct Agent {
    node: String,
    arguments: Vec<OsString>,
    run_dir: tempfile::TempDir,
}

impl Agent {
    /// An agent for the kubepods tree of `tree`, fed from `manifests`, with a run directory of its own and a
    /// free port. eBPF is as the environment of the test run says.
    pub fn of(tree: &Tree, manifests: &Manifests) -> Result<Self> {
        let agent = Self::bare(NODE)?
            .flag("kubelet-cgroup-root", tree.root())
            // A kubelet that runs on this host has nothing to say about the tree.
            .flag("cgroup-driver", tree.driver().flag())
            .flag("var-lib-kubelet-dir", "/nonexistent")
            .flag("manifests-dir", manifests.path())
            .flag("addr", "127.0.0.1:0");
        Ok(if ebpf_is_off() { agent.flag("ebpf", "off") } else { agent })
    }

    /// An agent of the node `node` for the kubepods tree of `tree`, fed from the API server that `kubeconfig` names.
    pub fn of_cluster(tree: &Tree, kubeconfig: &Path, node: &str) -> Result<Self> {
        Ok(Self::of_host(kubeconfig, node)?.flag("kubelet-cgroup-root", tree.root()))
    }

    /// An agent of the node `node` for whatever is at the roots of this host or of those given by flags, fed from the
    /// API server that `kubeconfig` names.
    pub fn of_host(kubeconfig: &Path, node: &str) -> Result<Self> {
        Ok(Self::bare(node)?.flag("kubeconfig", kubeconfig).flag("addr", "127.0.0.1:0"))
    }

    /// What it learns stays in its run directory, as everything else.
    fn bare(node: &str) -> Result<Self> {
        let run_dir = tempfile::tempdir().context("making a run directory")?;
        let checkpoints = run_dir.path().join("checkpoints");
        let agent = Self { node: node.to_owned(), arguments: Vec::new(), run_dir };
        Ok(agent.flag("prediction-checkpoint-filepath", checkpoints))
    }

    /// Another node name.
    #[must_use]
    pub fn node(mut self, name: &str) -> Self {
        name.clone_into(&mut self.node);
        self
    }

    /// Adds `--name=value`. Later ones win where the agent allows a flag to be repeated.
    #[must_use]
    pub fn flag(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(value);
        self.arguments.push(argument);
        self
    }

    /// Adds an argument as it stands.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The run directory: ledger, admin socket, lock.
    pub fn run_dir(&self) -> &Path {
        self.run_dir.path()
    }

    /// Where the log of the latest start is.
    pub fn log_path(&self) -> PathBuf {
        self.run_dir().join("agent.log")
    }

    /// Starts it without waiting.
    pub fn spawn(&self) -> Result<RunningAgent<'_>> {
        let log = own_file(&self.log_path())?;
        let child = self
            .command("run")?
            .args(&self.arguments)
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting the agent")?;
        Ok(RunningAgent { agent: self, child, address: None })
    }

    /// Starts it and waits until `/readyz` says yes.
    pub fn start(&self) -> Result<RunningAgent<'_>> {
        let mut running = self.spawn()?;
        running.wait_ready()?;
        Ok(running)
    }

    /// A verb of the agent with this run directory (`explain`, `restore`).
    pub fn verb(&self, verb: &str, arguments: &[&str]) -> Result<Output> {
        self.command(verb)?.args(arguments).output().with_context(|| format!("running koordlet {verb}"))
    }

    fn command(&self, verb: &str) -> Result<Command> {
        let mut command = Command::new(binary::koordlet()?);
        command
            .arg(verb)
            .arg(format!("--run-dir={}", self.run_dir().display()))
            .env("NODE_NAME", &self.node)
            .env("agent_mode", "hostMode")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        Ok(command)
    }
}

/// A started agent; killed when dropped.
#[derive(Debug)]
pub struct RunningAgent<'a> {
    agent: &'a Agent,
    child: Child,
    address: Option<SocketAddr>,
}

impl RunningAgent<'_> {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.agent.log_path()).unwrap_or_default()
    }

    /// Waits until `/readyz` answers 200; fails with the log when the agent ends or never gets ready.
    pub fn wait_ready(&mut self) -> Result<()> {
        let limit = Duration::from_secs(guest_scale(30, 300));
        let mut ended = None;
        let ready = until(limit, || {
            ended = self.child.try_wait().ok().flatten();
            ended.is_some() || self.is_ready()
        });
        match ended {
            Some(status) => bail!("the agent ended with {status} before it was ready:\n{}", self.log()),
            None if ready => Ok(()),
            None => bail!("the agent did not get ready within {limit:?}:\n{}", self.log()),
        }
    }

    /// The address that it listens on, as logged.
    pub fn address(&mut self) -> Result<SocketAddr> {
        if self.address.is_none() {
            self.address = logged_address(&self.log());
        }
        self.address.context("the agent has not logged its address")
    }

    /// Body of a GET request that must answer 200.
    pub fn get(&mut self, path: &str) -> Result<String> {
        match http::get(self.address()?, path)? {
            (200, body) => Ok(body),
            (status, body) => bail!("GET {path}: {status}: {body}"),
        }
    }

    /// The text of `/metrics`.
    pub fn metrics(&mut self) -> Result<String> {
        self.get("/metrics")
    }

    /// The value of the first sample line that starts with `series` (a name, with or without labels).
    pub fn metric(&mut self, series: &str) -> Result<f64> {
        let text = self.metrics()?;
        let line = text.lines().find(|line| {
            let rest = line.strip_prefix(series);
            rest.is_some_and(|rest| rest.starts_with([' ', '{', ',']) || series.ends_with('}'))
        });
        let value =
            line.and_then(|line| line.rsplit(' ').next()).with_context(|| format!("no series {series}"))?;
        Ok(value.parse()?)
    }

    /// `koordlet explain -o json`, of everything or of one pod or cgroup path.
    pub fn explain(&self, what: Option<&str>) -> Result<Value> {
        let arguments: Vec<&str> = ["-o", "json"].into_iter().chain(what).collect();
        let output = self.agent.verb("explain", &arguments)?;
        if !output.status.success() {
            bail!("explain: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        serde_json::from_slice(&output.stdout).context("the answer of explain")
    }

    /// The entry of `explain` for one absolute file path.
    pub fn explain_path(&self, path: &Path) -> Result<Option<Value>> {
        let all = self.explain(None)?;
        let targets = all["targets"].as_array().context("no targets in the answer of explain")?;
        Ok(targets.iter().find(|target| target["path"].as_str() == path.to_str()).cloned())
    }

    /// SIGTERM, and its exit status.
    pub fn stop(mut self) -> Result<ExitStatus> {
        kill(self.raw_pid()?, Signal::SIGTERM)?;
        let limit = crate::patience();
        wait_child(&mut self.child, limit)?.with_context(|| format!("no end within {limit:?} of SIGTERM"))
    }

    /// SIGKILL.
    pub fn kill_9(mut self) {
        stop_child(&mut self.child);
    }

    fn raw_pid(&self) -> Result<Pid> {
        Ok(Pid::from_raw(self.child.id().try_into()?))
    }

    fn is_ready(&mut self) -> bool {
        let Ok(address) = self.address() else { return false };
        http::get(address, "/readyz").is_ok_and(|(status, _)| status == 200)
    }
}

impl Drop for RunningAgent<'_> {
    fn drop(&mut self) {
        stop_child(&mut self.child);
    }
}

/// The first `127.0.0.1:PORT` with a real port in a log.
fn logged_address(log: &str) -> Option<SocketAddr> {
    log.split("127.0.0.1:").skip(1).find_map(|rest| {
        let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
        Some(SocketAddr::from(([127, 0, 0, 1], port)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_the_one_it_got_and_not_the_one_it_asked_for() {
        let log = "flags addr=127.0.0.1:0\nlistening addr=127.0.0.1:40123 x=1\n";
        assert_eq!(logged_address(log), Some("127.0.0.1:40123".parse().expect("an address")));
        assert_eq!(logged_address("addr=127.0.0.1:0"), None);
    }
}
