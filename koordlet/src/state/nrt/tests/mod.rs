//! Tests of the wanted state and of patches, on machine M of collection.md 17, row 56.

mod examples;
mod patches;

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;
use crate::api::pod::Pod;
use crate::cgroup::naming::{CgroupDriver, Naming};
use crate::host::cpuinfo::BasicInfo;
use crate::host::meminfo::Meminfo;
use crate::host::numa::{HugePage, NumaInfo};
use crate::host::topology::ProcessorInfo;

/// A node in memory.
struct Scene {
    cpus: NodeCpuInfo,
    numa: NodeNumaInfo,
    node: Node,
    pods: PodTable,
    kubelet: Option<KubeletConfig>,
    state: Option<String>,
    hugepages: bool,
}

impl Scene {
    /// `nodes` NUMA nodes of `cpus` CPUs each; node = socket, core = CPU modulo half of all.
    fn of(nodes: u32, cpus: u32, mem_kib: u64) -> Self {
        let total = nodes * cpus;
        let half = (total / 2).max(1);
        let processor = |cpu: u32| {
            let node = if total == nodes { cpu } else { cpu % half / (half / nodes) };
            ProcessorInfo {
                cpu,
                core: cpu % half,
                socket: node,
                node,
                l1dl1il2: "0".into(),
                l3: 0,
                online: "yes".into(),
            }
        };
        let numa = (0..nodes).map(|node| NumaInfo {
            node,
            mem_info: Meminfo::parse_numa(&format!("Node {node} MemTotal: {mem_kib} kB\n")),
            huge_pages: BTreeMap::new(),
        });
        Self {
            cpus: NodeCpuInfo::new(BasicInfo::default(), (0..total).map(processor).collect()),
            numa: numa.collect::<Vec<_>>().into(),
            node: Node::default(),
            pods: PodTable::default(),
            kubelet: None,
            state: None,
            hugepages: false,
        }
    }

    fn m() -> Self {
        Self::of(2, 8, 67_108_864)
    }

    fn annotate(mut self, key: &str, text: &str) -> Self {
        self.node.metadata.annotations.insert(key.into(), text.into());
        self
    }

    fn label(mut self, text: &str) -> Self {
        self.node.metadata.labels.insert(crate::api::keys::ENABLE_NUMA_RESERVATION.into(), text.into());
        self
    }

    fn status(mut self, name: &str, capacity: &str, allocatable: &str) -> Self {
        self.node.status.capacity.insert(name.into(), capacity.parse().unwrap());
        self.node.status.allocatable.insert(name.into(), allocatable.parse().unwrap());
        self
    }

    /// Pods by (UID, name, QoS label, cpuset of the scheduler); no empty texts are set.
    fn pods(mut self, pods: &[(&str, &str, &str, &str)]) -> Self {
        let pod = |(uid, name, qos, cpuset): &(&str, &str, &str, &str)| {
            let mut pod = Pod::default();
            let meta = &mut pod.metadata;
            (meta.uid, meta.namespace, meta.name) = ((*uid).into(), "b".into(), (*name).into());
            if !qos.is_empty() {
                meta.labels.insert(crate::api::keys::QOS_CLASS.into(), (*qos).into());
            }
            if !cpuset.is_empty() {
                let status = format!(r#"{{"cpuset":"{cpuset}"}}"#);
                meta.annotations.insert(crate::api::keys::RESOURCE_STATUS.into(), status);
            }
            pod
        };
        let naming = Naming::new(CgroupDriver::Systemd, "").unwrap();
        self.pods = PodTable::build(pods.iter().map(pod), &naming, &PodTable::default()).0;
        self
    }

    fn kubelet(mut self, json: &str) -> Self {
        let config: Value = serde_json::from_str(json).unwrap();
        self.kubelet = Some(KubeletConfig::from_fields(config.as_object().unwrap()));
        self
    }

    fn state(mut self, entries: &str) -> Self {
        self.state = Some(format!(r#"{{"policyName":"static","entries":{entries}}}"#));
        self
    }

    fn pages(mut self, node: usize, size_kib: u64, count: u64) -> Self {
        let page = HugePage { num_pages: count, page_size: size_kib };
        let mut infos = self.numa.numa_infos;
        infos[node].huge_pages.insert(size_kib, page);
        self.numa = infos.into();
        self.hugepages = true;
        self
    }

    fn compute(&self) -> Result<WantedNrt, NrtError> {
        let Self { cpus, numa, node, pods, kubelet, state, hugepages } = self;
        WantedNrt::compute(&NrtInput {
            cpus,
            numa,
            node,
            pods,
            kubelet: kubelet.as_ref(),
            cpu_manager_state: state.as_deref(),
            hugepages: *hugepages,
        })
    }

    fn wanted(&self) -> WantedNrt {
        self.compute().unwrap()
    }
}

/// Capacity and allocatable of a resource of a zone.
fn amounts(wanted: &WantedNrt, zone: usize, name: &str) -> (String, String) {
    let resource = wanted.zones[zone].resources.iter().find(|resource| resource.name == name).unwrap();
    (resource.text(resource.capacity), resource.text(resource.allocatable))
}
