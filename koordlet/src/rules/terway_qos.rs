//! TerwayQoS, hooks.md 11.4: under the policy `terway-qos` the figures of node and pods go into two files that Terway's
//! daemon reads; under any other policy there are none.

pub mod files;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bandwidth;
use super::plugin::{News, Plugin};
use super::rule_pod::RulePod;
use super::rule_set::RuleNotice;
use crate::api::keys;
use crate::claims::claim::{Claim, Claims, Owner, Reason};
use crate::claims::own_file::{OwnContent, OwnFile};
use crate::state::slo::Slo;
use crate::state::slo::qos::network::NetworkQosPolicy;
use crate::state::snapshot::Snapshot;

/// The plugin.
#[derive(Clone, Debug, Default)]
pub struct TerwayQos {
    /// Whether the policy is Terway's; `None` before one was seen.
    is_on: Option<bool>,
    /// The text of the node's file, from the last policy that could be used.
    node: Option<Arc<str>>,
    /// The text of the pods' file.
    pods: Option<Arc<str>>,
}

impl TerwayQos {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "TerwayQoS";

    fn take_policy(&mut self, slo: &Slo, notices: &mut Vec<RuleNotice>) {
        let network = &slo.qos.network;
        let is_on = network.policy == NetworkQosPolicy::TerwayQos;
        let before = (self.is_on, self.node.clone());
        self.is_on = Some(is_on);
        if is_on {
            let total = slo.system.total_network_bandwidth;
            match files::node_file(total, &network.classes.ls, &network.classes.be) {
                Ok(text) => self.node = Some(text.into()),
                Err(error) => notices.push(RuleNotice::Refused {
                    rule: Self::NAME,
                    object: "NodeSLO".to_owned(),
                    error: error.into(),
                }),
            }
        }
        let was_on = before.0 == Some(true);
        if (is_on || was_on) && before != (self.is_on, self.node.clone()) {
            let now = if is_on { "files for Terway" } else { "off: another policy" };
            notices.push(RuleNotice::Changed { rule: Self::NAME, now: now.to_owned() });
        }
    }
}

impl Plugin for TerwayQos {
    fn owner(&self) -> Option<Owner> {
        Some(Owner::TerwayQos)
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        if let Some(slo) = news.slo {
            self.take_policy(slo, notices);
        }
        news.tell_faults(Self::NAME, keys::NETWORK_QOS, |pod| bandwidth::pod_limits(&pod.pod).err(), notices);
        if let Some(pods) = news.pods {
            let active = pods.now.pods.values().filter(|pod| RulePod::new(pod).is_active());
            let text = files::pods_file(active.map(|pod| &**pod));
            self.pods = pods.now.synced.then(|| text.into());
        }
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced && snapshot.slo.synced
    }

    fn claim_node(&self, _: &Snapshot, claims: &mut Claims) {
        let Some(is_on) = self.is_on else { return };
        for (file, text, what) in [
            (OwnFile::TerwayNode, &self.node, "bandwidth of the node, of LS and of BE"),
            (OwnFile::TerwayPods, &self.pods, "priority and bandwidth of each pod"),
        ] {
            let (content, why) = match text {
                Some(text) if is_on => (OwnContent::Text(Arc::clone(text)), what),
                // Nothing to say yet.
                None if is_on => continue,
                _ => (OwnContent::Absent, "the policy is not terway-qos"),
            };
            let reason = Reason { text: format!("{why} (hooks.md 11.4)"), inputs: BTreeMap::new() };
            claims.own_files.push(Claim::hold(file, content, Owner::TerwayQos, Arc::new(reason)));
        }
    }
}
