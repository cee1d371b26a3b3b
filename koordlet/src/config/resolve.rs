//! Flags and environment resolved to one immutable [`Config`], all mistakes at once. Reads no file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::argv::normalise;
use super::flags::{self, Flags, UnusedFlags, VerbFlags};
use super::gates::{Gate, Gates};
use super::mistakes::Mistakes;
use super::settings::{
    Config, CpuUsageSource, DriverChoice, EbpfMode, Invocation, ListenAddr, Mode, Output, Verb,
};
use super::{audit, collect, kube, kubelet, predict, report, rules};
use crate::cgroup::path::{CgroupDir, CgroupDirError};
use crate::host::roots::Roots;

/// What resolution needs of the process and the host, so that tests need neither.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `NODE_NAME`
    pub node_name: Option<String>,
    /// `agent_mode`
    pub agent_mode: Option<String>,
    /// Whether `/host-cgroup` exists.
    pub host_cgroup_exists: bool,
}

impl Environment {
    /// The process's own environment.
    pub fn of_process() -> Self {
        Self {
            node_name: std::env::var("NODE_NAME").ok(),
            agent_mode: std::env::var("agent_mode").ok(),
            host_cgroup_exists: Path::new("/host-cgroup").exists(),
        }
    }
}

/// Why there is nothing to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Usage {
    /// Help or version was asked for: print it, exit code 0.
    Answer(String),
    /// Mistakes, one a line: exit code 2.
    Mistakes(Vec<String>),
}

/// Resolves the arguments after the program's name.
pub fn resolve(args: &[String], environment: &Environment) -> Result<Invocation, Usage> {
    let mut command = flags::command();
    command.build();
    let normal = normalise(args, &command);
    let mut mistakes = Mistakes(normal.mistakes);
    let (verb, unused) = match flags::parse(&normal.args) {
        Ok(parsed) => parsed,
        Err(error) if !error.use_stderr() => return Err(Usage::Answer(error.to_string())),
        // clap would only repeat that the verb is unknown.
        Err(_) if !mistakes.0.is_empty() => return Err(Usage::Mistakes(mistakes.0)),
        Err(error) => {
            // Without clap's usage lines: the mistakes stand together.
            let text = error.to_string();
            let what = text.split("\n\n").next().unwrap_or(&text).trim();
            mistakes.0.push(what.strip_prefix("error: ").unwrap_or(what).replace("\n  ", " "));
            return Err(Usage::Mistakes(mistakes.0));
        }
    };
    let (verb, flags) = match verb {
        VerbFlags::Run(flags) => (Verb::Run, flags),
        VerbFlags::Doctor(flags) => (Verb::Doctor, flags),
        VerbFlags::Inspect { what: _, flags } => (Verb::InspectNode, *flags),
        VerbFlags::Explain { target, flags } => (Verb::Explain { target }, *flags),
        VerbFlags::Restore(flags) => (Verb::Restore, flags),
    };
    let output = mistakes
        .one_of("output", &flags.output, &[("text", Output::Text), ("json", Output::Json)])
        .unwrap_or(Output::Text);
    let config = resolve_config(&verb, flags, &unused, environment, &mut mistakes);
    match config {
        Some(config) if mistakes.0.is_empty() => Ok(Invocation { verb, output, config }),
        _ => Err(Usage::Mistakes(mistakes.0)),
    }
}

