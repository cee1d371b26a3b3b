//! Which targets a question of `koordlet explain` is about. Pure.

use std::fmt::Write;

use crate::cgroup::place::same_uid;
use crate::executor::TargetReport;
use crate::resctrl::group::ResctrlGroup;
use crate::state::pods::PodEntry;
use crate::state::snapshot::Snapshot;

/// The reports that `question` (`NAMESPACE/NAME`, a pod's UID or a cgroup path, empty for all) is about;
/// `None` if nothing of that name is known. Known and without any target is an empty answer.
pub fn select(reports: Vec<TargetReport>, question: &str, now: &Snapshot) -> Option<Vec<TargetReport>> {
    let question = question.trim();
    if question.is_empty() {
        return Some(reports);
    }
    let pods: Vec<&PodEntry> = named_pods(question, now).collect();
    if !pods.is_empty() {
        let about = |report: &TargetReport| pods.iter().any(|pod| is_of_pod(&report.path, pod));
        return Some(reports.into_iter().filter(about).collect());
    }
    let path = question.trim_end_matches('/');
    let relative = path.trim_start_matches('/');
    if relative.is_empty() {
        return None;
    }
    let is_known = now.tree.dirs.keys().any(|dir| ends_with_path(path, dir.as_str()));
    let about =
        |report: &TargetReport| is_beneath(&report.path, relative) || ends_with_path(&report.path, relative);
    let found: Vec<_> = reports.into_iter().filter(about).collect();
    (is_known || !found.is_empty()).then_some(found)
}

/// The pods that `question` names.
fn named_pods<'a>(question: &str, now: &'a Snapshot) -> impl Iterator<Item = &'a PodEntry> {
    let is_named = |namespace: &str, name: &str| question.split_once('/') == Some((namespace, name));
    now.pods.pods.values().map(|pod| &**pod).filter(move |pod| {
        let metadata = &pod.pod.metadata;
        is_named(&metadata.namespace, &metadata.name) || same_uid(question, &pod.uid)
    })
}

/// Whether a file is beneath the pod's directory, or in its resctrl group.
fn is_of_pod(path: &str, pod: &PodEntry) -> bool {
    let group = ResctrlGroup::of_pod(&pod.uid).ok();
    is_beneath(path, pod.dir.as_str()) || group.is_some_and(|group| is_beneath(path, group.name()))
}

/// Whether `dir` is a directory on the way to the file `path`.
fn is_beneath(path: &str, dir: &str) -> bool {
    path.match_indices(dir).any(|(at, _)| {
        let before = path.get(..at).is_some_and(|before| before.ends_with('/'));
        let after = path.get(at + dir.len()..).is_some_and(|after| after.starts_with('/'));
        before && after
    })
}

/// Whether `path` is `end` or ends with it after a slash.
fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Text for a query string, everything but unreserved characters escaped.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            escaped.push(char::from(byte));
        } else if write!(escaped, "%{byte:02X}").is_err() {
            break;
        }
    }
    escaped
}

/// The value of `name` in a query string; `None` if it is not there or badly escaped.
pub fn query_value(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let code = digit(rest.next())? * 16 + digit(rest.next())?;
            bytes.push(u8::try_from(code).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::api::pod::{ObjectMeta, Pod};
    use crate::api::qos::KubeQos;
    use crate::cgroup::path::CgroupDir;
    use crate::cgroup::place::DirKind;
    use crate::claims::claim::Owner;
    use crate::executor::TargetState;
    use crate::state::pods::PodTable;
    use crate::state::tree::CgroupTree;

    fn report(path: &str) -> TargetReport {
        TargetReport {
            path: path.to_owned(),
            cgroup_id: None,
            value: None,
            state: TargetState::Held,
            owner: Owner::CpuSuppress,
            reason: String::new(),
            inputs: BTreeMap::new(),
            replaced: None,
            claims: Vec::new(),
            detail: None,
        }
    }

    fn snapshot() -> Snapshot {
        let dir = |path| CgroupDir::new(path).unwrap();
        let metadata = ObjectMeta { name: "web".into(), namespace: "shop".into(), ..ObjectMeta::default() };
        let pod = PodEntry {
            pod: Arc::new(Pod { metadata, ..Pod::default() }),
            uid: "u-1".into(),
            kube_qos: KubeQos::Burstable,
            qos: None,
            dir: dir("kubepods/burstable/podu-1"),
            containers: Vec::new(),
            hooks_live: false,
        };
        let pods = PodTable { pods: [("u-1".into(), Arc::new(pod))].into(), synced: true };
        let dirs = [(dir("kubepods/podquiet"), DirKind::Pod)].into();
        Snapshot { pods: Arc::new(pods), tree: Arc::new(CgroupTree { dirs }), ..Snapshot::default() }
    }

    const BE: &str = "/sys/fs/cgroup/cpu/kubepods/besteffort/cpu.cfs_quota_us";
    const POD: &str = "/sys/fs/cgroup/cpu/kubepods/burstable/podu-1/cpu.cfs_quota_us";
    const CONTAINER: &str = "/sys/fs/cgroup/cpu/kubepods/burstable/podu-1/c1/cpu.cfs_quota_us";
    const GROUP: &str = "/sys/fs/resctrl/koordlet-u-1/schemata";
    const OTHER: &str = "/sys/fs/cgroup/cpu/kubepods/burstable/podu-10/cpu.cfs_quota_us";

    fn ask(question: &str) -> Option<Vec<String>> {
        let reports = [BE, POD, CONTAINER, GROUP, OTHER].map(report).to_vec();
        let found = select(reports, question, &snapshot())?;
        Some(found.into_iter().map(|report| report.path).collect())
    }

    #[test]
    fn a_pod_is_named_by_name_uid_or_path() {
        for question in ["shop/web", "u-1", "u_1"] {
            assert_eq!(ask(question).unwrap(), [POD, CONTAINER, GROUP], "{question}");
        }
        for question in [
            "kubepods/burstable/podu-1",
            "/kubepods/burstable/podu-1/",
            "/sys/fs/cgroup/cpu/kubepods/burstable/podu-1",
        ] {
            assert_eq!(ask(question).unwrap(), [POD, CONTAINER], "{question}");
        }
        assert_eq!(ask("").unwrap().len(), 5);
        assert_eq!(ask(CONTAINER).unwrap(), [CONTAINER]);
        assert_eq!(ask("kubepods/besteffort").unwrap(), [BE]);
        assert_eq!(ask("kubepods").unwrap().len(), 4);
    }

    #[test]
    fn what_is_unknown_differs_from_what_has_no_target() {
        assert_eq!(ask("shop/other"), None);
        assert_eq!(ask("/"), None);
        assert_eq!(ask("kubepods/pod"), None);
        assert_eq!(ask("kubepods/podquiet"), Some(vec![]));
        assert_eq!(ask("/sys/fs/cgroup/cpu/kubepods/podquiet"), Some(vec![]));
    }

    #[test]
    fn questions_survive_the_query_string() {
        for text in ["shop/web", "a b&c=d%", "ü/..", ""] {
            let query = format!("x=1&target={}", escape(text));
            assert_eq!(query_value(&query, "target").as_deref(), Some(text));
        }
        assert_eq!(query_value("target=%4", "target"), None);
        assert_eq!(query_value("target=%ff", "target"), None);
        assert_eq!(query_value("", "target"), None);
    }
}
