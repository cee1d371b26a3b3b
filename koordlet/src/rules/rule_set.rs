//! All rules of the node: fed with snapshots, asked for the claims of all targets or of one.

use std::collections::HashMap;
use std::sync::Arc;

use super::batch_resource::BatchResource;
use super::core_sched::CoreSched;
use super::cpu_normalization::CpuNormalization;
use super::cpuset_allocator::CpuSetAllocator;
use super::gpu_env::{GpuEnv, GpuFault};
use super::group_identity::GroupIdentity;
use super::group_identity::identities::IdentityError;
use super::injection::Injection;
use super::kept::KeptClaims;
use super::oom_score_adj::OomScoreAdj;
use super::plugin::{News, Plugin, PodNews};
use super::pod_resctrl::PodResctrl;
use super::pod_resctrl::lines::ResctrlFault;
use super::ratio::RatioError;
use super::rdma_device::RdmaDevice;
use super::rule_pod::{RuleGroup, RulePod, RuleTarget};
use super::settings::{PluginKind, RuleSettings};
use super::tc_network_qos::TcNetworkQos;
use super::terway_qos::TerwayQos;
use super::terway_qos::files::BandwidthError;
use super::wishes::{RuleWish, Wishes};
use crate::api::annotations::AnnotationError;
use crate::cgroup::path::CgroupDir;
use crate::cgroup::place::kube_qos_of_path;
use crate::claims::claim::{Claims, Owner, PodClaims};
use crate::state::pods::{ContainerEntry, PodEntry};
use crate::state::sandbox::sandbox_dir;
use crate::state::snapshot::Snapshot;
use crate::state::tree::DirKind;

/// Owners whose claims rules make.
const OWNERS: [Owner; 9] = [
    Owner::BatchResource,
    Owner::CpuNormalization,
    Owner::CpuSetAllocator,
    Owner::CoreSched,
    Owner::GroupIdentity,
    Owner::OomScoreAdj,
    Owner::PodResctrl,
    Owner::TerwayQos,
    Owner::TcNetworkQos,
];

/// What became of the inputs of a rule; to be told once.
#[derive(Debug)]
pub enum RuleNotice {
    /// A rule changed: pods have to be planned again.
    Changed {
        /// Which rule.
        rule: &'static str,
        /// What it says now.
        now: String,
    },
    /// An object could not be used; the last good rule stays in force.
    Refused {
        /// Which rule.
        rule: &'static str,
        /// Which object, e.g. `node` or `pod ns/name`.
        object: String,
        /// Why; names the annotation.
        error: RuleError,
    },
}

impl RuleNotice {
    /// Something about a pod that `rule` cannot use.
    pub(super) fn refused(rule: &'static str, pod: &PodEntry, error: impl Into<RuleError>) -> Self {
        let meta = &pod.pod.metadata;
        let object = format!("pod {}/{}", meta.namespace, meta.name);
        Self::Refused { rule, object, error: error.into() }
    }
}

