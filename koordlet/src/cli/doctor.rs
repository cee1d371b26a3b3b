//! `koordlet doctor`: what this node offers the agent and what is missing, each line tried, not guessed from a
//! version. Exit code 1 where enforcement is impossible, or where eBPF was asked for and cannot be had.

use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::process::ExitCode;

use serde::Serialize;

use crate::cgroup::layout::Layout;
use crate::cgroup::naming::{CgroupDriver, Naming};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Controller;
use crate::config::settings::{Config, DriverChoice, EbpfMode, Output};
use crate::host::kernel::Kernel;
use crate::host::offers::{self, Offer, State};
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
}

impl From<State> for Status {
    fn from(state: State) -> Self {
        match state {
            State::Ok => Self::Ok,
            State::Missing => Self::Missing,
            State::Failed => Self::Failed,
        }
    }
}

/// What trying eBPF gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EbpfTrial {
    /// This binary holds no object.
    NotBuiltIn,
    /// The kernel took none of it, for this reason.
    Refused(String),
    /// Each tracepoint by itself.
    Tracepoints(Vec<Offer>),
}

/// Prints what this node offers. `try_ebpf` loads and attaches the object, and detaches it again; it is not
/// called with `--ebpf=off`.
pub fn run(
    config: &Config,
    output: Output,
    try_ebpf: impl FnOnce() -> EbpfTrial,
) -> anyhow::Result<ExitCode> {
    let trial = (config.ebpf != EbpfMode::Off).then(try_ebpf);
    let report = Report::from(checks(config, trial.as_ref()), config.ebpf);
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

fn checks(config: &Config, ebpf: Option<&EbpfTrial>) -> Vec<Check> {
    let mut offers = offers::of_kernel(&Kernel::read(&config.roots));
    offers.push(offers::cpus(&config.roots));
    offers.push(offers::run_dir(&config.run_dir));
    match Layout::detect(&config.roots) {
        Ok(layout) => {
            offers.extend(offers::controllers(&layout));
            let kubepods = kubepods_dirs(config);
            offers.push(driver(config, &layout, &kubepods));
            let dirs: Vec<CgroupDir> = kubepods.into_iter().map(|(_, dir)| dir).collect();
            offers.extend(offers::optional_files(&layout, &dirs));
        }
        Err(error) => offers.push(Offer::failed("cgroup-layout", chain(&error))),
    }
    offers.push(cpu_manager(config));
    let mut checks: Vec<Check> = offers.into_iter().map(Check::listed).collect();
    checks.extend(ebpf_checks(config.ebpf, ebpf));
    checks
}

/// The kubepods directory of each driver that the configuration leaves open.
fn kubepods_dirs(config: &Config) -> Vec<(CgroupDriver, CgroupDir)> {
    let drivers = match config.cgroup_driver {
        DriverChoice::Auto => vec![CgroupDriver::Systemd, CgroupDriver::Cgroupfs],
        DriverChoice::Systemd => vec![CgroupDriver::Systemd],
        DriverChoice::Cgroupfs => vec![CgroupDriver::Cgroupfs],
    };
    let root = config.kubelet_cgroup_root.as_ref().map_or("", CgroupDir::as_str);
    let namings = drivers.into_iter().filter_map(|driver| Naming::candidates(driver, root).ok()).flatten();
    namings.map(|naming| (naming.driver(), naming.kubepods().clone())).collect()
}

/// Who names the kubelet's cgroups, as far as it can be seen now.
fn driver(config: &Config, layout: &Layout, kubepods: &[(CgroupDriver, CgroupDir)]) -> Offer {
    const NAME: &str = "cgroup-driver";
    let root = layout.hierarchy_root(Controller::Cpu);
    let there = kubepods.iter().find(|(_, dir)| root.is_some_and(|root| root.join(dir.as_str()).is_dir()));
    match (there, config.cgroup_driver) {
        (Some((driver, dir)), _) => Offer::ok(NAME, format!("{driver}: {dir} is there")),
        (None, DriverChoice::Auto) => {
            Offer::missing(NAME, "no kubepods directory yet: known as soon as the kubelet makes it")
        }
        (None, _) => {
            Offer::missing(NAME, "set by --cgroup-driver, but its kubepods directory is not there yet")
        }
    }
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

/// Without an object `--ebpf=off` has to be said: an agent that was built wrongly must not pass for one on
/// an old kernel. Tracepoints are needed only with `--ebpf=required`.
fn ebpf_checks(mode: EbpfMode, trial: Option<&EbpfTrial>) -> Vec<Check> {
    let Some(trial) = trial else { return Vec::new() };
    let tracepoints = match trial {
        EbpfTrial::NotBuiltIn => return vec![Check::required(Offer::missing(OBJECT, "built without eBPF"))],
        EbpfTrial::Refused(why) => vec![Offer::failed(format!("{TRACEPOINT}all"), why)],
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

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
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
        let report = Report::from(ebpf_checks(mode, trial), mode);
        (report.ok, report.degraded)
    }

    #[test]
    fn ebpf_that_cannot_be_had_degrades_and_fails_only_where_it_is_required() {
        let all = tracepoints(Offer::ok("sched_stat_runtime", "CPU time"));
        let one_less = tracepoints(Offer::failed("sched_stat_runtime", "no such tracepoint"));
        let refused = EbpfTrial::Refused("no BTF".into());
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
        let report = Report::from(ebpf_checks(EbpfMode::Auto, Some(&trial)), EbpfMode::Auto);
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
