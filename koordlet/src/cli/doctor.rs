//! `koordlet doctor`: what this node offers the agent and what is missing, each line tried, not guessed from a
//! version. Exit code 1 where enforcement is impossible, or where eBPF was asked for and cannot be had.

use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use koordlet_common::names::program;
use serde::Serialize;

use crate::agent::collectors;
use crate::cgroup::driver::{self, DriverSource};
use crate::cgroup::kubelet::KubeletCgroups;
use crate::cgroup::layout::Layout;
use crate::cgroup::naming::CgroupDriver;
use crate::cgroup::path::CgroupDir;
use crate::config::settings::{Config, DriverChoice, EbpfMode, Output};
use crate::ebpf::events::WatchedDirs;
use crate::ebpf::load::{EMBEDDED, ProbeResult, WhyNot};
use crate::ebpf::sensors::{SensorConfig, probe_tracepoints};
use crate::host::kernel::Kernel;
use crate::host::mainline;
use crate::host::offers::{self, Offer, State};
use crate::report::chain;
use crate::state::cpu_manager::CpuManagerState;
use crate::state::topology::KubeletCpuPolicy;

/// The answer, design.md 5.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// All required checks passed.
    pub ok: bool,
    /// The agent runs, but on files where it would use eBPF.
    pub degraded: bool,
    /// What was tried.
    pub checks: Vec<Check>,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is.
    pub name: String,
    /// How it ended.
    pub status: Status,
    /// Whether the agent can do nothing without it.
    pub required: bool,
    /// What was found, or why not.
    pub detail: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It can be used.
    Ok,
    /// The machine does not have it.
    Missing,
    /// It is there, but using it failed.
    Failed,
    /// A gate or flag keeps the agent from using it.
    Off,
}

impl From<State> for Status {
    fn from(state: State) -> Self {
        match state {
            State::Ok => Self::Ok,
            State::Missing => Self::Missing,
            State::Failed => Self::Failed,
            State::Off => Self::Off,
        }
    }
}

/// What trying eBPF gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EbpfTrial {
    /// This binary holds no object.
    NotBuiltIn,
    /// Each tracepoint, loaded and attached by itself, or all with the reason why none could be.
    Tracepoints(Vec<Offer>),
}

