//! A write of the executor as an event: which pod, container or class it is about, and in which words.

use std::time::SystemTime;

use super::event::{Event, Level, Subject};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::place::kube_qos_of_path;
use crate::cgroup::resource::Resource;
use crate::claims::claim::Owner;
use crate::executor::observer::{WriteRecord, WriteSubject};
use crate::state::pods::PodTable;

/// Reason of a cgroup file's write, collection.md 13.1.
const UPDATE_CGROUPS: &str = "UpdateCgroups";
/// Reason of a write to a setting of the host, hooks.md 7.4.
const UPDATE_SYSTEM_CONFIG: &str = "UpdateSystemConfig";
/// Reason of a write to a resctrl group, qos.md 10.
const UPDATE_RESCTRL: &str = "UpdateResctrl";
/// Reason of moved tasks, qos.md 10.
const APPLY_TASKS: &str = "ApplyCatL3GroupTasks";
/// Reason of a change of BE's quota by suppression, qos.md 10. That names no text; the one used here says which
/// setting it is.
const ADJUST_BE: &str = "AdjustBEByNodeCPUUsage";

/// Whether any event of a write is kept.
pub fn is_kept(record: &WriteRecord, verbose: u32) -> bool {
    kind(&record.subject).1.is_kept_at(verbose)
        || (is_suppression(record) && Level::SUPPRESSION.is_kept_at(verbose))
}

/// The events of a write: one of the file, and one more, of a lower level, of a change of BE's quota by
/// suppression.
pub fn events(record: WriteRecord, at: SystemTime, pods: &PodTable, verbose: u32) -> Vec<Event> {
    let mut events = Vec::with_capacity(1);
    let about = Event {
        owner: record.owner.map(Owner::name).unwrap_or_default().into(),
        ..about(record.subject.dir(), pods)
    };
    if is_suppression(&record) && Level::SUPPRESSION.is_kept_at(verbose) {
        events.push(Event {
            reason: ADJUST_BE.into(),
            message: format!("update BE group to cfs_quota: {}", record.value).into(),
            why: record.why.clone().into(),
            was: record.was.clone().into(),
            ..about.clone().at(at)
        });
    }
    let (reason, level) = kind(&record.subject);
    if level.is_kept_at(verbose) {
        events.push(Event {
            reason: reason.into(),
            message: format!("update {} to {}", record.path, record.value).into(),
            why: record.why.into(),
            was: record.was.into(),
            ..about.at(at)
        });
    }
    events
}

/// Reason and level of a write's event.
fn kind(subject: &WriteSubject) -> (&'static str, Level) {
    match subject {
        WriteSubject::Cgroup(_) | WriteSubject::Directory(_) => (UPDATE_CGROUPS, Level::WRITE),
        WriteSubject::Resctrl(_) => (UPDATE_RESCTRL, Level::WRITE),
        WriteSubject::ResctrlTasks(_) => (APPLY_TASKS, Level::TASK),
        WriteSubject::Host => (UPDATE_SYSTEM_CONFIG, Level::WRITE),
    }
}

/// A write of suppression to the BE directory itself; quotas beneath it that it has lifted are none.
fn is_suppression(record: &WriteRecord) -> bool {
    record.owner == Some(Owner::CpuSuppress)
        && record.subject.resource() == Some(Resource::CfsQuota)
        && record.subject.dir().is_some_and(|dir| !is_in_pod(dir))
}

fn about(dir: Option<&CgroupDir>, pods: &PodTable) -> Event {
    let Some(dir) = dir else { return Event::default() };
    let pod = pods.pods.values().find(|pod| pod.dir.contains(dir));
    if let Some(pod) = pod {
        let container = pod.containers.iter().find(|container| container.dir.as_ref() == Some(dir));
        let id = container.and_then(|container| container.id.clone()).unwrap_or_default();
        let metadata = &pod.pod.metadata;
        return Event {
            subject: Some(Subject::Pod),
            namespace: metadata.namespace.clone().into(),
            name: metadata.name.clone().into(),
            container: id.into(),
            ..Event::default()
        };
    }
    if is_in_pod(dir) {
        return Event { subject: Some(Subject::Pod), ..Event::default() };
    }
    let class = format!("{:?}", kube_qos_of_path(dir.as_str()));
    Event { subject: Some(Subject::Group), name: class.into(), ..Event::default() }
}