/// Why an input was refused.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// The node's normalization ratio.
    #[error(transparent)]
    Ratio(#[from] RatioError),
    /// A bandwidth of the policy, for Terway.
    #[error(transparent)]
    Bandwidth(#[from] BandwidthError),
    /// An annotation of a pod.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
    /// The group identities of the policy.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A part of a pod's resctrl annotation.
    #[error(transparent)]
    Resctrl(#[from] ResctrlFault),
    /// A pod's share of a GPU.
    #[error(transparent)]
    Gpu(#[from] GpuFault),
}

/// The rules and what they were last fed with.
#[derive(Debug, Default)]
pub struct Rules {
    plugins: Vec<Box<dyn Plugin>>,
    seen: Snapshot,
    kept: KeptClaims,
}

impl Rules {
    /// The plugins whose gates are on, each in its initial state.
    pub fn new(settings: &RuleSettings) -> Self {
        let plugins = settings.plugins.iter().map(|kind| plugin(*kind, settings)).collect();
        Self { plugins, seen: Snapshot::default(), kept: KeptClaims::default() }
    }

    /// Parses what is new in the snapshot, hooks.md 5. Inputs that have not arrived yet leave their rules as
    /// they are; a text that was refused is told once, not again while it stays the same.
    pub fn observe(&mut self, snapshot: &Snapshot) -> Vec<RuleNotice> {
        let seen = std::mem::replace(&mut self.seen, snapshot.clone());
        let news = news(&seen, snapshot);
        let mut notices = Vec::new();
        for plugin in &mut self.plugins {
            plugin.observe(&news, &mut notices);
        }
        let News { snapshot: _, node, slo, topology, kernel, pods: _ } = news;
        let told = |notice: &RuleNotice| matches!(notice, RuleNotice::Changed { .. });
        let inputs = node.is_some() || slo.is_some() || topology.is_some() || kernel.is_some();
        if inputs || notices.iter().any(told) {
            self.kept.forget();
        }
        notices
    }

    /// Owners whose inputs have all arrived, so that ledger entries of theirs may be judged. A plugin whose
    /// gate is off needs the pods only.
    pub fn synced(&self, snapshot: &Snapshot) -> impl Iterator<Item = Owner> + use<> {
        let is_synced = |owner: &Owner| {
            let plugin = self.plugins.iter().find(|plugin| plugin.owner() == Some(*owner));
            plugin.map_or(snapshot.pods.synced, |plugin| plugin.is_synced(snapshot))
        };
        let owners: Vec<Owner> = OWNERS.into_iter().filter(is_synced).collect();
        owners.into_iter()
    }

    /// All claims, made anew: of the node, of all pods, and of the directories beside them.
    pub fn claims(&self, snapshot: &Snapshot) -> Claims {
        let mut claims = self.claims_beside_pods(snapshot);
        let mut wishes = Wishes::default();
        for pod in snapshot.pods.pods.values() {
            self.push_pod(pod, sandbox(pod, snapshot), &mut wishes, &mut claims);
        }
        claims
    }

    /// The claims of each pod. A pod is only asked about if it, its sandbox or what the plugins know is another one
    /// than the last time.
    pub fn claims_of_pods(&mut self, snapshot: &Snapshot) -> PodClaims {
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain(&snapshot.pods);
        let of = |(uid, pod): (&Arc<str>, &Arc<PodEntry>)| {
            let sandbox = sandbox(pod, snapshot);
            let make = |wishes: &mut Wishes, claims: &mut Claims| self.push_pod(pod, sandbox, wishes, claims);
            (Arc::clone(uid), kept.of(pod, sandbox, make))
        };
        let claims = snapshot.pods.pods.iter().map(of).collect();
        self.kept = kept;
        claims
    }

    /// The claims of the node, and of the directories that are no known pod's.
    pub fn claims_beside_pods(&self, snapshot: &Snapshot) -> Claims {
        let mut claims = Claims::default();
        let mut wishes = Wishes::default();
        for plugin in &self.plugins {
            plugin.claim_node(snapshot, &mut claims);
        }
        for group in groups(snapshot) {
            for plugin in &self.plugins {
                plugin.wish_group(&group, &mut wishes);
            }
            wishes.claim(group.dir(), &mut claims);
        }
        claims
    }

    /// The claims of one pod and its started containers.
    pub fn pod_claims(&self, pod: &PodEntry) -> Claims {
        let mut claims = Claims::default();
        self.push_pod(pod, None, &mut Wishes::default(), &mut claims);
        claims
    }

    /// What all rules wish for one container, which need not have started: the hook server's question.
    pub fn container_wishes(&self, pod: &PodEntry, container: &ContainerEntry) -> Vec<RuleWish> {
        let mut wishes = Wishes::default();
        let pod = RulePod::starting(pod);
        if pod.reaches(RuleTarget::Container(container)) {
            self.wish(&pod, RuleTarget::Container(container), &mut wishes);
        }
        wishes.drain().collect()
    }

    /// What all rules add to one container that is about to be made, in the order of their names, with what could not
    /// be used. Whether that fails the start is for the failure policy to say (hooks.md 4.1).
    pub fn injection(&self, pod: &PodEntry, container: &ContainerEntry) -> (Injection, Vec<RuleError>) {
        let mut injection = Injection::default();
        let pod = RulePod::starting(pod);
        let added = self.plugins.iter().map(|plugin| plugin.inject(&pod, container, &mut injection));
        let errors = added.filter_map(Result::err).collect();
        (injection, errors)
    }

    fn push_pod(
        &self,
        pod: &PodEntry,
        sandbox: Option<&CgroupDir>,
        wishes: &mut Wishes,
        claims: &mut Claims,
    ) {
        let pod = RulePod::new(pod);
        for target in pod.targets(sandbox) {
            let Some(dir) = target.dir() else { continue };
            self.wish(&pod, target, wishes);
            wishes.claim(dir, claims);
        }
    }

    /// The one place where the plugins are asked about a pod.
    fn wish(&self, pod: &RulePod<'_>, target: RuleTarget<'_>, wishes: &mut Wishes) {
        for plugin in &self.plugins {
            plugin.wish(pod, target, wishes);
        }
    }
}

fn plugin(kind: PluginKind, settings: &RuleSettings) -> Box<dyn Plugin> {
    match kind {
        PluginKind::BatchResource => Box::<BatchResource>::default(),
        PluginKind::CpuNormalization => Box::<CpuNormalization>::default(),
        PluginKind::CpuSetAllocator => {
            Box::new(CpuSetAllocator::new(settings.be_cpus_by_node, settings.keep_pinned_quota))
        }
        PluginKind::CoreSched => Box::<CoreSched>::default(),
        PluginKind::GroupIdentity => Box::new(GroupIdentity::new(settings.mainline_equivalents)),
        PluginKind::TerwayQos => Box::<TerwayQos>::default(),
        PluginKind::TcNetworkQos => Box::<TcNetworkQos>::default(),
        PluginKind::OomScoreAdj => Box::<OomScoreAdj>::default(),
        PluginKind::PodResctrl => Box::<PodResctrl>::default(),
        PluginKind::GpuEnv => Box::new(GpuEnv::new(settings.hami.clone())),
        PluginKind::RdmaDevice => Box::<RdmaDevice>::default(),
    }
}

/// What differs between two snapshots. Values are shared and only replaced by different ones, so that comparing their
/// addresses tells.
fn news<'a>(seen: &'a Snapshot, now: &'a Snapshot) -> News<'a> {
    let pods = PodNews { known: &seen.pods, now: &now.pods };
    News {
        snapshot: now,
        node: if_new(seen.node.as_ref(), now.node.as_ref()),
        slo: if_new(Some(&seen.slo), Some(&now.slo)).filter(|slo| slo.synced),
        topology: if_new(seen.topology.as_ref(), now.topology.as_ref()),
        kernel: if_new(Some(&seen.kernel), Some(&now.kernel)),
        pods: (!Arc::ptr_eq(&seen.pods, &now.pods)).then_some(pods),
    }
}

fn if_new<'a, T>(seen: Option<&Arc<T>>, now: Option<&'a Arc<T>>) -> Option<&'a T> {
    let now = now?;
    let same = seen.is_some_and(|seen| Arc::ptr_eq(seen, now));
    (!same).then_some(&**now)
}

/// The directory of a pod's sandbox. Without it a pod gets all the rest.
fn sandbox<'a>(pod: &PodEntry, snapshot: &'a Snapshot) -> Option<&'a CgroupDir> {
    sandbox_dir(pod, &snapshot.tree).ok().flatten()
}