/// Prints what this node offers. Unless `--ebpf=off`, the eBPF object is loaded and attached, and detached again.
pub fn run(config: &Config, output: Output) -> anyhow::Result<ExitCode> {
    let report = Report::from(checks(config), config.ebpf);
    let text = match output {
        Output::Json => serde_json::to_string_pretty(&report)?,
        Output::Text => table(&report)?,
    };
    super::answer(&text)?;
    Ok(if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Report {
    fn from(checks: Vec<Check>, ebpf: EbpfMode) -> Self {
        let failed = |check: &Check| check.status != Status::Ok;
        let ebpf_checks = |check: &&Check| check.name == OBJECT || check.name.starts_with(TRACEPOINT);
        Self {
            ok: !checks.iter().any(|check| check.required && failed(check)),
            degraded: ebpf != EbpfMode::Off && checks.iter().filter(ebpf_checks).any(failed),
            checks,
        }
    }
}

const OBJECT: &str = "ebpf-object";
const TRACEPOINT: &str = "tracepoint-";

/// Checks without which nothing can be enforced.
const REQUIRED: [&str; 6] =
    ["cpus", "cgroup-layout", "cgroup-cpu", "cgroup-cpuacct", "cgroup-cpuset", "run-dir"];

impl Check {
    fn required(offer: Offer) -> Self {
        Self { required: true, ..Self::optional(offer) }
    }

    fn optional(offer: Offer) -> Self {
        let Offer { name, state, detail } = offer;
        Self { name, status: state.into(), required: false, detail }
    }

    /// Required if it is in the list.
    fn listed(offer: Offer) -> Self {
        Self { required: REQUIRED.contains(&offer.name.as_str()), ..Self::optional(offer) }
    }
}

fn checks(config: &Config) -> Vec<Check> {
    let mut offers = offers::of_kernel(&Kernel::read(&config.roots));
    offers.push(offers::cpus(&config.roots));
    offers.push(offers::run_dir(&config.run_dir));
    let layout = Layout::detect(&config.roots).map(Arc::new);
    match &layout {
        Ok(layout) => {
            offers.extend(offers::controllers(layout));
            let (driver, kubepods) = driver(config, layout);
            offers.push(driver);
            offers.extend(offers::optional_files(layout, kubepods.as_slice()));
            offers.extend(mainline::equivalents(layout, kubepods.as_slice(), config.mainline_equivalents));
            offers.extend(collectors::offers(config, layout, kubepods.as_ref()));
        }
        Err(error) => offers.push(Offer::failed("cgroup-layout", chain(error))),
    }
    offers.push(cpu_manager(config));
    let mut checks: Vec<Check> = offers.into_iter().map(Check::listed).collect();
    if config.ebpf != EbpfMode::Off {
        checks.extend(ebpf_checks(config.ebpf, &try_ebpf(config, layout.ok())));
    }
    checks
}

/// Who names the kubelet's cgroups, and where its pods are, as far as it can be told now.
fn driver(config: &Config, layout: &Layout) -> (Offer, Option<CgroupDir>) {
    const NAME: &str = "cgroup-driver";
    let kubelet = match KubeletCgroups::read(&config.roots) {
        Ok(kubelet) => kubelet,
        Err(error) => return (Offer::failed(NAME, chain(&error)), None),
    };
    let flag = match config.cgroup_driver {
        DriverChoice::Auto => None,
        DriverChoice::Systemd => Some(CgroupDriver::Systemd),
        DriverChoice::Cgroupfs => Some(CgroupDriver::Cgroupfs),
    };
    let root = config.kubelet_cgroup_root.as_ref().map_or("", CgroupDir::as_str);
    let detected = match driver::detect(flag, root, kubelet.as_ref(), layout) {
        Ok(Some(detected)) => detected,
        Ok(None) => {
            let detail = "nothing says it yet: known as soon as the kubelet makes its kubepods directory";
            return (Offer::missing(NAME, detail), None);
        }
        Err(error) => return (Offer::failed(NAME, chain(&error)), None),
    };
    let source = match detected.source {
        DriverSource::Flag => "by --cgroup-driver",
        DriverSource::Kubelet => "as the kubelet states",
        DriverSource::Directory => "by the directory that is there",
    };
    let kubepods = detected.naming.kubepods().clone();
    let other = if detected.other_exists { "; the other driver's directory is there too" } else { "" };
    let detail = format!("{} {source}, pods in {kubepods}{other}", detected.naming.driver());
    (Offer::ok(NAME, detail), Some(kubepods))
}

/// The kubelet's CPU manager: whether its file, if there is one, can be understood.
fn cpu_manager(config: &Config) -> Offer {
    const NAME: &str = "kubelet-cpu-manager";
    let path = config.roots.var_lib_kubelet.join("cpu_manager_state");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Offer::missing(NAME, format!("no {}: no CPUs are exclusive", path.display()));
        }
        Err(error) => return Offer::failed(NAME, format!("{}: {error}", path.display())),
    };
    match CpuManagerState::parse(&text) {
        Ok(state) => {
            let policy = match state.policy {
                Some(KubeletCpuPolicy::Static) => "static",
                Some(KubeletCpuPolicy::None) => "none",
                Some(KubeletCpuPolicy::Unknown) | None => "not told",
            };
            let count = state.exclusive.len();
            Offer::ok(NAME, format!("policy {policy}, {count} containers with CPUs of their own"))
        }
        Err(error) => Offer::failed(NAME, format!("{}: {error}", path.display())),
    }
}

/// Loads the object, attaches each tracepoint and lets go of all.
fn try_ebpf(config: &Config, layout: Option<Arc<Layout>>) -> EbpfTrial {
    if EMBEDDED.is_none() {
        return EbpfTrial::NotBuiltIn;
    }
    let none = |offer: &dyn Fn(&str) -> Offer| {
        let names = [program::CGROUP_MKDIR, program::CGROUP_RMDIR, program::SCHED_STAT_RUNTIME];
        EbpfTrial::Tracepoints(names.into_iter().map(offer).collect())
    };
    let Some(layout) = layout else {
        return none(&|name| Offer::missing(name, "no cgroup hierarchy to watch"));
    };
    match probe_tracepoints(&SensorConfig::new(config.roots.clone(), layout, WatchedDirs::new([]))) {
        Err(WhyNot::NotBuiltIn) => EbpfTrial::NotBuiltIn,
        Err(why @ WhyNot::NoBtf(_)) => none(&|name| Offer::missing(name, why.chain())),
        Err(why) => none(&|name| Offer::failed(name, why.chain())),
        Ok(results) => EbpfTrial::Tracepoints(results.into_iter().map(tracepoint).collect()),
    }
}

fn tracepoint(result: ProbeResult) -> Offer {
    let ProbeResult { name, ok, detail } = result;
    if ok { Offer::ok(name, detail) } else { Offer::failed(name, detail) }
}