/// Whether a directory is a pod's or in one, by its name: the pod may be gone from the table.
fn is_in_pod(dir: &CgroupDir) -> bool {
    dir.as_str().split('/').any(|part| part.starts_with("pod") || part.contains("-pod"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::api::pod::{ObjectMeta, Pod};
    use crate::api::qos::KubeQos;
    use crate::claims::target::CgroupTarget;
    use crate::state::pods::{ContainerEntry, ContainerKind, PodEntry};

    fn dir(path: &str) -> CgroupDir {
        CgroupDir::new(path).unwrap()
    }

    fn record(path: &str, resource: Resource, owner: Owner) -> WriteRecord {
        WriteRecord {
            subject: WriteSubject::Cgroup(CgroupTarget::new(&dir(path), resource)),
            path: format!("/sys/fs/cgroup/cpu/{path}/file"),
            value: "50000".into(),
            was: "-1".into(),
            owner: Some(owner),
            why: "because".into(),
        }
    }

    fn pods() -> PodTable {
        let metadata = ObjectMeta { name: "web".into(), namespace: "shop".into(), ..ObjectMeta::default() };
        let container = ContainerEntry {
            name: "app".into(),
            kind: ContainerKind::App,
            index: 0,
            id: Some("containerd://c1".into()),
            dir: Some(dir("kubepods/burstable/podu1/c1")),
        };
        let pod = PodEntry {
            pod: Arc::new(Pod { metadata, ..Pod::default() }),
            uid: "u1".into(),
            kube_qos: KubeQos::Burstable,
            qos: None,
            dir: dir("kubepods/burstable/podu1"),
            containers: vec![container],
            hooks_live: false,
        };
        PodTable { pods: [("u1".into(), Arc::new(pod))].into(), synced: true }
    }

    #[test]
    fn a_write_names_its_pod_container_or_class() {
        let of = |path: &str| {
            let record = record(path, Resource::CpuShares, Owner::BatchResource);
            let event = events(record, UNIX_EPOCH, &pods(), 3).remove(0);
            (event.subject.unwrap(), format!("{}/{}/{}", event.namespace, event.name, event.container))
        };
        let pod = |text: &str| (Subject::Pod, text.to_owned());
        assert_eq!(of("kubepods/burstable/podu1"), pod("shop/web/"));
        assert_eq!(of("kubepods/burstable/podu1/c1"), pod("shop/web/containerd://c1"));
        assert_eq!(of("kubepods/burstable/podu1/sandbox"), pod("shop/web/"));
        assert_eq!(of("kubepods/burstable/podgone/c1"), pod("//"));
        assert_eq!(of("kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podx.slice"), pod("//"));
        let class = |name: &str| (Subject::Group, format!("/{name}/"));
        assert_eq!(of("kubepods.slice/kubepods-besteffort.slice"), class("BestEffort"));
        assert_eq!(of("kubepods"), class("Guaranteed"));
    }

    #[test]
    fn suppression_of_be_is_told_at_its_level_too() {
        let reasons = |record: &WriteRecord, verbose| {
            let events = events(record.clone(), UNIX_EPOCH, &pods(), verbose);
            assert_eq!(is_kept(record, verbose), !events.is_empty());
            events.into_iter().map(|event| event.reason.into_owned()).collect::<Vec<_>>()
        };
        let be = record("kubepods/besteffort", Resource::CfsQuota, Owner::CpuSuppress);
        assert_eq!(reasons(&be, 3), [ADJUST_BE, UPDATE_CGROUPS]);
        assert_eq!((reasons(&be, 1), reasons(&be, 0).len()), (vec![ADJUST_BE.to_owned()], 2));
        for other in [
            record("kubepods/besteffort", Resource::Cpus, Owner::CpuSuppress),
            record("kubepods/besteffort", Resource::CfsQuota, Owner::BeUnlimited),
            record("kubepods/besteffort/podx", Resource::CfsQuota, Owner::CpuSuppress),
        ] {
            assert_eq!((reasons(&other, 3).len(), reasons(&other, 1).len()), (1, 0), "{other:?}");
        }
        let event = events(be, UNIX_EPOCH, &pods(), 3).remove(1);
        assert_eq!(event.message, "update /sys/fs/cgroup/cpu/kubepods/besteffort/file to 50000");
        assert_eq!((&*event.owner, &*event.why, &*event.was), ("CPU suppress", "because", "-1"));
    }
}
