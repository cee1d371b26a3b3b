//! Steps of suppression as a whole, on a made-up node.

mod examples;
mod fast;
mod properties;
mod switching;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::{Condition, Input, SuppressState};
use super::*;
use crate::api::keys;
use crate::api::node::Node;
use crate::api::node_slo::{HostApplication, HostCgroupPath};
use crate::api::pod::Pod;
use crate::api::qos::{KubeQos, QosClass};
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value;
use crate::claims::claim::{Owner, Wish};
use crate::claims::target::CgroupTarget;
use crate::state::groups::{Group, GroupKind};
use crate::state::pods::{ContainerEntry, ContainerKind, PodEntry};
use crate::state::slo::{CpuSuppressPolicy, Slo};
use crate::state::topology::{CpuInfo, KubeletFacts, TopologyInput};
use crate::state::tree::DirKind;
use crate::state::usage::{GroupUsage, NanoCpu};
use crate::units::Percent;

const SECOND: Nanos = Nanos(1_000_000_000);
const BE_DIR: &str = "kubepods/besteffort";

/// A node under test; every field may be changed between steps.
struct World {
    snapshot: Snapshot,
    usage: Usage,
    be_dir: CgroupDir,
    settings: SuppressSettings,
    now: Nanos,
}

impl World {
    /// A node of `cpus` CPUs as in W2 (core i/2, socket and NUMA node i/8) and one idle BE pod `be`, with
    /// suppression on by `policy` at 65 %.
    fn new(cpus: u32, policy: SuppressPolicy) -> Self {
        let settings = SuppressSettings {
            enabled: true,
            be_cpu_manager: false,
            interval: SECOND,
            collect_interval: SECOND,
        };
        let suppress = CpuSuppressPolicy { enable: true, policy, ..CpuSuppressPolicy::default() };
        let mut world = Self {
            snapshot: Snapshot {
                slo: Arc::new(Slo { synced: true, suppress, ..Slo::default() }),
                ..Snapshot::default()
            },
            usage: Usage { node_cpu: Some(NanoCpu(0)), ..Usage::default() },
            be_dir: dir(BE_DIR),
            settings,
            now: SECOND,
        };
        world.set_capacity(i64::from(cpus) * 1000, i64::from(cpus) * 1000);
        world.pod("be", Some(QosClass::Be), KubeQos::BestEffort, 0.0, "");
        let infos =
            (0..cpus).map(|cpu| CpuInfo { cpu, core: cpu / 2, socket: cpu / 8, node: cpu / 8 }).collect();
        world.set_cpus(infos);
        world
    }

    fn set_capacity(&mut self, capacity: i64, allocatable: i64) {
        let mut node = Node::default();
        node.status.capacity.insert(keys::CPU.into(), format!("{capacity}m").parse().unwrap());
        node.status.allocatable.insert(keys::CPU.into(), format!("{allocatable}m").parse().unwrap());
        self.snapshot.node = Some(Arc::new(node));
    }

    fn set_cpus(&mut self, cpus: Vec<CpuInfo>) {
        self.snapshot.topology = Some(Arc::new(Topology { cpus, ..Topology::default() }));
        self.recompute();
    }

    /// Computes the topology again from pods and node.
    fn recompute(&mut self) {
        let Some(last) = self.snapshot.topology.clone() else { return };
        let kubelet = KubeletFacts { policy: Some(last.kubelet_policy), ..KubeletFacts::default() };
        let (topology, _) = Topology::compute(&TopologyInput {
            cpus: &last.cpus,
            node: self.snapshot.node.as_deref(),
            pods: &self.snapshot.pods,
            kubelet: &kubelet,
            overrides: None,
            previous: None,
        });
        self.snapshot.topology = Some(Arc::new(topology));
    }

    fn topology(&mut self) -> &mut Topology {
        Arc::make_mut(self.snapshot.topology.as_mut().unwrap())
    }

    fn policy(&mut self) -> &mut CpuSuppressPolicy {
        &mut Arc::make_mut(&mut self.snapshot.slo).suppress
    }

