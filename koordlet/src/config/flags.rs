//! What was typed: every flag as text, nothing checked yet. Defaults stand here, in Go's spelling, so that
//! help and resolution agree; defaults that depend on the mode are absent.

use clap::{Arg, ArgAction, Args, Command, FromArgMatches, Parser, Subcommand};

use super::audit::AuditFlags;
use super::collect::CollectFlags;
use super::kube::KubeFlags;
use super::kubelet::KubeletFlags;
use super::predict::PredictFlags;
use super::reference::{Kind, UNUSED_FLAGS};
use super::report::ReportFlags;
use super::rules::RuleFlags;

/// Flags that the agent uses, the same for every verb.
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// Root of the cgroup file systems [default: by mode, /sys/fs/cgroup or /host-cgroup]
    #[arg(long, value_name = "DIR")]
    pub cgroup_root_dir: Option<String>,
    /// Root of procfs [default: /proc]
    #[arg(long, value_name = "DIR")]
    pub proc_root_dir: Option<String>,
    /// Root of sysfs [default: by mode, /sys or /host-sys]
    #[arg(long, value_name = "DIR")]
    pub sys_root_dir: Option<String>,
    /// Root of /sys/fs [default: by mode, /sys/fs or /host-sys-fs]
    #[arg(long, value_name = "DIR")]
    pub sys_fs_root_dir: Option<String>,
    /// Root of /var/run [default: by mode, /var/run or /host-var-run]
    #[arg(long, value_name = "DIR")]
    pub var_run_root_dir: Option<String>,
    /// Root of /run [default: by mode, /run or /host-run]
    #[arg(long, value_name = "DIR")]
    pub run_root_dir: Option<String>,
    /// The kubelet's directory [default: /var/lib/kubelet]
    #[arg(long, value_name = "DIR")]
    pub var_lib_kubelet_dir: Option<String>,
    /// cgroup driver: auto, systemd or cgroupfs
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub cgroup_driver: String,
    /// The kubelet's --cgroup-root, under which kubepods lies [default: none]
    #[arg(long, value_name = "DIR")]
    pub kubelet_cgroup_root: Option<String>,

    /// Directory of Node, Pod, NodeSLO and NodeResourceTopology manifests to follow
    #[arg(long, value_name = "DIR")]
    pub manifests_dir: Option<String>,
    /// Directory of the ledger, the admin socket and the lock [default: by mode, /var/run/koordlet or
    /// /host-var-run-koordlet]
    #[arg(long, value_name = "DIR")]
    pub run_dir: Option<String>,
    /// Socket of explain and restore [default: admin.sock in the run directory]
    #[arg(long, value_name = "FILE")]
    pub admin_socket: Option<String>,
    /// Address of the metrics and health endpoints; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = ":9316")]
    pub addr: String,

    /// Feature gates, Name=bool[,Name=bool...], also AllAlpha and AllBeta
    #[arg(long, value_name = "GATES", action = ArgAction::Append)]
    pub feature_gates: Vec<String>,
    /// eBPF: auto, off or required
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub ebpf: String,
    /// Where CPU use comes from when eBPF is on: ebpf or files
    #[arg(long, value_name = "SOURCE", default_value = "ebpf")]
    pub cpu_usage_source: String,
    /// Seconds between two full ticks of CPU suppression; 0 switches it off
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    pub cpu_suppress_interval_seconds: String,
    /// Seconds between two ticks of the other QoS strategies; 0 switches them off
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    pub reconcile_interval_seconds: String,
    /// Seconds after which an unchanged value is checked again
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    pub resource_force_update_seconds: String,
    /// Use what mainline kernels have in place of files that only vendors' kernels have (`doctor` lists it)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub mainline_equivalents: String,
    /// Decide and explain, but write nothing
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub dry_run: String,
    /// Put every original value back at a graceful stop
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_value = "false", default_missing_value = "true")]
    pub restore_on_exit: String,

    /// API server.
    #[command(flatten)]
    pub kube: KubeFlags,
    /// Collectors.
    #[command(flatten)]
    pub collect: CollectFlags,
    /// Audit.
    #[command(flatten)]
    pub audit: AuditFlags,
    /// Prediction.
    #[command(flatten)]
    pub predict: PredictFlags,
    /// Reports.
    #[command(flatten)]
    pub report: ReportFlags,
    /// The kubelet.
    #[command(flatten)]
    pub kubelet: KubeletFlags,
    /// Rule plugins.
    #[command(flatten)]
    pub rules: RuleFlags,

    /// Log level: error, warn, info, debug or trace; wins over -v
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Verbosity as klog counts it: 5 is debug, 8 is trace
    #[arg(short = 'v', long = "v", value_name = "N", default_value = "0")]
    pub verbosity: String,
    /// Output: text or json
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "text")]
    pub output: String,
}

