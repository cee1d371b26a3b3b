//! A NodeSLO spec laid over the defaults, qos.md 1.1, 1.5 and 1.7. Nonsense in a field keeps the last good
//! value of its whole strategy, so that fields which belong together never mix two specs.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{CpuSuppressPolicy, Slo, SuppressPolicy};
use crate::api::node_slo::{HostApplication, NodeSloSpec};
use crate::units::Percent;

/// A field that was refused, and what applies instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SloNotice {
    /// Path of the field, e.g. `spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent`.
    pub field: String,
    /// What was given, shortened.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
    /// What applies instead.
    pub applies: String,
}

impl fmt::Display for SloNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, value, problem, applies } = self;
        write!(f, "{field}: {value} {problem}; {applies}")
    }
}

/// Lays each new spec over the defaults and keeps the last good value of each strategy.
#[derive(Debug, Default)]
pub struct SloMerger {
    slo: Slo,
}

impl SloMerger {
    /// The policy in force.
    pub fn slo(&self) -> &Slo {
        &self.slo
    }

    /// The source has synced and has no NodeSLO: what is in force stays, at first the defaults.
    pub fn absent(&mut self) {
        self.slo.synced = true;
    }

    /// Takes a new spec; `None` when it is deeply equal to the last one. A strategy with a bad field stays
    /// as it was; the rest applies.
    pub fn apply(&mut self, spec: &NodeSloSpec) -> Option<Vec<SloNotice>> {
        if self.slo.synced && *self.slo.spec == *spec {
            return None;
        }
        let mut notices = Vec::new();
        self.slo.synced = true;
        self.slo.spec = Arc::new(spec.clone());
        if let Some(policy) = merge_suppress(spec, &self.slo.suppress, &mut notices) {
            self.slo.suppress = policy;
        }
        self.slo.host_applications = merge_host_applications(spec, &self.slo.host_applications, &mut notices);
        Some(notices)
    }
}

const THRESHOLDS: &str = "spec.resourceUsedThresholdWithBE";
const HOST_APPLICATIONS: &str = "spec.hostApplications";

/// Every field of qos.md 1.1, also of strategies that are not here yet: what else is written there is a slip
/// of the pen, or newer than this agent.
const THRESHOLD_FIELDS: &[&str] = &[
    "enable",
    "cpuSuppressThresholdPercent",
    "cpuSuppressMinPercent",
    "cpuSuppressPolicy",
    "memoryEvictThresholdPercent",
    "memoryEvictLowerPercent",
    "memoryAllocatableEvictThresholdPercent",
    "memoryAllocatableEvictLowerPercent",
    "cpuEvictBESatisfactionLowerPercent",
    "cpuEvictBESatisfactionUpperPercent",
    "cpuEvictBEUsageThresholdPercent",
    "cpuEvictTimeWindowSeconds",
    "cpuEvictThresholdPercent",
    "cpuEvictLowerPercent",
    "cpuAllocatableEvictThresholdPercent",
    "cpuAllocatableEvictLowerPercent",
    "cpuEvictPolicy",
    "evictEnabledPriorityThreshold",
    "allocatableEvictPriorityThreshold",
];

/// qos.md 1.1 over its defaults; `None` when a field is bad.
fn merge_suppress(
    spec: &NodeSloSpec,
    last_good: &CpuSuppressPolicy,
    notices: &mut Vec<SloNotice>,
) -> Option<CpuSuppressPolicy> {
    let mut fields = Fields::of(THRESHOLDS, spec.resource_used_threshold_with_be.as_ref());
    notices.extend(fields.unknown(THRESHOLD_FIELDS));
    let default = CpuSuppressPolicy::default();
    let policy = CpuSuppressPolicy {
        enable: fields.boolean("enable").unwrap_or(default.enable),
        threshold: fields.percent("cpuSuppressThresholdPercent").unwrap_or(default.threshold),
        min: fields.percent("cpuSuppressMinPercent").or(default.min),
        policy: match fields.text("cpuSuppressPolicy") {
            Some("cfsQuota") => SuppressPolicy::CfsQuota,
            None | Some("" | "cpuset") => SuppressPolicy::Cpuset,
            Some(other) => {
                let field = format!("{THRESHOLDS}.cpuSuppressPolicy");
                let odd = notice(field, &Value::from(other), "is neither \"cpuset\" nor \"cfsQuota\"");
                notices.push(SloNotice { applies: "it acts as \"cpuset\"".to_owned(), ..odd });
                SuppressPolicy::Cpuset
            }
        },
    };
    if fields.problems.is_empty() {
        return Some(policy);
    }
    notices.extend(fields.problems.into_iter().map(|problem| SloNotice {
        applies: format!("CPU suppression stays as it was: {last_good}"),
        ..problem
    }));
    None
}

