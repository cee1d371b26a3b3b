//! What a file holds against what is wished, by meaning and not by text (design.md 4): memory in whole pages,
//! CPU lists as sets, a quota as its share of the period in force.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cgroup::layout::Layout;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::{Value, ValueError, quota_for_period, quota_per_100ms};
use crate::claims::target::CgroupTarget;
use crate::units::CFS_PERIOD_US;

/// The CFS period that is in force for a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Microseconds.
    pub us: i64,
    /// Whether it stands in the quota's own file, so that a reading of the quota tells it too.
    pub in_quota_file: bool,
}

/// A layout as the executor uses it.
#[derive(Clone, Debug)]
pub struct Files {
    layout: Arc<Layout>,
    host_root: Option<(PathBuf, PathBuf)>,
}

impl Files {
    /// `host_root` maps our view of the cgroup root (first) to the host's (second), for shown paths.
    pub fn new(layout: Arc<Layout>, host_root: Option<(PathBuf, PathBuf)>) -> Self {
        Self { layout, host_root }
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// Index of the hierarchy that holds a resource, if the host has it.
    pub fn hierarchy(&self, resource: Resource) -> Option<usize> {
        let controller = resource.controller();
        self.layout.hierarchies().iter().position(|h| h.controllers().contains(&controller))
    }

    /// Name of a resource's file.
    pub fn file_name(&self, dir: &CgroupDir, resource: Resource) -> Option<String> {
        let loc = self.layout.file(dir, resource)?;
        Some(loc.relative.file_name()?.to_str()?.to_owned())
    }

    /// The absolute path of a target, as the host sees it.
    pub fn shown_path(&self, target: &CgroupTarget) -> String {
        let CgroupTarget { dir, resource } = target;
        let path = self.layout.file(dir, *resource).and_then(|loc| self.layout.path(&loc));
        let Some(path) = path else { return target.to_string() };
        let host =
            self.host_root.as_ref().and_then(|(ours, hosts)| Some(hosts.join(path.strip_prefix(ours).ok()?)));
        host.unwrap_or(path).display().to_string()
    }

    /// Whether the period of a quota is written and read in the quota's own file.
    pub fn period_in_quota_file(&self, dir: &CgroupDir) -> bool {
        self.layout.file(dir, Resource::CfsQuota) == self.layout.file(dir, Resource::CfsPeriod)
    }

    /// Whether `text` already means `want`.
    pub fn holds(&self, resource: Resource, want: &Value, text: &str, period: Option<Period>) -> bool {
        match (want, period) {
            (Value::Quota(quota), Some(period)) if !period.in_quota_file => {
                self.layout.same(resource, &Value::Quota(quota_for_period(*quota, period.us)), text)
            }
            _ => self.layout.same(resource, want, text),
        }
    }

    /// The text that makes a file mean `value`.
    pub fn text(
        &self,
        resource: Resource,
        value: &Value,
        period: Option<Period>,
    ) -> Result<String, ValueError> {
        match (value, period) {
            (Value::Quota(quota), Some(period)) => {
                self.layout.format(resource, &Value::Quota(quota_for_period(*quota, period.us)))
            }
            _ => self.layout.format(resource, value),
        }
    }

    /// What a text means, a quota as one for a period of 100 ms; `None` if it cannot be understood.
    pub fn value(&self, resource: Resource, text: &str, period: Option<Period>) -> Option<Value> {
        match (self.layout.parse(resource, text).ok()?, period) {
            (Value::Quota(quota), Some(period)) => Some(Value::Quota(quota_per_100ms(quota, period.us))),
            (value, _) => Some(value),
        }
    }

    /// The period in a text, in microseconds; 100 ms if it says nothing sensible.
    pub fn period(&self, text: &str) -> i64 {
        match self.layout.parse(Resource::CfsPeriod, text) {
            Ok(Value::Int(period)) if period > 0 => period,
            _ => CFS_PERIOD_US,
        }
    }
}