/// All directories beside those of known pods.
fn groups(snapshot: &Snapshot) -> Vec<RuleGroup<'_>> {
    let Snapshot { pods, tree, dirs, .. } = snapshot;
    let classes = dirs.classes.iter().map(|(class, dir)| RuleGroup::Class(*class, dir));
    let apps = dirs.host_apps.iter().map(|(app, dir)| RuleGroup::HostApp(app, dir));
    let known: HashMap<&str, &PodEntry> = pods.pods.values().map(|pod| (pod.dir.as_str(), &**pod)).collect();
    let beside = tree.dirs.iter().filter_map(|(dir, kind)| beside_known(dir, *kind, &known));
    classes.chain(beside).chain(apps).collect()
}

/// What rules are to be told of a directory of the tree, if no known pod or container stands for it.
fn beside_known<'a>(
    dir: &'a CgroupDir,
    kind: DirKind,
    known: &HashMap<&str, &'a PodEntry>,
) -> Option<RuleGroup<'a>> {
    let pod = match kind {
        DirKind::Pod => dir.as_str(),
        DirKind::Container => dir.as_str().rsplit_once('/')?.0,
        DirKind::Kubepods | DirKind::QosClass | DirKind::Nested => return None,
    };
    match known.get(pod) {
        None => Some(RuleGroup::Stray(kube_qos_of_path(dir.as_str()), dir)),
        Some(pod) if kind == DirKind::Container && pod.container_of(dir).is_none() => {
            Some(RuleGroup::InPod(pod, dir))
        }
        Some(_) => None,
    }
}
