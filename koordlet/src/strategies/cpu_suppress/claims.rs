//! A limit as claims: which directories of the best-effort tree get which value, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::SuppressInput;
use super::choose::CpuChoice;
use super::quota::{QuotaChoice, QuotaStep};
use super::state::{Held, Limit};
use crate::cgroup::path::CgroupDir;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Claim, Owner, Reason, Wish};
use crate::claims::target::CgroupTarget;
use crate::cpuset::CpuSet;
use crate::state::cpu_sources::allocated_cpus;
use crate::state::pods::PodEntry;
use crate::units::CfsQuota;

/// Claims of the limit in force over the directories that exist or are about to.
pub(super) fn claims(held: &Held, input: &SuppressInput<'_>) -> Vec<Claim> {
    let dirs = BeDirs::of(input);
    match &held.limit {
        Limit::Quota(choice) => quota_claims(choice, held, &dirs),
        Limit::Cpus { choice, pool } => cpuset_claims(choice, pool.as_ref(), held, &dirs),
    }
}

/// A directory's place in the best-effort tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Class,
    Pod,
    Container,
}

/// Directories of the best-effort tree down to containers; deeper ones are their container's affair.
struct BeDirs {
    dirs: BTreeMap<CgroupDir, Level>,
    /// CPUs that the scheduler gave to a pod, by the pod's directory; only online ones, no empty sets.
    own_cpus: BTreeMap<CgroupDir, CpuSet>,
}

impl BeDirs {
    fn of(input: &SuppressInput<'_>) -> Self {
        let mut all = Self { dirs: BTreeMap::new(), own_cpus: BTreeMap::new() };
        let root = input.be_dir;
        all.add(root, root);
        for dir in input.snapshot.tree.dirs.keys() {
            all.add(root, dir);
        }
        let online = input.snapshot.topology.as_ref().map(|topology| topology.all());
        for pod in input.snapshot.pods.pods.values().filter(|pod| root.contains(&pod.dir)) {
            all.add_pod(root, pod, online.as_ref());
        }
        all
    }

    fn add(&mut self, root: &CgroupDir, dir: &CgroupDir) {
        if !root.contains(dir) {
            return;
        }
        let level = match dir.depth() - root.depth() {
            0 => Level::Class,
            1 => Level::Pod,
            2 => Level::Container,
            _ => return,
        };
        self.dirs.insert(dir.clone(), level);
    }

    /// A known pod's directories are claimed before they are born, so that the limit is there at their birth.
    fn add_pod(&mut self, root: &CgroupDir, pod: &PodEntry, online: Option<&CpuSet>) {
        if !matches!(pod.pod.status.phase.as_str(), "Succeeded" | "Failed") {
            self.add(root, &pod.dir);
            for dir in pod.containers.iter().filter_map(|container| container.dir.as_ref()) {
                self.add(root, dir);
            }
        }
        let own = allocated_cpus(pod).unwrap_or_default();
        let own = online.map(|online| own.intersection(online)).unwrap_or(own);
        if !own.is_empty() && self.dirs.contains_key(&pod.dir) {
            self.own_cpus.insert(pod.dir.clone(), own);
        }
    }

    /// CPUs of the pod that `dir` is of or in.
    fn own(&self, dir: &CgroupDir, level: Level) -> Option<&CpuSet> {
        match level {
            Level::Class => None,
            Level::Pod => self.own_cpus.get(dir),
            Level::Container => self.own_cpus.get(&dir.parent()?),
        }
    }
}

fn claim(dir: &CgroupDir, resource: Resource, value: Value, reason: &Arc<Reason>) -> Claim {
    Claim {
        target: CgroupTarget::new(dir, resource),
        wish: Wish::Hold(value),
        owner: Owner::CpuSuppress,
        reason: Arc::clone(reason),
    }
}

/// The BE directory holds the quota; beneath it there is none, since v1 refuses a quota below a child's.
fn quota_claims(choice: &QuotaChoice, held: &Held, dirs: &BeDirs) -> Vec<Claim> {
    let limited = Arc::new(quota_reason(choice, held));
    let beneath = Arc::new(Reason {
        text: format!(
            "unlimited: the best-effort directory is limited to {} us as a whole, and no quota beneath it \
             may be larger (qos.md 5.1)",
            choice.quota
        ),
        inputs: BTreeMap::from([("be_quota_us", choice.quota.to_string())]),
    });
    let claim_of = |(dir, level): (&CgroupDir, &Level)| match level {
        Level::Class => claim(dir, Resource::CfsQuota, Value::Quota(choice.quota), &limited),
        Level::Pod | Level::Container => {
            claim(dir, Resource::CfsQuota, Value::Quota(CfsQuota::Unlimited), &beneath)
        }
    };
    dirs.dirs.iter().map(claim_of).collect()
}