fn resolve_config(
    verb: &Verb,
    flags: Flags,
    unused: &UnusedFlags,
    environment: &Environment,
    mistakes: &mut Mistakes,
) -> Option<Config> {
    let mut notices = Vec::new();
    let mode = resolve_mode(environment, &mut notices);
    let node_name = environment.node_name.clone().unwrap_or_default();
    if *verb == Verb::Run && node_name.is_empty() {
        mistakes.0.push("the environment variable NODE_NAME must hold this node's name".to_owned());
    }
    let run_dir = PathBuf::from(flags.run_dir.clone().unwrap_or_else(|| match mode {
        Mode::DaemonSet => "/host-var-run-koordlet".to_owned(),
        Mode::Host => "/var/run/koordlet".to_owned(),
    }));
    check_unused(unused, mistakes, &mut notices);

    // Each is parsed before any is required, so that every mistake is reported.
    let driver = mistakes.one_of("cgroup-driver", &flags.cgroup_driver, DRIVERS);
    let kubelet_root =
        mistakes.take("kubelet-cgroup-root", kubelet_root(flags.kubelet_cgroup_root.as_deref()));
    let addr = mistakes.take("addr", parse_addr(&flags.addr));
    let gates = resolve_gates(&flags, mistakes, &mut notices);
    let ebpf = mistakes.one_of("ebpf", &flags.ebpf, EBPF_MODES);
    let source = mistakes.one_of("cpu-usage-source", &flags.cpu_usage_source, USAGE_SOURCES);
    let suppress =
        mistakes.whole_number("cpu-suppress-interval-seconds", &flags.cpu_suppress_interval_seconds);
    let reconcile = mistakes.whole_number("reconcile-interval-seconds", &flags.reconcile_interval_seconds);
    let recheck =
        mistakes.whole_number("resource-force-update-seconds", &flags.resource_force_update_seconds);
    let mainline_equivalents = mistakes.boolean("mainline-equivalents", &flags.mainline_equivalents);
    let dry_run = mistakes.boolean("dry-run", &flags.dry_run);
    let restore_on_exit = mistakes.boolean("restore-on-exit", &flags.restore_on_exit);
    let log_level = log_level(&flags, mistakes);

    let known = gates.clone().unwrap_or_default();
    let collect = collect::resolve(&flags.collect, &known, mistakes, &mut notices);
    let kube = kube::resolve(&flags.kube, mistakes);
    let audit = audit::resolve(&flags.audit, &known, mistakes, &mut notices);
    let predict = predict::resolve(&flags.predict, mistakes, &mut notices);
    let report = report::resolve(&flags.report, &known, mistakes, &mut notices);
    let kubelet = kubelet::resolve(&flags.kubelet, mistakes, &mut notices);
    let rules = rules::resolve(&flags.rules, mistakes);

    Some(Config {
        node_name,
        mode,
        roots: resolve_roots(&flags, mode),
        cgroup_driver: driver?,
        kubelet_cgroup_root: kubelet_root?,
        manifests_dir: flags.manifests_dir.map(PathBuf::from),
        admin_socket: flags.admin_socket.map_or_else(|| run_dir.join("admin.sock"), PathBuf::from),
        run_dir,
        addr: addr?,
        gates: gates?,
        ebpf: ebpf?,
        cpu_usage_source: source?,
        kube: kube?,
        collect: collect?,
        audit: audit?,
        predict: predict?,
        report: report?,
        kubelet: kubelet?,
        cpu_suppress_interval: pause(suppress?),
        reconcile_interval: pause(reconcile?),
        rules: rules?,
        recheck_interval: Duration::from_secs(u64::try_from(recheck?).unwrap_or(0).max(1)),
        mainline_equivalents: mainline_equivalents?,
        dry_run: dry_run?,
        restore_on_exit: restore_on_exit?,
        log_level: log_level?,
        notices,
    })
}

const DRIVERS: &[(&str, DriverChoice)] =
    &[("auto", DriverChoice::Auto), ("systemd", DriverChoice::Systemd), ("cgroupfs", DriverChoice::Cgroupfs)];
const EBPF_MODES: &[(&str, EbpfMode)] =
    &[("auto", EbpfMode::Auto), ("off", EbpfMode::Off), ("required", EbpfMode::Required)];
const USAGE_SOURCES: &[(&str, CpuUsageSource)] =
    &[("ebpf", CpuUsageSource::Ebpf), ("files", CpuUsageSource::Files)];

/// `agent_mode`, collection.md 1.1; unset, the mounts of a DaemonSet decide (design.md 4).
fn resolve_mode(environment: &Environment, notices: &mut Vec<String>) -> Mode {
    match environment.agent_mode.as_deref() {
        Some("hostMode") => Mode::Host,
        None | Some("") => {
            let (mode, found) = if environment.host_cgroup_exists {
                (Mode::DaemonSet, "exists")
            } else {
                (Mode::Host, "does not exist")
            };
            notices.push(format!("agent_mode is not set and /host-cgroup {found}: {mode}"));
            mode
        }
        Some(_) => Mode::DaemonSet,
    }
}

