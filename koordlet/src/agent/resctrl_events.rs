//! Kubernetes events of pods' resctrl groups: each pod is told that it has one, hooks.md 11.1.

use std::sync::Arc;

use tokio::sync::watch;

use crate::executor::{Notice, NoticeKind};
use crate::kube::event_series::{Happening, Severity, Subject};
use crate::kube::events::EventRecorder;
use crate::resctrl::group::ResctrlGroup;
use crate::state::pods::PodTable;

/// The event's reason, as the reference words it.
const REASON: &str = "Pod Level Resctrl";
/// The part of the agent that says so, hooks.md 2.3.
const COMPONENT: &str = "koordlet-runtimehook";

/// Records them. Without a recorder nothing is.
#[derive(Debug)]
pub(super) struct ResctrlEvents {
    recorder: Option<EventRecorder>,
    pods: watch::Receiver<Arc<PodTable>>,
}

impl ResctrlEvents {
    /// Events by `recorder` on `pods`.
    pub(super) fn new(recorder: Option<EventRecorder>, pods: watch::Receiver<Arc<PodTable>>) -> Self {
        Self { recorder, pods }
    }

    /// Records the event of a notice, if it is about a group that was made for a known pod.
    pub(super) fn take(&self, notice: &Notice) {
        if let Some(recorder) = &self.recorder
            && let Some(happening) = happening(notice, &self.pods.borrow())
        {
            recorder.record(happening);
        }
    }
}

fn happening(notice: &Notice, pods: &PodTable) -> Option<Happening> {
    if notice.kind != NoticeKind::GroupMade {
        return None;
    }
    let group = ResctrlGroup::of_pods_dir(notice.target.rsplit('/').next()?)?;
    let metadata = &pods.pods.get(group.pod_uid()?)?.pod.metadata;
    let subject = Subject {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
    };
    let note = notice.text.clone();
    Some(Happening { subject, severity: Severity::Normal, component: COMPONENT, reason: REASON, note })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::testing::{pod, table};

    #[test]
    fn a_pod_is_told_that_it_has_a_group() {
        let pods = table([pod("u-1", "LS", serde_json::json!({"containers": [{"name": "c"}]}))]);
        let notice = |kind, name: &str| Notice {
            kind,
            target: format!("/sys/fs/resctrl/{name}"),
            text: format!("made the resctrl group {name}"),
        };
        let found = happening(&notice(NoticeKind::GroupMade, "koordlet-u-1"), &pods).unwrap();
        assert_eq!((found.severity, found.reason), (Severity::Normal, "Pod Level Resctrl"));
        assert_eq!((found.subject.kind.as_str(), found.subject.name.as_str()), ("Pod", "u-1"));
        for (kind, name) in [
            (NoticeKind::GroupMade, "koordlet-gone"),
            (NoticeKind::GroupMade, "LS"),
            (NoticeKind::Refused, "koordlet-u-1"),
        ] {
            assert_eq!(happening(&notice(kind, name), &pods), None, "{name}");
        }
    }
}
