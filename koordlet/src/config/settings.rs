//! The resolved configuration: one immutable value with units, made by [`super::resolve`].

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::audit::AuditSettings;
use super::collect::CollectSettings;
use super::gates::Gates;
use super::kube::KubeSettings;
use super::kubelet::KubeletSettings;
use super::predict::PredictSettings;
use super::report::ReportSettings;
use super::rules::RuleFlagSettings;
use crate::cgroup::path::CgroupDir;
use crate::host::roots::Roots;

/// Where the agent runs, which decides the default roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In a DaemonSet pod with host directories mounted.
    DaemonSet,
    /// On the host itself.
    Host,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DaemonSet => "dsMode",
            Self::Host => "hostMode",
        })
    }
}

/// `--ebpf`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EbpfMode {
    /// Use it where it works, else files.
    Auto,
    /// Files only.
    Off,
    /// Fail where it does not work.
    Required,
}

/// `--cpu-usage-source`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuUsageSource {
    /// The map that the tracepoint fills.
    Ebpf,
    /// Cgroup files.
    Files,
}

/// `--cgroup-driver`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverChoice {
    /// Found out from the kubelet's configuration or the directories there are.
    Auto,
    /// `kubepods.slice`
    Systemd,
    /// `kubepods`
    Cgroupfs,
}

/// `-o`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// For scripts; shapes as in design.md 5.
    Json,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddr {
    /// Host name or address without brackets; `None` is every address.
    pub host: Option<String>,
    /// Port; 0 takes a free one.
    pub port: u16,
}

/// The agent's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// This node; empty only for verbs other than `run`.
    pub node_name: String,
    /// Where the agent runs.
    pub mode: Mode,
    /// Where the host's file systems are seen.
    pub roots: Roots,
    /// Which cgroup driver.
    pub cgroup_driver: DriverChoice,
    /// The kubelet's `--cgroup-root`, under which kubepods lies.
    pub kubelet_cgroup_root: Option<CgroupDir>,
    /// Directory of manifests to follow.
    pub manifests_dir: Option<PathBuf>,
    /// Directory of ledger, admin socket and lock.
    pub run_dir: PathBuf,
    /// Socket of `explain` and `restore`.
    pub admin_socket: PathBuf,
    /// Address of metrics and health.
    pub addr: ListenAddr,
    /// Feature gates.
    pub gates: Gates,
    /// Whether eBPF is used.
    pub ebpf: EbpfMode,
    /// Where CPU use comes from when eBPF is on.
    pub cpu_usage_source: CpuUsageSource,
    /// How the API server is reached.
    pub kube: KubeSettings,
    /// What is collected, and how often.
    pub collect: CollectSettings,
    /// What is audited.
    pub audit: AuditSettings,
    /// How use is learnt and predicted.
    pub predict: PredictSettings,
    /// What is reported to the API server.
    pub report: ReportSettings,
    /// How the kubelet is asked for pods.
    pub kubelet: KubeletSettings,
    /// What rule plugins are told.
    pub rules: RuleFlagSettings,
    /// Time between two full ticks of CPU suppression; `None` switches it off.
    pub cpu_suppress_interval: Option<Duration>,
    /// Time between two ticks of the other QoS strategies; `None` switches them off.
    pub reconcile_interval: Option<Duration>,
    /// Age after which an unchanged value is checked again.
    pub recheck_interval: Duration,
    /// Use what mainline kernels have where a vendor's file is missing.
    pub mainline_equivalents: bool,
    /// Decide and explain, but write nothing.
    pub dry_run: bool,
    /// Put originals back at a graceful stop.
    pub restore_on_exit: bool,
    /// Log level.
    pub log_level: tracing::Level,
    /// What the operator should know, logged once at start.
    pub notices: Vec<String>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Run the agent.
    Run,
    /// Say what this node offers.
    Doctor,
    /// Print facts about this machine.
    InspectNode,
    /// Say which values are held and why.
    Explain {
        /// `NAMESPACE/NAME`, pod UID or cgroup path; all when absent.
        target: Option<String>,
    },
    /// Put every original value back.
    Restore,
}

/// One call of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// What to do.
    pub verb: Verb,
    /// How to answer.
    pub output: Output,
    /// With what.
    pub config: Config,
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
            None => write!(f, ":{}", self.port),
        }
    }
}
