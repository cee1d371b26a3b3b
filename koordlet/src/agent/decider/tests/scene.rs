//! Random worlds: pods, policy, load, kernel.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use crate::api::keys;
use crate::api::node::Node;
use crate::api::qos::KubeQos;
use crate::cgroup::resource::Resource;
use crate::cgroup::value::Value as Setting;
use crate::claims::native::NativePod;
use crate::claims::testing::random::{amount, pod_entry, renamed};
use crate::claims::testing::{dir, table, tree};
use crate::executor::engine::emulated::{Group, Kernel};
use crate::state::groups::{Group as SampledGroup, GroupKind};
use crate::state::kernel::KernelFacts;
use crate::state::node_dirs::NodeDirs;
use crate::state::pods::{PodEntry, PodTable};
use crate::state::slo::SloMerger;
use crate::state::snapshot::Snapshot;
use crate::state::topology::{CpuInfo, KubeletFacts, Topology, TopologyInput};
use crate::state::usage::{GroupUsage, NanoCpu, Usage};
use crate::units::Nanos;

pub(super) const BE_DIR: &str = "kubepods/besteffort";

/// Everything that the deciders look at.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) pods: Vec<PodEntry>,
    ratio: Option<&'static str>,
    /// How best effort is suppressed, if at all.
    suppress: Option<&'static str>,
    /// The policy of CPU burst.
    burst: Option<&'static str>,
    /// Which classes have an identity: a bit each.
    classes: u8,
    /// Use of each pod in milli-cores, and of the rest of the node.
    load: (u64, u64),
    unified: bool,
    /// The kernel has `cpu.bvt_warp_ns`.
    vendor: bool,
    pub(super) mainline_equivalents: bool,
}

pub(super) fn some() -> impl Strategy<Value = Scene> {
    let pods = prop::collection::vec(pod_entry(), 0..5);
    let ratio = amount(&["0.80", "1.00", "1.20", "1.5", "5.00", "abc"]);
    let policies = (amount(&["cpuset", "cfsQuota"]), amount(&["none", "cpuBurstOnly", "auto"]));
    let load = (prop::sample::select(vec![0_u64, 300, 1500]), prop::sample::select(vec![0_u64, 500, 9000]));
    let kernel = (any::<bool>(), any::<bool>(), any::<bool>());
    (pods, ratio, policies, 0_u8..8, load, kernel).prop_map(
        |(pods, ratio, (suppress, burst), classes, load, (unified, vendor, equivalents))| Scene {
            pods: pods.iter().enumerate().map(|(index, pod)| renamed(pod, index)).collect(),
            ratio,
            suppress,
            burst,
            classes,
            load,
            unified,
            vendor,
            mainline_equivalents: equivalents,
        },
    )
}

impl Scene {
    /// The same policy for other pods.
    pub(super) fn of(self, pods: Vec<PodEntry>) -> Self {
        Self { pods, ..self }
    }

    /// The same pods without any policy.
    pub(super) fn without_policy(&self) -> Self {
        Self { ratio: None, suppress: None, burst: None, classes: 0, ..self.clone() }
    }

    fn table(&self) -> PodTable {
        table(self.pods.iter().cloned())
    }

    /// The kernel with all directories as kubelet and runtime leave them.
    pub(super) fn kernel(&self) -> Kernel {
        let kernel = if self.unified { Kernel::unified() } else { Kernel::new() };
        for dir in tree(&self.table()).dirs.keys() {
            kernel.mkdir(dir.as_str());
        }
        let layout = kernel.layout();
        let number = |resource, value: Setting| -> i64 {
            let text = layout.format(resource, &value).unwrap();
            text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(-1)
        };
        for pod in &self.pods {
            let native = NativePod::new(pod);
            let containers = pod.containers.iter();
            let containers = containers.filter_map(|each| Some((each.dir.as_ref()?, native.container(each))));
            for (dir, values) in std::iter::once((&pod.dir, native.pod())).chain(containers) {
                kernel.set(dir.as_str(), |group: &mut Group| {
                    group.quota = values.quota.raw();
                    group.shares = number(Resource::CpuShares, Setting::Shares(values.shares)).unsigned_abs();
                    let memory = number(Resource::MemoryLimit, Setting::Memory(values.memory));
                    if memory >= 0 {
                        group.memory = memory;
                    }
                });
            }
        }
        kernel
    }

    /// Everything at a moment, each time from new objects.
    pub(super) fn snapshot(&self, now: Nanos) -> Snapshot {
        let pods = self.table();
        let ratio = self.ratio.map(|ratio| json!({keys::CPU_NORMALIZATION_RATIO: ratio}));
        let node: Node = serde_json::from_value(json!({
            "metadata": {"annotations": ratio.unwrap_or_else(|| json!({}))},
            "status": {"capacity": {"cpu": "8"}, "allocatable": {"cpu": "8"}},
        }))
        .unwrap();
        let cpus: Vec<CpuInfo> = (0..8).map(|cpu| CpuInfo { cpu, core: cpu, socket: 0, node: 0 }).collect();
        let (topology, _) = Topology::compute(&TopologyInput {
            cpus: &cpus,
            node: Some(&node),
            pods: &pods,
            kubelet: &KubeletFacts::default(),
            overrides: None,
            previous: None,
        });
        let class = |class, path| (class, dir(path));
        let classes = vec![
            class(KubeQos::Guaranteed, "kubepods"),
            class(KubeQos::Burstable, "kubepods/burstable"),
            class(KubeQos::BestEffort, BE_DIR),
        ];
        Snapshot {
            node: Some(Arc::new(node)),
            slo: Arc::new(self.policy().slo().clone()),
            topology: Some(Arc::new(topology)),
            tree: Arc::new(tree(&pods)),
            dirs: Arc::new(NodeDirs { classes, host_apps: Vec::new() }),
            kernel: Arc::new(self.facts()),
            usage: Arc::new(self.usage(now)),
            pods: Arc::new(pods),
        }
    }

    fn policy(&self) -> SloMerger {
        let class = |bit: u8, identity: i64| json!({"cpuQOS": {"enable": self.classes >> bit & 1 == 1, "groupIdentity": identity}});
        let spec = json!({
            "resourceUsedThresholdWithBE": {
                "enable": self.suppress.is_some(),
                "cpuSuppressPolicy": self.suppress.unwrap_or("cpuset"),
                "cpuSuppressThresholdPercent": 65,
            },
            "cpuBurstStrategy": {"policy": self.burst.unwrap_or("none")},
            "resourceQOSStrategy": {"lsrClass": class(0, 2), "lsClass": class(1, 2), "beClass": class(2, -1)},
        });
        let mut merger = SloMerger::default();
        merger.apply(&serde_json::from_value(spec).unwrap());
        merger
    }

    fn facts(&self) -> KernelFacts {
        let mut files = BTreeSet::from([Resource::CpuIdle]);
        if self.vendor {
            files.insert(Resource::BvtWarpNs);
        }
        KernelFacts { bvt: self.vendor, files, ..KernelFacts::default() }
    }

    fn usage(&self, at: Nanos) -> Usage {
        let (each, rest) = self.load;
        let milli = |milli: u64| NanoCpu(milli * 1_000_000);
        let mut usage = Usage { at, ..Usage::default() };
        for pod in &self.pods {
            let group = SampledGroup::new(GroupKind::Pod, &pod.uid, pod.dir.clone());
            usage.groups.set(group, GroupUsage::of(milli(each)));
        }
        usage.node_cpu = Some(milli(each * self.pods.len() as u64 + rest));
        usage
    }
}
