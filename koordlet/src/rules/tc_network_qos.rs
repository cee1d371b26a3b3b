//! TCNetworkQoS, hooks.md 11.5: a tree of traffic classes on the device of the default route, the addresses of pods by
//! class, and the network class of pods' cgroups. A pod with a limit of its own gets a class of its own.
//!
//! The number of such a class follows from the pod's UID, so that it is the same after a restart of the agent; the
//! reference picks it at random and forgets it then. Where two pods would have one number, the later one takes the next.

pub mod shares;

use core::net::Ipv4Addr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::shares::TcRule;
use super::bandwidth::{self, PodLimits};
use super::plugin::{News, Plugin};
use super::rule_pod::{RulePod, RuleTarget};
use super::rule_set::RuleNotice;
use super::wishes::{ReasonKey, Wishes};
use crate::api::keys;
use crate::api::qos::QosClass;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Claims, Owner, Reason};
use crate::claims::network::{ClassId, ClassShare, NetworkTarget, NetworkValue};
use crate::state::pods::{PodEntry, PodTable};
use crate::state::snapshot::Snapshot;
use crate::units::BitRate;

/// The numbers of pods' own classes: the shared ones are below.
const OWN_CLASSES: std::ops::Range<u16> = 0x100..0xff00;

/// The plugin.
#[derive(Clone, Debug, Default)]
pub struct TcNetworkQos {
    rule: Option<TcRule>,
    /// Whether the cgroups have `net_cls.classid`.
    has_net_cls: bool,
    own: BTreeMap<Arc<str>, OwnClass>,
}

/// A class of one pod's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnClass {
    class: ClassId,
    limit: BitRate,
}

impl TcNetworkQos {
    /// Name in notices, as the reference registers it.
    pub const NAME: &'static str = "tcPlugin";

    /// Gives each pod with a limit its class; those that have one keep it.
    fn assign(&mut self, pods: &PodTable) {
        let known = std::mem::take(&mut self.own);
        let wanted: Vec<(&Arc<str>, BitRate)> =
            pods.pods.iter().filter_map(|(uid, pod)| Some((uid, own_limit(pod)?))).collect();
        let mut taken = BTreeSet::new();
        for (uid, limit) in &wanted {
            if let Some(OwnClass { class, .. }) = known.get(*uid) {
                taken.insert(*class);
                self.own.insert(Arc::clone(uid), OwnClass { class: *class, limit: *limit });
            }
        }
        for (uid, limit) in wanted {
            if known.contains_key(uid) {
                continue;
            }
            // With as many pods as numbers, the rest share their QoS class.
            if let Some(class) = candidates(uid).find(|class| !taken.contains(class)) {
                taken.insert(class);
                self.own.insert(Arc::clone(uid), OwnClass { class, limit });
            }
        }
    }

    /// The class of a pod's traffic, with its own limit if it has one; `None` for a pod of which nothing is said.
    fn class_of(&self, pod: &PodEntry) -> Option<(ClassId, Option<OwnClass>)> {
        let own = self.own.get(&pod.uid).copied();
        let class = own.map(|own| own.class).or_else(|| shared_class(pod.qos));
        class.map(|class| (class, own))
    }

    fn claim_classes(&self, rule: &TcRule, snapshot: &Snapshot, claims: &mut Claims) {
        for (class, what) in [
            (ClassId::ROOT, "the node's total bandwidth"),
            (ClassId::SYSTEM, "what LS and BE are not promised, up to the total"),
            (ClassId::LS, "what LS is promised, up to its limit"),
            (ClassId::BE, "what BE is promised, up to its limit"),
        ] {
            claims.network.push(class_claim(class, rule.share(class), what, rule));
        }
        for (uid, own) in &self.own {
            let Some(pod) = snapshot.pods.pods.get(uid) else { continue };
            let share = rule.own_share(shared_class(pod.qos).unwrap_or(ClassId::SYSTEM), own.limit);
            let meta = &pod.pod.metadata;
            let what = format!("the limit of pod {}/{}, {} bit/s", meta.namespace, meta.name, own.limit);
            claims.network.push(class_claim(own.class, share, &what, rule));
        }
    }

    /// The addresses of pods by class. A pod on the node's own network has the node's address, which says nothing.
    fn claim_addresses(&self, snapshot: &Snapshot, claims: &mut Claims) {
        let mut by_class: BTreeMap<ClassId, BTreeSet<Ipv4Addr>> =
            [ClassId::SYSTEM, ClassId::LS, ClassId::BE].map(|class| (class, BTreeSet::new())).into();
        for pod in snapshot.pods.pods.values() {
            let is_reached = RulePod::new(pod).is_active() && !pod.pod.spec.host_network;
            if let (true, Some((class, _)), Some(address)) =
                (is_reached, self.class_of(pod), pod.pod.status.ipv4())
            {
                by_class.entry(class).or_default().insert(address);
            }
        }
        for (class, addresses) in by_class {
            let text = "addresses of the pods whose packets belong to the class (hooks.md 11.5)".to_owned();
            let inputs = BTreeMap::from([("pods", addresses.len().to_string())]);
            let (target, value) = (NetworkTarget::Addresses(class), NetworkValue::Addresses(addresses));
            claims.network.push(claim(target, value, Reason { text, inputs }));
        }
    }
}