    /// Adds a pod with one container that exists; `own` is its allocated CPU list.
    fn pod(&mut self, uid: &str, qos: Option<QosClass>, kube_qos: KubeQos, cores: f64, own: &str) {
        let parent = if kube_qos == KubeQos::BestEffort { BE_DIR } else { "kubepods/burstable" };
        let pod_dir = dir(&format!("{parent}/pod{uid}"));
        let container = dir(&format!("{pod_dir}/c"));
        let mut pod = Pod::default();
        if !own.is_empty() {
            let status = format!(r#"{{"cpuset":"{own}"}}"#);
            pod.metadata.annotations.insert(keys::RESOURCE_STATUS.into(), status);
        }
        let tree = Arc::make_mut(&mut self.snapshot.tree);
        tree.dirs.insert(dir(BE_DIR), DirKind::QosClass);
        tree.dirs.insert(pod_dir.clone(), DirKind::Pod);
        tree.dirs.insert(container.clone(), DirKind::Container);
        let uid: Arc<str> = uid.into();
        let entry = PodEntry {
            pod: pod.into(),
            uid: Arc::clone(&uid),
            kube_qos,
            qos,
            dir: pod_dir,
            containers: vec![ContainerEntry {
                name: "c".into(),
                kind: ContainerKind::App,
                index: 0,
                id: Some(format!("containerd://{uid}")),
                dir: Some(container),
            }],
            hooks_live: false,
        };
        let table = Arc::make_mut(&mut self.snapshot.pods);
        table.synced = true;
        table.pods.insert(Arc::clone(&uid), Arc::new(entry));
        self.set_usage(&uid, cores);
        self.recompute();
    }

    fn set_usage(&mut self, uid: &str, cores: f64) {
        let pod = Group::new(GroupKind::Pod, uid, CgroupDir::new("kubepods/pod").unwrap());
        self.usage.groups.set(pod, GroupUsage::of(NanoCpu::from_cores(cores)));
    }

    fn host_app(&mut self, name: &str, qos: &str, base: &str, cores: f64) {
        let path = HostCgroupPath { base: base.into(), ..HostCgroupPath::default() };
        let app = HostApplication {
            name: name.into(),
            qos: qos.into(),
            cgroup_path: Some(path),
            ..HostApplication::default()
        };
        Arc::make_mut(&mut self.snapshot.slo).host_applications.push(app);
        let app = Group::new(GroupKind::HostApp, name, CgroupDir::new("app").unwrap());
        self.usage.groups.set(app, GroupUsage::of(NanoCpu::from_cores(cores)));
    }

    fn set_node_use(&mut self, cores: f64) {
        self.usage.node_cpu = Some(NanoCpu::from_cores(cores));
    }

    /// Sets the load so that the amount is `amount`: one LS pod and a threshold of 100 %.
    fn set_amount(&mut self, amount: i64) {
        let capacity = amount::capacity(self.snapshot.node.as_ref().unwrap()).unwrap();
        self.policy().threshold = Percent(100);
        self.snapshot_ls((capacity.0 - amount) as f64 / 1000.0);
    }

    fn snapshot_ls(&mut self, cores: f64) {
        if !self.snapshot.pods.pods.contains_key("ls") {
            self.pod("ls", Some(QosClass::Ls), KubeQos::Burstable, cores, "");
        }
        self.set_usage("ls", cores);
        self.set_node_use(cores);
    }

    fn input(&self) -> SuppressInput<'_> {
        SuppressInput {
            snapshot: &self.snapshot,
            usage: &self.usage,
            be_dir: &self.be_dir,
            settings: self.settings,
        }
    }

    /// One full step, a second after the last.
    fn step(&mut self, state: &mut SuppressState) -> SuppressOutcome {
        self.now = self.now + SECOND;
        self.usage.at = self.now;
        let outcome = step(&self.input(), state, self.now);
        *state = outcome.state.clone();
        outcome
    }

    fn look(&self, state: &SuppressState, after_ms: u64) -> Option<SuppressOutcome> {
        fast_look(&self.input(), state, self.now + Nanos(after_ms * 1_000_000))
    }
}

fn dir(path: &str) -> CgroupDir {
    CgroupDir::new(path).unwrap()
}

fn set(text: &str) -> CpuSet {
    text.parse().unwrap()
}

fn values(outcome: &SuppressOutcome) -> BTreeMap<String, String> {
    let text = |claim: &Claim| {
        assert_eq!(claim.owner, Owner::CpuSuppress);
        let CgroupTarget { dir, resource } = &claim.target;
        let Wish::Hold(value) = &claim.wish else { panic!("{claim:?}") };
        (format!("{dir} {resource:?}"), value.to_string())
    };
    outcome.claims.iter().map(text).collect()
}

fn value(outcome: &SuppressOutcome, path: &str, resource: Resource) -> Option<String> {
    values(outcome).get(&format!("{path} {resource:?}")).cloned()
}

fn be_quota(outcome: &SuppressOutcome) -> Option<String> {
    value(outcome, BE_DIR, Resource::CfsQuota)
}

fn be_cpus(outcome: &SuppressOutcome) -> Option<String> {
    value(outcome, BE_DIR, Resource::Cpus)
}

fn quota_state(quota: i64) -> SuppressState {
    SuppressState::new(Some(CfsQuota::from_raw(quota)), None)
}

fn cpus_state(cpus: &str) -> SuppressState {
    SuppressState::new(None, Some(set(cpus)))
}
