//! Tests of the rules: worked examples one rule at a time, whole plans, and what holds for every plan.

use std::sync::Arc;

use super::{PluginKind, RuleSettings, Rules};
use crate::api::keys;
use crate::api::node::Node;
use crate::cgroup::resource::Resource;
use crate::claims::claim::{Claim, Wish};
use crate::claims::target::CgroupTarget;
use crate::claims::testing::table;
use crate::state::pods::PodEntry;
use crate::state::slo::{CpuSuppressPolicy, Slo, SuppressPolicy};
use crate::state::snapshot::Snapshot;

mod batch;
mod core_sched;
mod network;
mod normalization;
mod oom_score_adj;
mod plans;
mod properties;
mod rule_set;

/// Settings with just these plugins on.
fn with(plugins: &[PluginKind]) -> RuleSettings {
    RuleSettings { plugins: plugins.iter().copied().collect(), ..RuleSettings::default() }
}

/// The rules that set quotas, shares and memory from what pods ask for.
fn all() -> RuleSettings {
    with(&[PluginKind::BatchResource, PluginKind::CpuNormalization])
}

fn node(ratio: Option<&str>) -> Arc<Node> {
    let mut node = Node::default();
    let annotations = &mut node.metadata.annotations;
    annotations.extend(ratio.map(|ratio| (keys::CPU_NORMALIZATION_RATIO.to_owned(), ratio.to_owned())));
    Arc::new(node)
}

fn slo(enable: bool, policy: SuppressPolicy) -> Arc<Slo> {
    let suppress = CpuSuppressPolicy { enable, policy, ..Default::default() };
    Arc::new(Slo { synced: true, suppress, ..Default::default() })
}

fn snapshot(ratio: Option<&str>, pods: Vec<PodEntry>) -> Snapshot {
    Snapshot {
        node: Some(node(ratio)),
        slo: slo(false, SuppressPolicy::Cpuset),
        pods: Arc::new(table(pods)),
        ..Default::default()
    }
}

fn rules_after(snapshot: &Snapshot) -> Rules {
    let mut rules = Rules::new(&all());
    rules.observe(snapshot);
    rules
}

/// `file value` of each claim beneath the pod's directory, in the order shares, quota, memory; `pod` is the
/// directory itself.
fn values(claims: &[Claim], pod: &PodEntry) -> Vec<String> {
    let line = |claim: &Claim| {
        let CgroupTarget { dir, resource } = &claim.target;
        let Wish::Hold(value) = &claim.wish else { return "leave".to_owned() };
        let name = if *dir == pod.dir { "pod" } else { dir.name() };
        let file = match resource {
            Resource::CpuShares => "shares",
            Resource::CfsQuota => "quota",
            Resource::MemoryLimit => "memory",
            other => panic!("{other:?} is not of these rules"),
        };
        format!("{name} {file} {value}")
    };
    claims.iter().map(line).collect()
}

fn claimed(ratio: Option<&str>, pod: &PodEntry) -> Vec<String> {
    let rules = rules_after(&snapshot(ratio, vec![pod.clone()]));
    values(&rules.pod_claims(pod).cgroup, pod)
}