impl Plugin for TcNetworkQos {
    fn owner(&self) -> Option<Owner> {
        Some(Owner::TcNetworkQos)
    }

    fn observe(&mut self, news: &News<'_>, notices: &mut Vec<RuleNotice>) {
        if let Some(kernel) = news.kernel {
            self.has_net_cls = kernel.net_cls;
        }
        if let Some(slo) = news.slo {
            let rule = TcRule::of(slo);
            if rule != self.rule {
                self.rule = rule;
                let now = rule.map_or("off".to_owned(), |rule| rule.to_string());
                notices.push(RuleNotice::Changed { rule: Self::NAME, now });
            }
        }
        news.tell_faults(Self::NAME, keys::NETWORK_QOS, |pod| bandwidth::pod_limits(&pod.pod).err(), notices);
        if let Some(pods) = news.pods {
            self.assign(pods.now);
        }
    }

    fn is_synced(&self, snapshot: &Snapshot) -> bool {
        snapshot.pods.synced && snapshot.slo.synced
    }

    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        let (RuleTarget::Pod(entry), true, true) = (target, self.has_net_cls, self.rule.is_some()) else {
            return;
        };
        let Some((class, own)) = self.class_of(entry).filter(|_| pod.is_active()) else { return };
        let figure = i64::from(class.raw());
        let key = ReasonKey {
            owner: Owner::TcNetworkQos,
            resource: Resource::NetClsClassid,
            of_pod: true,
            figure: Some(figure),
        };
        wishes.push(key, Value::Int(figure), || {
            let whose = if own.is_some() { "the pod's own" } else { "its QoS class's" };
            let text = format!("network class {class}, {whose} (hooks.md 11.5)");
            Reason { text, inputs: BTreeMap::from([("class", class.to_string())]) }
        });
    }

    fn claim_node(&self, snapshot: &Snapshot, claims: &mut Claims) {
        let Some(rule) = &self.rule else { return };
        self.claim_classes(rule, snapshot, claims);
        if self.has_net_cls {
            let text = "so that a task's cgroup tells its class (hooks.md 11.5)".to_owned();
            let reason = Reason { text, inputs: BTreeMap::new() };
            claims.network.push(claim(NetworkTarget::CgroupFilters, NetworkValue::Present, reason));
        }
        self.claim_addresses(snapshot, claims);
    }
}

/// The class that pods of a QoS class share; without a label none (hooks.md 11.5).
pub fn shared_class(qos: Option<QosClass>) -> Option<ClassId> {
    Some(match qos? {
        QosClass::System => ClassId::SYSTEM,
        QosClass::Lse | QosClass::Lsr | QosClass::Ls => ClassId::LS,
        QosClass::Be => ClassId::BE,
    })
}

/// What a pod may send at most; a limit of less than a byte a second is none.
fn own_limit(pod: &PodEntry) -> Option<BitRate> {
    let PodLimits { egress, .. } = bandwidth::pod_limits(&pod.pod).ok()??;
    egress.filter(|limit| limit.bytes_per_second() > 0 && RulePod::new(pod).is_active())
}

/// The classes that a pod may have, the preferred one first: FNV-1a of its UID, and on from there.
fn candidates(uid: &str) -> impl Iterator<Item = ClassId> {
    let hash = uid.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let count = u64::from(OWN_CLASSES.end - OWN_CLASSES.start);
    (0..count).filter_map(move |step| {
        let place = u16::try_from((hash % count + step) % count).ok()?;
        Some(ClassId::ours(OWN_CLASSES.start + place))
    })
}

fn class_claim(class: ClassId, share: ClassShare, what: &str, rule: &TcRule) -> Claim<NetworkTarget> {
    let figures = [
        ("total", rule.total),
        ("lsRequest", rule.ls.request),
        ("lsLimit", rule.ls.limit),
        ("beRequest", rule.be.request),
        ("beLimit", rule.be.limit),
    ];
    let inputs = figures.map(|(name, figure)| (name, figure.to_string())).into();
    let reason = Reason { text: format!("{what} (hooks.md 11.5)"), inputs };
    claim(NetworkTarget::Class(class), NetworkValue::Share(share), reason)
}

fn claim(target: NetworkTarget, value: NetworkValue, reason: Reason) -> Claim<NetworkTarget> {
    Claim::hold(target, value, Owner::TcNetworkQos, Arc::new(reason))
}
