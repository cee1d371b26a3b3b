//! `--mainline-equivalents`: claims on settings that only vendors' kernels have become claims on what stands in for
//! them here, by the table of `cgroup::mainline`. What has no equivalent is dropped. Where the kernel has the vendor's
//! file, nothing is changed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::claim::{Claim, Reason, Wish};
use super::native::NativePod;
use super::target::CgroupTarget;
use crate::cgroup::mainline::{Directories, Equivalent, Formula, Substitute, equivalent, rows};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::state::pods::{PodEntry, PodTable};
use crate::state::topology::{KubeletCpuPolicy, Topology};
use crate::state::tree::{CgroupTree, DirKind};

/// What has to be known of a host to let something stand in.
#[derive(Clone, Copy, Debug)]
pub struct MainlineHost<'a> {
    /// The settings, of those that the table speaks of, that its kubepods directory has.
    pub files: &'a BTreeSet<Resource>,
    /// Pods of this node.
    pub pods: &'a PodTable,
    /// Directories that exist.
    pub tree: &'a CgroupTree,
    /// Who may use which CPUs.
    pub topology: Option<&'a Topology>,
}

/// Replaces claims on what this kernel lacks.
pub fn substitute(claims: &mut Vec<Claim>, host: MainlineHost<'_>) {
    // Until there is a kubepods directory, nobody knows what its kernel lacks.
    if !host.files.contains(&Resource::CpuShares) || !claims.iter().any(|claim| is_lacking(claim, host)) {
        return;
    }
    let mut places = Places::new(host);
    for claim in std::mem::take(claims) {
        if is_lacking(&claim, host) {
            claims.extend(places.stand_in(&claim));
        } else {
            claims.push(claim);
        }
    }
}

fn is_lacking(claim: &Claim, host: MainlineHost<'_>) -> bool {
    let resource = claim.target.resource;
    rows(resource).next().is_some() && !host.files.contains(&resource)
}

/// The directories that rows speak of, and the reasons given so far.
struct Places<'a> {
    host: MainlineHost<'a>,
    pods: HashMap<&'a str, &'a PodEntry>,
    reasons: HashMap<ReasonKey, Reasons>,
}

/// A reason for a lacking setting, by its address, and the row's own.
type ReasonKey = (*const Reason, &'static str);

/// The reason for the lacking setting, kept so that no other takes its address, and the one for what stands in.
type Reasons = (Arc<Reason>, Arc<Reason>);

/// A directory that a row may be for.
enum Place<'a> {
    /// A pod's, with the pod where that is known.
    Pod(Option<&'a PodEntry>),
    /// One right beneath a pod's.
    Container,
}

impl<'a> Places<'a> {
    fn new(host: MainlineHost<'a>) -> Self {
        let pods = host.pods.pods.values().map(|pod| (pod.dir.as_str(), &**pod)).collect();
        Self { host, pods, reasons: HashMap::new() }
    }

    fn of(&self, dir: &CgroupDir) -> Option<Place<'a>> {
        if let Some(pod) = self.pods.get(dir.as_str()) {
            return Some(Place::Pod(Some(pod)));
        }
        match self.host.tree.dirs.get(dir) {
            Some(DirKind::Pod) => Some(Place::Pod(None)),
            Some(DirKind::Container) => Some(Place::Container),
            Some(DirKind::Kubepods | DirKind::QosClass | DirKind::Nested) => None,
            None => {
                let (above, _) = dir.as_str().rsplit_once('/')?;
                self.pods.contains_key(above).then_some(Place::Container)
            }
        }
    }

    /// The claim that stands in for one on a lacking setting.
    fn stand_in(&mut self, claim: &Claim) -> Option<Claim> {
        let Wish::Hold(wished) = &claim.wish else { return None };
        let row = equivalent(claim.target.resource, wished)?;
        let (instead, resource) = (row.instead?, row.substitute()?);
        if !self.host.files.contains(&resource) {
            return None;
        }
        let place = self.of(&claim.target.dir)?;
        if !self.is_for(row.directories, resource, &place) {
            return None;
        }
        let shares = match place {
            Place::Pod(pod) => pod.map(|pod| NativePod::new(pod).pod().shares),
            Place::Container => None,
        };
        let value = instead.value(shares)?;
        let reason = self.reason(row, instead, &claim.reason, &wished.to_string());
        Some(Claim::hold(CgroupTarget::new(&claim.target.dir, resource), value, claim.owner, reason))
    }

    /// A kubelet that gives exclusive CPUs has the runtime write *all* settings of the other containers again, shares
    /// among them, which an idle container would refuse. Their pod's being idle has the same effect.
    fn is_for(&self, directories: Directories, resource: Resource, place: &Place<'_>) -> bool {
        let is_rewritten = resource == Resource::CpuIdle
            && self.host.topology.is_none_or(|known| known.kubelet_policy != KubeletCpuPolicy::None);
        match (directories, place) {
            (
                Directories::Pods | Directories::PodsAndContainers | Directories::BestEffortAndPods,
                Place::Pod(_),
            ) => true,
            (Directories::PodsAndContainers, Place::Container) => !is_rewritten,
            (Directories::Pods | Directories::BestEffortAndPods, Place::Container)
            | (Directories::Root, _) => false,
        }
    }

    /// One reason for all directories that have one reason for the lacking setting.
    fn reason(
        &mut self,
        row: &Equivalent,
        instead: Substitute,
        own: &Arc<Reason>,
        wished: &str,
    ) -> Arc<Reason> {
        let key = (Arc::as_ptr(own), row.why);
        let (_, reason) = self.reasons.entry(key).or_insert_with(|| {
            let Equivalent { lacking, why, .. } = row;
            let mut inputs = own.inputs.clone();
            inputs.insert("insteadOf", format!("{lacking} {wished}"));
            if let Formula::TimesShares(factor) = instead.value {
                inputs.insert("timesShares", factor.to_string());
            }
            let text = format!(
                "{}; this kernel has no {lacking}, so {} stands in (--mainline-equivalents): {why}",
                own.text, instead.file
            );
            (Arc::clone(own), Arc::new(Reason { text, inputs }))
        });
        Arc::clone(reason)
    }
}

#[cfg(test)]
mod tests;
