//! Texts of v2 where they are other ones than those of v1.

use super::{Group, UNLIMITED};
use crate::cgroup::resource::Resource;

/// What a file shows.
pub(super) fn text(group: &Group, resource: Resource) -> Option<String> {
    let limit = |bytes: i64| if bytes == UNLIMITED { "max".to_owned() } else { bytes.to_string() };
    match resource {
        Resource::CfsQuota | Resource::CfsPeriod if group.quota < 0 => Some(format!("max {}", group.period)),
        Resource::CfsQuota | Resource::CfsPeriod => Some(format!("{} {}", group.quota, group.period)),
        Resource::MemoryLimit => Some(limit(group.memory)),
        Resource::MemswLimit => Some(limit(group.memsw)),
        _ => None,
    }
}

/// A text that was written, as v1 would have it. The period is never written here.
pub(super) fn plain(resource: Resource, text: &str) -> String {
    let first = text.split(' ').next().unwrap_or_default();
    match resource {
        Resource::CfsQuota | Resource::MemoryLimit | Resource::MemswLimit if first == "max" => {
            "-1".to_owned()
        }
        _ => first.to_owned(),
    }
}
