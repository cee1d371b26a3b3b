//! What the agent's loop tells the pod sync of cgroups: a pod's or a container's directory came or went. Telling
//! never waits, and nothing told is lost: it is kept as one mark and a bounded list, however slow the kubelet is.
//!
//! On v1 a directory comes once in each hierarchy; the one of the cpu controller counts, as with the reference
//! (collection.md 8; C150).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::kubelet_stats::KubeletStats;
use super::pod_list::PodMap;
use crate::cgroup::naming::{Naming, split_container_id};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::place::{DirKind, same_uid};
use crate::cgroup::resource::Controller;
use crate::ebpf::events::CgroupEvent;

/// Most new containers whose status is waited for; of more the next regular list tells.
const MAX_BIRTHS: usize = 1024;

/// The telling side; cheap to clone.
#[derive(Clone, Debug)]
pub struct PodTrigger {
    naming: Naming,
    shared: Arc<Shared>,
}

/// The hearing side, for [`super::pod_sync::PodSync`].
#[derive(Debug)]
pub struct Triggers {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    told: Mutex<Told>,
    news: Notify,
    stats: Arc<KubeletStats>,
}

/// What was told since it was last heard.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// When the first of it was.
    pub(super) since: Option<Instant>,
    /// Containers that were born, at most [`MAX_BIRTHS`].
    pub(super) births: Vec<ContainerBirth>,
}

/// A container's directory as it was born.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerBirth {
    /// The pod's UID as the directory's name has it.
    pub(super) pod: String,
    /// Id without the runtime.
    pub(super) id: String,
    /// When.
    pub(super) at: Instant,
}

impl PodTrigger {
    /// Both sides, for a node that names its cgroups by `naming`.
    pub fn channel(naming: Naming, stats: Arc<KubeletStats>) -> (Self, Triggers) {
        let shared = Arc::new(Shared { told: Mutex::default(), news: Notify::new(), stats });
        (Self { naming, shared: Arc::clone(&shared) }, Triggers { shared })
    }

    /// Takes one event; those of other directories than a pod's or a container's are ignored.
    pub fn cgroup_event(&self, event: &CgroupEvent) {
        match event {
            CgroupEvent::Born { controllers, dir, .. } if controllers.contains(&Controller::Cpu) => {
                self.directory(dir, true);
            }
            CgroupEvent::Died { controllers, dir, .. } if controllers.contains(&Controller::Cpu) => {
                self.directory(dir, false);
            }
            CgroupEvent::Born { .. } | CgroupEvent::Died { .. } => {}
            CgroupEvent::Lost { .. } => self.tell(None),
        }
    }

    fn directory(&self, dir: &CgroupDir, is_born: bool) {
        let Some(place) = self.naming.classify(dir) else { return };
        match (place.kind, place.pod_uid, place.container_id) {
            (DirKind::Container, Some(pod), Some(id)) if is_born => {
                self.tell(Some(ContainerBirth {
                    pod: pod.to_owned(),
                    id: id.to_owned(),
                    at: Instant::now(),
                }));
            }
            (DirKind::Pod, ..) | (DirKind::Container, _, Some(_)) => self.tell(None),
            _ => {}
        }
    }

    fn tell(&self, birth: Option<ContainerBirth>) {
        self.shared.stats.events.fetch_add(1, Ordering::Relaxed);
        {
            let mut told = self.shared.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.since.get_or_insert_with(Instant::now);
            if told.births.len() < MAX_BIRTHS {
                told.births.extend(birth);
            }
        }
        self.shared.news.notify_one();
    }
}

impl Triggers {
    /// Waits until something was told. Safe to drop half-way.
    pub(super) async fn told(&self) -> Told {
        loop {
            let told = self.take();
            if told.since.is_some() {
                return told;
            }
            self.shared.news.notified().await;
        }
    }

    /// What was told, at once.
    pub(super) fn take(&self) -> Told {
        std::mem::take(&mut *self.shared.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ContainerBirth {
    /// Whether `pods` tell this container's status already, or never will, since they do not have its pod.
    pub(super) fn is_settled(&self, pods: &PodMap) -> bool {
        let Some((_, pod)) = pods.iter().find(|(uid, _)| same_uid(&self.pod, uid)) else { return true };
        let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
        statuses
            .filter_map(|status| split_container_id(&status.container_id).ok())
            .any(|(_, id)| id == self.id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cgroup::naming::CgroupDriver;

    fn channel(driver: CgroupDriver) -> (PodTrigger, Triggers) {
        PodTrigger::channel(Naming::new(driver, "").unwrap(), Arc::default())
    }

    fn event(is_born: bool, controllers: &[Controller], path: &str) -> CgroupEvent {
        let (controllers, dir) = (controllers.to_vec(), CgroupDir::new(path).unwrap());
        if is_born {
            CgroupEvent::Born { controllers, id: 1, dir }
        } else {
            CgroupEvent::Died { controllers, id: 1, dir }
        }
    }

    #[tokio::test]
    async fn pods_and_containers_trigger_and_nothing_else_does() {
        let (trigger, triggers) = channel(CgroupDriver::Cgroupfs);
        let cpu = [Controller::Cpu, Controller::Cpuacct];
        for (path, triggering) in [
            ("kubepods", false),
            ("kubepods/besteffort", false),
            ("kubepods/besteffort/podu1", true),
            ("kubepods/podu1", true),
            ("kubepods/podu1/c1", true),
            ("kubepods/podu1/c1/init.scope", false),
            ("system/podu1", false),
        ] {
            for is_born in [true, false] {
                trigger.cgroup_event(&event(is_born, &cpu, path));
                assert_eq!(triggers.take().since.is_some(), triggering, "{path} {is_born}");
            }
        }
        trigger.cgroup_event(&CgroupEvent::Lost { count: 1 });
        assert!(triggers.told().await.births.is_empty());
    }

    #[tokio::test]
    async fn c150_one_hierarchy_counts() {
        let (trigger, triggers) = channel(CgroupDriver::Systemd);
        let container = "kubepods.slice/kubepods-poda_b.slice/cri-containerd-1f.scope";
        for controller in [Controller::Memory, Controller::Cpuset, Controller::Cpu, Controller::Blkio] {
            trigger.cgroup_event(&event(true, &[controller], container));
        }
        let told = triggers.take();
        assert_eq!(told.births.len(), 1);
        let birth = &told.births[0];
        assert_eq!((birth.pod.as_str(), birth.id.as_str()), ("a_b", "1f"));

        let pods = |id: &str| -> PodMap {
            let pod = json!({"metadata": {"uid": "a-b"}, "status": {"containerStatuses": [
                {"name": "x", "containerID": ""}, {"name": "y", "containerID": id}]}});
            [("a-b".into(), Arc::new(serde_json::from_value(pod).unwrap()))].into()
        };
        assert!(birth.is_settled(&pods("containerd://1f")) && birth.is_settled(&PodMap::new()));
        assert!(!birth.is_settled(&pods("containerd://2f")) && !birth.is_settled(&pods("what")));
    }

    #[tokio::test]
    async fn what_nobody_hears_stays_bounded_and_is_not_lost() {
        let (trigger, triggers) = channel(CgroupDriver::Cgroupfs);
        for container in 0..5000 {
            trigger.cgroup_event(&event(true, &[Controller::Cpu], &format!("kubepods/podu1/c{container}")));
        }
        assert_eq!(triggers.told().await.births.len(), MAX_BIRTHS);
        assert!(triggers.take().since.is_none());
    }
}
