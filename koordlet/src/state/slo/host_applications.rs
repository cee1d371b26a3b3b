//! `hostApplications`, qos.md 1.5: the list replaces the previous one; of a bad entry the last good one of its name
//! stays.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::SloNotice;
use crate::api::node_slo::HostApplication;

const SECTION: &str = "spec.hostApplications";

/// The section, with the last good entry of each name for a bad one.
pub(super) fn read(
    section: Option<&Value>,
    last_good: &[HostApplication],
    notices: &mut Vec<SloNotice>,
) -> Vec<HostApplication> {
    let entries = match section {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(other) => {
            let applies = "the last good list stays".to_owned();
            notices.push(SloNotice { applies, ..SloNotice::new(SECTION.to_owned(), other, "is not a list") });
            return last_good.to_vec();
        }
    };
    let mut names = BTreeSet::new();
    let mut applications = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = format!("{SECTION}[{index}]");
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let checked = if names.insert(name) {
            check_host_application(&field, entry)
        } else {
            Err(SloNotice::new(format!("{field}.name"), &Value::from(name), "is there twice"))
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
    let application: HostApplication = serde_json::from_value(entry.clone()).map_err(|error| {
        SloNotice::new(field.to_owned(), entry, &format!("is not an application: {error}"))
    })?;
    let refuse = |part: &str, text: &str, problem: &str| {
        Err(SloNotice::new(format!("{field}.{part}"), &Value::from(text), problem))
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