/// The fields of one section; what is wrong with them is collected.
struct Fields<'a> {
    section: &'static str,
    map: Option<&'a Map<String, Value>>,
    problems: Vec<SloNotice>,
}

impl<'a> Fields<'a> {
    fn of(section: &'static str, value: Option<&'a Value>) -> Self {
        let mut fields = Self { section, map: None, problems: Vec::new() };
        match value {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => fields.map = Some(map),
            Some(other) => fields.problems.push(notice(section.to_owned(), other, "is not an object")),
        }
        fields
    }

    /// The value of `name` through `read`; absent and null are both "not set", as in Go.
    fn get<T>(&mut self, name: &str, problem: &str, read: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.map?.get(name).filter(|value| !value.is_null())?;
        let read = read(value);
        if read.is_none() {
            self.problems.push(notice(format!("{}.{name}", self.section), value, problem));
        }
        read
    }

    fn boolean(&mut self, name: &str) -> Option<bool> {
        self.get(name, "is not true or false", Value::as_bool)
    }

    fn percent(&mut self, name: &str) -> Option<Percent> {
        self.get(name, "is not a whole number from 0 to 100", |value| {
            value.as_i64().filter(|percent| (0..=100).contains(percent)).map(Percent)
        })
    }

    /// Fields with other names than these: they mean nothing. A few are enough to tell.
    fn unknown(&self, known: &[&str]) -> Vec<SloNotice> {
        let fields = self.map.into_iter().flatten().filter(|(name, _)| !known.contains(&name.as_str()));
        let ignored = |(name, value): (&String, &Value)| SloNotice {
            applies: "it is ignored".to_owned(),
            ..notice(format!("{}.{name:.80}", self.section), value, "is in a field that is not known here")
        };
        fields.take(8).map(ignored).collect()
    }

    fn text(&mut self, name: &str) -> Option<&'a str> {
        self.get(name, "is not a text", Value::as_str)
    }
}

fn notice(field: String, value: &Value, problem: &str) -> SloNotice {
    let value = value.to_string().chars().take(80).collect();
    SloNotice { field, value, problem: problem.to_owned(), applies: String::new() }
}

/// qos.md 1.5: the list replaces the previous one; of a bad entry the last good one of its name stays.
fn merge_host_applications(
    spec: &NodeSloSpec,
    last_good: &[HostApplication],
    notices: &mut Vec<SloNotice>,
) -> Vec<HostApplication> {
    let entries = match &spec.host_applications {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(other) => {
            let applies = "the last good list stays".to_owned();
            notices
                .push(SloNotice { applies, ..notice(HOST_APPLICATIONS.to_owned(), other, "is not a list") });
            return last_good.to_vec();
        }
    };
    let mut names = BTreeSet::new();
    let mut applications = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = format!("{HOST_APPLICATIONS}[{index}]");
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let checked = if names.insert(name) {
            check_host_application(&field, entry)
        } else {
            Err(notice(format!("{field}.name"), &Value::from(name), "is there twice"))
        };
        match checked {
            Ok(application) => applications.push(application),
            Err(problem) => {
                let stays = last_good.iter().find(|known| known.name == name);
                let known = stays.filter(|_| !applications.iter().any(|a: &HostApplication| a.name == name));
                let applies = match known {
                    Some(_) => format!("the last good entry of {name:?} stays"),
                    None => "the entry is left out".to_owned(),
                };
                applications.extend(known.cloned());
                notices.push(SloNotice { applies, ..problem });
            }
        }
    }
    applications
}

fn check_host_application(field: &str, entry: &Value) -> Result<HostApplication, SloNotice> {
    let application: HostApplication = serde_json::from_value(entry.clone())
        .map_err(|error| notice(field.to_owned(), entry, &format!("is not an application: {error}")))?;
    let refuse = |part: &str, text: &str, problem: &str| {
        Err(notice(format!("{field}.{part}"), &Value::from(text), problem))
    };
    if application.name.is_empty() {
        return refuse("name", "", "must not be empty");
    }
    let path = application.cgroup_path.as_ref();
    let parts = [
        ("name", application.name.as_str()),
        ("cgroupPath.parentDir", path.map_or("", |path| path.parent_dir.as_str())),
        ("cgroupPath.relativePath", path.map_or("", |path| path.relative_path.as_str())),
    ];
    for (part, text) in parts {
        if text.contains('\0') || text.split('/').any(|step| step == "..") {
            return refuse(part, text, "leads out of its directory");
        }
    }
    let is_blank = |text: &str| text.split('/').all(|step| step.is_empty() || step == ".");
    if let Some(path) = path {
        let below_root = !path.base.starts_with("Kubepods");
        if below_root && is_blank(&path.parent_dir) && is_blank(&path.relative_path) {
            return refuse("cgroupPath", &path.base, "names the root group");
        }
    }
    Ok(application)
}

#[cfg(test)]
mod tests;
