//! The policy in force, from wherever it comes: laid over the defaults, told when it comes from somewhere else, and
//! each field that is refused told in the log, counted, and recorded as a Kubernetes event.

use std::sync::Arc;

use super::joined::{ConfigData, Joined, PolicySource};
use super::once::Once;
use super::policy_events::PolicyEvents;
use crate::api::node::Node;
use crate::api::node_slo::{NodeSlo, NodeSloSpec};
use crate::state::slo::config_map::{ConfigMapNotice, ConfigMapPolicy};
use crate::state::slo::{Slo, SloMerger, SloNotice};
use crate::units::Nanos;

/// What takes policies.
pub(super) struct PolicyIntake {
    merger: SloMerger,
    config_map: ConfigMapPolicy,
    data: Option<ConfigData>,
    source: Option<&'static str>,
    said: Once,
    events: PolicyEvents,
}

/// What a policy came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Whether it is another one than the last.
    pub(super) changed: bool,
    /// Fields and keys that were refused.
    pub(super) refused: usize,
}

impl PolicyIntake {
    /// The defaults, until there is a policy.
    pub(super) fn new(events: PolicyEvents) -> Self {
        Self {
            merger: SloMerger::default(),
            config_map: ConfigMapPolicy::default(),
            data: None,
            source: None,
            said: Once::default(),
            events,
        }
    }

    /// The policy in force.
    pub(super) fn slo(&self) -> &Slo {
        self.merger.slo()
    }

    /// Takes the policy of `joined`.
    pub(super) fn take(&mut self, joined: &Joined, now: Nanos) -> Taken {
        let node = joined.node().map(|node| &**node);
        self.events.node_is(joined.server_node().map(|node| &**node));
        match joined.policy(now) {
            PolicySource::Open => Taken::default(),
            PolicySource::Stays => {
                let changed = !self.merger.slo().synced;
                self.merger.absent();
                self.comes_from("nobody: what is in force stays");
                Taken { changed, refused: 0 }
            }
            PolicySource::Manifest(located, slo) => {
                self.comes_from("a manifest");
                let place = |notice: &SloNotice| {
                    format!("{}:{}", located.file.display(), located.line_of(&notice.field))
                };
                self.apply(&slo.spec, None, Vec::new(), place, now)
            }
            PolicySource::NodeSlo(slo) => {
                self.comes_from("the NodeSLO");
                let place = |_: &SloNotice| format!("NodeSLO {}", slo.metadata.name);
                self.apply(&slo.spec, Some(slo), Vec::new(), place, now)
            }
            PolicySource::ConfigMap(data) => {
                self.comes_from("the ConfigMap, since there is no NodeSLO");
                let (spec, notices) = self.render(data, node);
                self.apply(&spec, None, notices, |_| "slo-controller-config".to_owned(), now)
            }
            PolicySource::Defaults => {
                self.comes_from("defaults, since there is neither a NodeSLO nor a ConfigMap");
                self.apply(&NodeSloSpec::default(), None, Vec::new(), |_| "defaults".to_owned(), now)
            }
        }
    }

    /// Events of what is still wrong with the policy, now and then: the API server keeps them for an hour.
    pub(super) fn remind(&mut self, now: Nanos) {
        self.events.remind(now);
    }

    fn comes_from(&mut self, source: &'static str) {
        if self.source.replace(source) != Some(source) {
            tracing::info!(source, "the policy comes from");
        }
    }

    /// What the ConfigMap says for this node, and what in it was refused and had not been before.
    fn render(&mut self, data: &ConfigData, node: Option<&Node>) -> (NodeSloSpec, Vec<String>) {
        let mut notices = Vec::new();
        if !self.data.as_ref().is_some_and(|known| Arc::ptr_eq(known, data)) {
            notices = self.config_map.take(data);
            self.data = Some(Arc::clone(data));
            // What was wrong with the last one is not told again an hour later.
            self.events.refused(None, Vec::new(), Nanos(0));
        }
        let metadata = node.map(|node| &node.metadata).cloned().unwrap_or_default();
        let (spec, of_node) = self.config_map.render(&metadata.labels, &metadata.annotations);
        notices.extend(of_node);
        let lines: Vec<String> = notices.iter().map(ConfigMapNotice::to_string).collect();
        (spec, self.said.news(lines))
    }

    /// `others` are refusals that are no fields of a NodeSLO.
    fn apply(
        &mut self,
        spec: &NodeSloSpec,
        of: Option<&NodeSlo>,
        others: Vec<String>,
        place: impl Fn(&SloNotice) -> String,
        now: Nanos,
    ) -> Taken {
        let applied = self.merger.apply(spec);
        let changed = applied.is_some();
        let mut lines = others;
        lines.extend(applied.unwrap_or_default().iter().map(|notice| format!("{}: {notice}", place(notice))));
        for line in &lines {
            tracing::warn!("policy: {line}");
        }
        let refused = lines.len();
        if changed || refused > 0 {
            self.events.refused(of, lines, now);
        }
        Taken { changed, refused }
    }
}

#[cfg(test)]
mod tests;