/// Without an object `--ebpf=off` has to be said: an agent that was built wrongly must not pass for one on
/// an old kernel. Tracepoints are needed only with `--ebpf=required`.
fn ebpf_checks(mode: EbpfMode, trial: &EbpfTrial) -> Vec<Check> {
    let tracepoints: Vec<Offer> = match trial {
        EbpfTrial::NotBuiltIn => {
            let what_to_do = "built without eBPF: `cargo xtask build-ebpf` comes before `cargo build`; \
                              --ebpf=off does without";
            return vec![Check::required(Offer::missing(OBJECT, what_to_do))];
        }
        EbpfTrial::Tracepoints(offers) => offers
            .iter()
            .map(|offer| Offer { name: format!("{TRACEPOINT}{}", offer.name), ..offer.clone() })
            .collect(),
    };
    let object = Check::required(Offer::ok(OBJECT, "built in"));
    let needed = |offer| match mode {
        EbpfMode::Required => Check::required(offer),
        EbpfMode::Auto | EbpfMode::Off => Check::optional(offer),
    };
    std::iter::once(object).chain(tracepoints.into_iter().map(needed)).collect()
}

fn table(report: &Report) -> Result<String, fmt::Error> {
    let width = report.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in &report.checks {
        let status = match check.status {
            Status::Ok => "ok",
            Status::Missing if check.required => "MISSING",
            Status::Missing => "missing",
            Status::Failed if check.required => "FAILED",
            Status::Failed => "failed",
            Status::Off => "off",
        };
        writeln!(text, "{:<width$}  {status:<7}  {}", check.name, check.detail)?;
    }
    let verdict = match (report.ok, report.degraded) {
        (false, _) => "not ok: what stands in capitals is required",
        (true, true) => "ok, degraded: files take over where eBPF cannot be had",
        (true, false) => "ok",
    };
    writeln!(text, "\n{verdict}")?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tracepoints(last: Offer) -> EbpfTrial {
        EbpfTrial::Tracepoints(vec![Offer::ok("cgroup_mkdir", "births"), last])
    }

    fn verdict(mode: EbpfMode, trial: Option<&EbpfTrial>) -> (bool, bool) {
        let checks = trial.map(|trial| ebpf_checks(mode, trial)).unwrap_or_default();
        let report = Report::from(checks, mode);
        (report.ok, report.degraded)
    }

    #[test]
    fn ebpf_that_cannot_be_had_degrades_and_fails_only_where_it_is_required() {
        let all = tracepoints(Offer::ok("sched_stat_runtime", "CPU time"));
        let one_less = tracepoints(Offer::failed("sched_stat_runtime", "no such tracepoint"));
        let refused = EbpfTrial::Tracepoints(vec![Offer::missing("cgroup_mkdir", "no BTF")]);
        for (mode, trial, expected) in [
            (EbpfMode::Auto, Some(&all), (true, false)),
            (EbpfMode::Auto, Some(&one_less), (true, true)),
            (EbpfMode::Auto, Some(&refused), (true, true)),
            (EbpfMode::Required, Some(&all), (true, false)),
            (EbpfMode::Required, Some(&one_less), (false, true)),
            (EbpfMode::Required, Some(&refused), (false, true)),
            (EbpfMode::Auto, Some(&EbpfTrial::NotBuiltIn), (false, true)),
            (EbpfMode::Required, Some(&EbpfTrial::NotBuiltIn), (false, true)),
            (EbpfMode::Off, None, (true, false)),
        ] {
            assert_eq!(verdict(mode, trial), expected, "{mode:?} {trial:?}");
        }
        let lines = ebpf_checks(EbpfMode::Auto, &EbpfTrial::NotBuiltIn);
        assert!(lines[0].detail.contains("xtask build-ebpf") && lines[0].detail.contains("--ebpf=off"));
    }

    #[test]
    fn a_missing_controller_is_fatal_and_a_missing_optional_file_is_not() {
        let report = |offer| Report::from(vec![Check::listed(offer)], EbpfMode::Off);
        assert!(!report(Offer::missing("cgroup-cpu", "")).ok);
        assert!(!report(Offer::failed("run-dir", "")).ok);
        assert!(report(Offer::missing("cgroup-blkio", "")).ok);
        assert!(report(Offer::missing("memory.wmark_ratio", "")).ok);
    }

    #[test]
    fn json_has_the_names_that_scripts_use() {
        let trial = tracepoints(Offer::missing("sched_stat_runtime", "no BTF"));
        let report = Report::from(ebpf_checks(EbpfMode::Auto, &trial), EbpfMode::Auto);
        let expected = json!({"ok": true, "degraded": true, "checks": [
            {"name": "ebpf-object", "status": "ok", "required": true, "detail": "built in"},
            {"name": "tracepoint-cgroup_mkdir", "status": "ok", "required": false, "detail": "births"},
            {"name": "tracepoint-sched_stat_runtime", "status": "missing", "required": false, "detail": "no BTF"},
        ]});
        assert_eq!(json!(report), expected);
        let text = table(&report).unwrap();
        assert!(text.contains("tracepoint-sched_stat_runtime  missing  no BTF\n"), "{text}");
        assert!(text.ends_with("ok, degraded: files take over where eBPF cannot be had\n"), "{text}");
    }
}