/// The command line.
#[derive(Parser, Debug)]
#[command(
    name = "koordlet",
    version,
    about = "Enforces QoS for mixed Kubernetes workloads on one node",
    after_help = "Without a verb it runs the agent, which needs the environment variable NODE_NAME. `koordlet VERB -h` \
                  lists the flags.\nExit codes: 0 done, 1 failed with one line that says why, 2 usage."
)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub verb: VerbFlags,
}

/// The verbs with what was typed after them.
#[derive(Subcommand, Debug)]
pub enum VerbFlags {
    /// Run the agent (also without a verb)
    Run(Flags),
    /// Say what this node offers and what is missing
    Doctor(Flags),
    /// Print facts about this machine
    Inspect {
        /// What to print
        #[arg(value_parser = ["node"])]
        what: String,
        /// Flags.
        #[command(flatten)]
        flags: Box<Flags>,
    },
    /// Say which values are held and why
    Explain {
        /// NAMESPACE/NAME, pod UID or cgroup path; all when absent
        target: Option<String>,
        /// Flags.
        #[command(flatten)]
        flags: Box<Flags>,
    },
    /// Put every original value back
    Restore(Flags),
}

/// The clap command: the flags in use and, hidden, the reference's others.
pub fn command() -> Command {
    use clap::CommandFactory;
    CommandLine::command().args_override_self(true).mut_subcommands(|verb| {
        UNUSED_FLAGS.iter().fold(verb.args_override_self(true), |verb, flag| {
            let arg = Arg::new(flag.name).long(flag.name).hide(true).default_value(flag.default);
            verb.arg(match flag.kind {
                Kind::Bool => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
                _ => arg.num_args(1),
            })
        })
    })
}

/// Default of a flag as help prints it; `None` for an unknown flag or one whose default depends on the mode.
pub fn default_text(name: &str) -> Option<String> {
    let command = command();
    let run = command.find_subcommand("run")?;
    let arg = run.get_arguments().find(|arg| arg.get_long() == Some(name))?;
    match arg.get_default_values() {
        [] if arg.get_id() == "feature_gates" => Some(String::new()),
        [] => None,
        [value, ..] => value.to_str().map(str::to_owned),
    }
}

/// Flags typed that have no effect, as (flag, value).
pub type UnusedFlags = Vec<(&'static str, Kind, String)>;

/// Parses arguments that went through [`super::argv::normalise`], without the program's name.
pub fn parse(args: &[String]) -> Result<(VerbFlags, UnusedFlags), clap::Error> {
    let mut command = command();
    let program = "koordlet".to_owned();
    let matches = command.try_get_matches_from_mut(std::iter::once(&program).chain(args))?;
    let line = CommandLine::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let mut unused = UnusedFlags::new();
    if let Some((_, verb)) = matches.subcommand() {
        for flag in UNUSED_FLAGS {
            let typed = verb.value_source(flag.name) == Some(clap::parser::ValueSource::CommandLine);
            if let Some(value) = verb.get_one::<String>(flag.name).filter(|_| typed) {
                unused.push((flag.name, flag.kind, value.clone()));
            }
        }
    }
    Ok((line.verb, unused))
}
