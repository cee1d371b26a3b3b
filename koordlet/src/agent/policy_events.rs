//! Kubernetes events of a policy that is refused in part, so that `kubectl describe` shows it: on the NodeSLO if it is
//! one, else on the Node.

use crate::api::node::Node;
use crate::api::node_slo::NodeSlo;
use crate::api::pod::ObjectMeta;
use crate::kube::event_series::{Happening, Severity, Subject};
use crate::kube::events::EventRecorder;
use crate::units::Nanos;

/// The event's reason.
pub(super) const REASON: &str = "PolicyFieldRefused";
/// How often what is still wrong is told again; the API server drops events after an hour.
const REMIND: Nanos = Nanos(30 * 60 * 1_000_000_000);
/// Events of one policy at most; the log has all.
const MAX_EVENTS: usize = 16;

/// Records them. Without a recorder nothing is.
#[derive(Debug, Default)]
pub(super) struct PolicyEvents {
    recorder: Option<EventRecorder>,
    node: Subject,
    current: Vec<Happening>,
    told: Nanos,
}

impl PolicyEvents {
    /// Events by `recorder`.
    pub(super) fn new(recorder: Option<EventRecorder>) -> Self {
        Self { recorder, ..Self::default() }
    }

    /// The Node that events are about.
    pub(super) fn node_is(&mut self, node: Option<&Node>) {
        if let Some(node) = node
            && node.metadata.uid != self.node.uid
        {
            self.node = subject("v1", "Node", &node.metadata);
        }
    }

    /// What is wrong with the policy from now on, each line with field, value and what applies instead.
    pub(super) fn refused(&mut self, slo: Option<&NodeSlo>, lines: Vec<String>, now: Nanos) {
        let subject = slo.map_or_else(
            || self.node.clone(),
            |slo| subject("slo.koordinator.sh/v1alpha1", "NodeSLO", &slo.metadata),
        );
        let happening = |note| Happening {
            subject: subject.clone(),
            severity: Severity::Warning,
            component: "koordlet",
            reason: REASON,
            note,
        };
        self.current = lines.into_iter().take(MAX_EVENTS).map(happening).collect();
        self.record(now);
    }

    /// Tells again what is still wrong, now and then.
    pub(super) fn remind(&mut self, now: Nanos) {
        if !self.current.is_empty() && now >= self.told + REMIND {
            self.record(now);
        }
    }

    fn record(&mut self, now: Nanos) {
        self.told = now;
        if let Some(recorder) = &self.recorder {
            // An event about nothing would be refused: without a Node the log has to do.
            for happening in self.current.iter().filter(|happening| !happening.subject.name.is_empty()) {
                recorder.record(happening.clone());
            }
        }
    }
}

fn subject(api_version: &str, kind: &str, metadata: &ObjectMeta) -> Subject {
    Subject {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
    }
}

#[cfg(test)]
impl PolicyEvents {
    /// What is wrong at present.
    pub(super) fn current(&self) -> &[Happening] {
        &self.current
    }
}