/// All levels hold the chosen CPUs, or containers alone where `pool` is what the levels above hold. A pod
/// with CPUs of its own keeps those (Q6), and the directories above it include them: a parent that lacks a
/// child's CPU is refused on v1 and takes it away on v2.
fn cpuset_claims(choice: &CpuChoice, pool: Option<&CpuSet>, held: &Held, dirs: &BeDirs) -> Vec<Claim> {
    let chosen = Arc::new(cpuset_reason(choice, held));
    let widened = pool.map(|pool| {
        Arc::new(Reason {
            text: format!(
                "{pool}: all CPUs that best-effort pods may use, since under the kubelet's static CPU manager \
                 policy only containers are limited (qos.md 5.1)"
            ),
            inputs: BTreeMap::from([("be_pool", pool.to_string())]),
        })
    });
    let all_own = dirs.own_cpus.values().fold(CpuSet::new(), |all, own| all.union(own));
    let claim_of = |(dir, level): (&CgroupDir, &Level)| {
        let wide = pool.filter(|_| *level != Level::Container);
        let reason = if wide.is_some() { widened.as_ref().unwrap_or(&chosen) } else { &chosen };
        let cpus = wide.unwrap_or(&choice.cpus);
        let own = if *level == Level::Class { Some(&all_own) } else { dirs.own(dir, *level) };
        let (cpus, reason) = match own.filter(|own| !own.is_empty()) {
            None => (cpus.clone(), Arc::clone(reason)),
            Some(own) if wide.is_some() || *level == Level::Class => {
                (cpus.union(own), Arc::new(with_own(reason, own)))
            }
            Some(own) => (own.clone(), Arc::new(own_reason(own))),
        };
        claim(dir, Resource::Cpus, Value::Cpus(cpus), &reason)
    };
    dirs.dirs.iter().map(claim_of).collect()
}

fn quota_reason(choice: &QuotaChoice, held: &Held) -> Reason {
    let QuotaChoice { quota, target_us, step } = choice;
    let how = match step {
        QuotaStep::Target => String::new(),
        QuotaStep::Limited { step_us } => format!(", in this step at most {step_us} us up: {quota} us"),
        QuotaStep::Kept { min_delta_us } => {
            format!(", less than {min_delta_us} us from the present {quota} us, which stays")
        }
    };
    let mut inputs = held.amount.inputs();
    inputs.insert("target_us", target_us.to_string());
    match step {
        QuotaStep::Target => {}
        QuotaStep::Limited { step_us } => drop(inputs.insert("step_us", step_us.to_string())),
        QuotaStep::Kept { min_delta_us } => drop(inputs.insert("min_delta_us", min_delta_us.to_string())),
    }
    let text = format!("{}; quota {target_us} us{how} (qos.md 5.1)", held.amount.formula());
    Reason { text, inputs }
}

fn cpuset_reason(choice: &CpuChoice, held: &Held) -> Reason {
    let CpuChoice { cpus, wanted, limit, allowed, from_lsr } = choice;
    let limited = limit.map(|limit| format!(", at most {limit} in this step")).unwrap_or_default();
    let short = if allowed < wanted { format!(", only {allowed} allowed") } else { String::new() };
    let text = format!(
        "{}; {wanted} CPUs{limited}{short}: {cpus}, {from_lsr} of them of LSR pods (qos.md 5.1)",
        held.amount.formula()
    );
    let mut inputs = held.amount.inputs();
    inputs.insert("wanted_cpus", wanted.to_string());
    inputs.insert("allowed_cpus", allowed.to_string());
    inputs.insert("lsr_cpus", from_lsr.to_string());
    if let Some(limit) = limit {
        inputs.insert("limit_cpus", limit.to_string());
    }
    Reason { text, inputs }
}

fn with_own(reason: &Reason, own: &CpuSet) -> Reason {
    let mut reason = reason.clone();
    reason.text = format!("{}; and {own}, which pods beneath have for themselves", reason.text);
    reason.inputs.insert("own_cpus", own.to_string());
    reason
}

fn own_reason(own: &CpuSet) -> Reason {
    Reason {
        text: format!("{own}: the pod's own CPUs by its resource-status annotation (qos.md Q6)"),
        inputs: BTreeMap::from([("own_cpus", own.to_string())]),
    }
}