fn resolve_roots(flags: &Flags, mode: Mode) -> Roots {
    let defaults = match mode {
        Mode::DaemonSet => Roots::daemon_set(),
        Mode::Host => Roots::host(),
    };
    let root = |flag: &Option<String>, default: PathBuf| flag.as_ref().map_or(default, PathBuf::from);
    Roots {
        cgroup: root(&flags.cgroup_root_dir, defaults.cgroup),
        proc: root(&flags.proc_root_dir, defaults.proc),
        sys: root(&flags.sys_root_dir, defaults.sys),
        sys_fs: root(&flags.sys_fs_root_dir, defaults.sys_fs),
        var_run: root(&flags.var_run_root_dir, defaults.var_run),
        run: root(&flags.run_root_dir, defaults.run),
        var_lib_kubelet: root(&flags.var_lib_kubelet_dir, defaults.var_lib_kubelet),
        terway_qos: defaults.terway_qos,
    }
}

/// No nesting for none, an empty text and `/`, as the kubelet means them.
fn kubelet_root(text: Option<&str>) -> Result<Option<CgroupDir>, CgroupDirError> {
    text.filter(|text| !text.trim_matches('/').is_empty()).map(CgroupDir::new).transpose()
}

/// `HOST:PORT`, `:PORT`, `[V6]:PORT`.
fn parse_addr(text: &str) -> Result<ListenAddr, String> {
    let error = || format!("{text:?} is not HOST:PORT or :PORT");
    let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
    let port = port.parse().map_err(|_| error())?;
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.strip_suffix(']').ok_or_else(error)?,
        None if host.contains(':') => return Err(error()),
        None => host,
    };
    Ok(ListenAddr { host: (!host.is_empty()).then(|| host.to_owned()), port })
}

fn resolve_gates(flags: &Flags, mistakes: &mut Mistakes, notices: &mut Vec<String>) -> Option<Gates> {
    match Gates::parse(flags.feature_gates.iter().map(String::as_str)) {
        Ok(gates) => {
            if gates.is_on(Gate::BeCpuManager) && gates.is_on(Gate::BeCpuSuppress) {
                notices.push(
                    "the gates BECPUManager and BECPUSuppress are both on (AllAlpha does that): CPU \
                     suppression only restores, BE pods get the whole share pool"
                        .to_owned(),
                );
            }
            Some(gates)
        }
        Err(errors) => {
            for error in errors {
                mistakes.add("feature-gates", error);
            }
            None
        }
    }
}

/// `--log-level`, else klog's `-v`; up to 4, which DaemonSets ship with, is the default level.
fn log_level(flags: &Flags, mistakes: &mut Mistakes) -> Option<tracing::Level> {
    use tracing::Level;
    let levels = [
        ("error", Level::ERROR),
        ("warn", Level::WARN),
        ("info", Level::INFO),
        ("debug", Level::DEBUG),
        ("trace", Level::TRACE),
    ];
    let verbosity = mistakes.whole_number("v", &flags.verbosity)?;
    match &flags.log_level {
        Some(level) => mistakes.one_of("log-level", level, &levels),
        None if verbosity >= 8 => Some(Level::TRACE),
        None if verbosity >= 5 => Some(Level::DEBUG),
        None => Some(Level::INFO),
    }
}

fn check_unused(unused: &UnusedFlags, mistakes: &mut Mistakes, notices: &mut Vec<String>) {
    for (name, kind, value) in unused {
        mistakes.take(name, kind.check(value));
    }
    if !unused.is_empty() {
        let names: Vec<_> = unused.iter().map(|(name, ..)| format!("--{name}")).collect();
        notices.push(format!("accepted, not used by this agent yet: {}", names.join(" ")));
    }
}

/// The time between two ticks; none for 0 and less.
fn pause(seconds: i64) -> Option<Duration> {
    u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

#[cfg(test)]
mod tests;
