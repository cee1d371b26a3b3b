//! CPUs of the node and who may use them, computed locally from sysfs, Node and pods (collection.md 10.3,
//! qos.md 2.2), so that nothing waits for a NodeResourceTopology object. How many CPUs BE gets is not decided
//! here, only which ones it may have.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cpu_manager::pinned_by_pod;
use super::cpu_pools::CpuPools;
use super::cpu_sources::{Allocations, CpuSources, TopologyNotice};
use super::pods::PodTable;
use crate::api::node::Node;
use crate::api::qos::QosClass;
use crate::cpuset::CpuSet;
use crate::host::topology::ProcessorInfo;
use crate::units::MilliCpu;

/// One online logical CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuInfo {
    /// Logical CPU number.
    pub cpu: u32,
    /// Core id, unique in the machine (lscpu's logical numbering).
    pub core: u32,
    /// Socket id.
    pub socket: u32,
    /// NUMA node id; 0 where there is no NUMA.
    pub node: u32,
}

impl From<&ProcessorInfo> for CpuInfo {
    fn from(info: &ProcessorInfo) -> Self {
        Self { cpu: info.cpu, core: info.core, socket: info.socket, node: info.node }
    }
}

/// The kubelet's CPU manager policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KubeletCpuPolicy {
    /// No exclusive CPUs.
    #[default]
    None,
    /// Exclusive CPUs for guaranteed pods with whole CPUs.
    Static,
    /// What names it cannot be read: nobody may change a cpuset on the strength of a guess.
    Unknown,
}

impl KubeletCpuPolicy {
    /// The policy of that name; every other name than `static` gives no exclusive CPUs. `None` without a name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "" => None,
            "static" => Some(Self::Static),
            _ => Some(Self::None),
        }
    }
}

/// Who may use which CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Online CPUs by number.
    pub cpus: Vec<CpuInfo>,
    /// CPUs reserved by the node annotation (an amount is turned into CPUs).
    pub reserved: CpuSet,
    /// CPU that the node annotation reserves, as suppression counts it: the length of its list, else its amount.
    pub reserved_amount: MilliCpu,
    /// CPUs of the SYSTEM class; empty where it has none of its own.
    pub system: CpuSet,
    /// The same when exclusive; else empty.
    pub system_exclusive: CpuSet,
    /// The kubelet's policy.
    pub kubelet_policy: KubeletCpuPolicy,
    /// CPUs that the kubelet gave to one container: (pod UID, container name) -> CPUs.
    pub kubelet_exclusive: BTreeMap<(Arc<str>, String), CpuSet>,
    /// CPUs that the scheduler gave to LSE pods.
    pub lse: CpuSet,
    /// CPUs that the scheduler gave to LSR pods and to no LSE pod.
    pub lsr: CpuSet,
    /// CPUs that BE may use: all but those reserved, exclusive SYSTEM, of LSE pods and pinned by the kubelet.
    pub be_pool: CpuSet,
    /// CPUs that LS pods share: those of BE but for all that the scheduler gave to a pod; collection.md 10.3 (b).
    pub ls_pool: CpuSet,
    /// Annotations of the NodeResourceTopology object that was given, if one was.
    pub object: Option<BTreeMap<String, String>>,
}

/// What the kubelet says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletFacts {
    /// The policy of its configuration; `None` where that is not known (then its state file says).
    pub policy: Option<KubeletCpuPolicy>,
    /// The text of its `cpu_manager_state` file; `None` without a file.
    pub cpu_manager_state: Option<String>,
}

/// Where the topology is computed from.
#[derive(Clone, Copy, Debug)]
pub struct TopologyInput<'a> {
    /// Online CPUs.
    pub cpus: &'a [CpuInfo],
    /// The Node object, once seen.
    pub node: Option<&'a Node>,
    /// Pods with what the scheduler gave them.
    pub pods: &'a PodTable,
    /// What the kubelet says.
    pub kubelet: &'a KubeletFacts,
    /// Annotations of a NodeResourceTopology object, where one was given; a key in it wins over the Node's.
    pub overrides: Option<&'a BTreeMap<String, String>>,
    /// The last result: a source that cannot be read keeps what it said then.
    pub previous: Option<&'a Topology>,
}

impl Topology {
    /// Computes who may use which CPUs. Nothing fails: what cannot be read is named in a notice, and what it
    /// said in `previous` is kept, else it says nothing.
    pub fn compute(input: &TopologyInput<'_>) -> (Self, Vec<TopologyNotice>) {
        let mut sources = CpuSources::new(input);
        let mut cpus = input.cpus.to_vec();
        cpus.sort_unstable();
        cpus.dedup_by_key(|info| info.cpu);

        let manager = sources.cpu_manager();
        let reserved = sources.reserved();
        let (system, system_exclusive) = sources.system();
        let mut topology = Self {
            reserved,
            reserved_amount: sources.reserved_amount(),
            system,
            system_exclusive,
            kubelet_policy: sources.policy(&manager),
            kubelet_exclusive: manager.exclusive,
            cpus,
            object: input.overrides.cloned(),
            ..Self::default()
        };
        let allocations = sources.allocations();
        topology.lse = allocations.of(QosClass::Lse);
        topology.lsr = allocations.of(QosClass::Lsr).difference(&topology.lse);
        let pinned = topology.pinned(input.pods, &allocations);
        let pools = CpuPools::new(&topology.all(), &pinned, &allocations)
            .without(&topology.reserved, &topology.system_exclusive);
        (topology.ls_pool, topology.be_pool) = (pools.ls, pools.be);
        (topology, sources.into_notices())
    }

    /// All online CPUs.
    pub fn all(&self) -> CpuSet {
        self.cpus.iter().map(|info| info.cpu).collect()
    }

    /// CPUs that the kubelet pinned for pods that the scheduler gave none: not of LS and BE pods, whose label
    /// says that they share, and not of pods with CPUs of their own; collection.md 10.3 (a).
    fn pinned(&self, pods: &PodTable, allocations: &Allocations) -> CpuSet {
        if self.kubelet_policy == KubeletCpuPolicy::None {
            return CpuSet::new();
        }
        let is_placed = |uid: &str| allocations.by_pod.contains_key(uid);
        let pinned = pinned_by_pod(&self.kubelet_exclusive, pods, is_placed);
        pinned.values().fold(CpuSet::new(), |all, cpus| all.union(cpus))
    }
}

/// Machine M of collection.md 17: node = socket = 4 cores of 2 threads, core = cpu mod 8.
#[cfg(test)]
pub(super) fn machine() -> Vec<CpuInfo> {
    let cpu = |cpu| {
        let node = u32::from(cpu % 8 >= 4);
        CpuInfo { cpu, core: cpu % 8, socket: node, node }
    };
    (0..16).map(cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::keys;
    use crate::api::pod::Pod;
    use crate::api::qos::KubeQos;
    use crate::cgroup::path::CgroupDir;
    use crate::state::pods::PodEntry;

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    fn pods(pods: &[(&str, Option<QosClass>, &str)]) -> PodTable {
        let entry = |(uid, qos, status): &(&str, Option<QosClass>, &str)| {
            let mut pod = Pod::default();
            pod.metadata.name = (*uid).into();
            pod.metadata.namespace = "b".into();
            pod.metadata.annotations.insert(keys::RESOURCE_STATUS.into(), (*status).into());
            let uid: Arc<str> = (*uid).into();
            let entry = PodEntry {
                pod: pod.into(),
                uid: Arc::clone(&uid),
                kube_qos: KubeQos::Burstable,
                qos: *qos,
                dir: CgroupDir::new("kubepods/pod").unwrap(),
                containers: Vec::new(),
                hooks_live: false,
            };
            (uid, Arc::new(entry))
        };
        PodTable { pods: pods.iter().map(entry).collect(), synced: true }
    }

    fn node(annotations: &[(&str, &str)]) -> Node {
        let mut node = Node::default();
        node.metadata.annotations =
            annotations.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        node
    }

    fn compute(node: &Node, pods: &PodTable, kubelet: &KubeletFacts) -> (Topology, Vec<TopologyNotice>) {
        Topology::compute(&TopologyInput {
            cpus: &machine(),
            node: Some(node),
            pods,
            kubelet,
            overrides: None,
            previous: None,
        })
    }

    fn example_pods() -> PodTable {
        pods(&[
            ("u1", Some(QosClass::Lsr), r#"{"cpuset":"2,10"}"#),
            ("u2", Some(QosClass::Lse), r#"{"cpuset":"4-5,12-13"}"#),
            ("u3", Some(QosClass::Ls), "{}"),
            ("u4", None, "{}"),
            ("u6", Some(QosClass::Lsr), r#"{"cpuset":"x-y"}"#),
        ])
    }

    #[test]
    fn the_be_pool_of_the_worked_examples() {
        let kubelet = KubeletFacts::default();
        let (topology, notices) = compute(&node(&[]), &example_pods(), &kubelet);
        assert_eq!(topology.be_pool, set("0-3,6-11,14-15"));
        assert_eq!(topology.ls_pool, set("0-1,3,6-9,11,14-15"));
        assert_eq!((topology.lsr, topology.lse), (set("2,10"), set("4-5,12-13")));
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert_eq!(notices[0].object, "pod b/u6");
        assert_eq!(notices[0].key, keys::RESOURCE_STATUS);
    }

    #[test]
    fn cpus_pinned_by_the_kubelet_reserved_or_exclusive_leave_the_be_pool() {
        let kubelet = KubeletFacts {
            policy: Some(KubeletCpuPolicy::Static),
            cpu_manager_state: Some(
                r#"{"policyName":"static","entries":{"u4":{"c1":"3,11","c2":"7"},"u3":{"c":"6"},"u1":{"c":"2"},
                    "zz":{"c":"15"},"u5":{"c":""}},"checksum":1}"#
                    .into(),
            ),
        };
        let (topology, _) = compute(&node(&[]), &example_pods(), &kubelet);
        assert_eq!(topology.be_pool, set("0-2,6,8-10,14"));

        let reserving = node(&[
            (keys::NODE_RESERVATION, r#"{"reservedCPUs":"1,0","applyPolicy":"ReservedCPUsOnly"}"#),
            (keys::SYSTEM_QOS_RESOURCE, r#"{"cpuset":"6"}"#),
        ]);
        let (topology, notices) = compute(&reserving, &example_pods(), &kubelet);
        assert_eq!(topology.be_pool, set("2,8-10,14"));
        assert_eq!((topology.reserved, topology.reserved_amount), (set("0-1"), MilliCpu(2000)));
        assert_eq!(notices.len(), 1, "{notices:?}");
    }

    #[test]
    fn an_amount_is_reserved_as_whole_cpus_and_counted_as_it_is() {
        for (text, cpus, amount) in [
            (r#"{"resources":{"cpu":"500m"}}"#, "0", 500),
            (r#"{"resources":{"cpu":"3"}}"#, "0-1,8", 3000),
            (r#"{"resources":{"cpu":"9"}}"#, "0-4,8-11", 9000),
            (r#"{"resources":{"cpu":"2"},"reservedCPUs":"5"}"#, "5", 1000),
            (r#"{"resources":{"cpu":"0"}}"#, "", 0),
            ("{}", "", 0),
        ] {
            let node = node(&[(keys::NODE_RESERVATION, text)]);
            let (topology, notices) = compute(&node, &PodTable::default(), &KubeletFacts::default());
            assert_eq!(
                (topology.reserved, topology.reserved_amount),
                (set(cpus), MilliCpu(amount)),
                "{text}"
            );
            assert_eq!(notices, []);
        }
    }

    #[test]
    fn a_bad_annotation_keeps_the_last_good_one_and_is_named() {
        let good = node(&[
            (keys::NODE_RESERVATION, r#"{"reservedCPUs":"0-1"}"#),
            (keys::SYSTEM_QOS_RESOURCE, r#"{"cpuset":"15"}"#),
        ]);
        let pods = PodTable::default();
        let kubelet = KubeletFacts {
            cpu_manager_state: Some(r#"{"policyName":"static","entries":{"u":{"c":"3"}}}"#.into()),
            ..KubeletFacts::default()
        };
        let (last, _) = compute(&good, &pods, &kubelet);
        let pool = set("2,4-14");
        assert_eq!((&last.be_pool, last.kubelet_policy), (&pool, KubeletCpuPolicy::Static));

        let bad = node(&[
            (keys::NODE_RESERVATION, r#"{"reservedCPUs":"1-"}"#),
            (keys::SYSTEM_QOS_RESOURCE, r#"{"cpuset":7}"#),
        ]);
        let overrides = BTreeMap::from([(keys::CPU_MANAGER_POLICY.to_owned(), r#"{"policy":"#.to_owned())]);
        let broken = KubeletFacts { cpu_manager_state: Some("{".into()), ..KubeletFacts::default() };
        let mut input = TopologyInput {
            cpus: &machine(),
            node: Some(&bad),
            pods: &pods,
            kubelet: &broken,
            overrides: Some(&overrides),
            previous: Some(&last),
        };
        let (kept, notices) = Topology::compute(&input);
        assert_eq!(kept, Topology { object: Some(overrides.clone()), ..last.clone() });
        let keys: Vec<&str> = notices.iter().map(|notice| notice.key).collect();
        let want = [
            "cpu_manager_state",
            keys::NODE_RESERVATION,
            keys::SYSTEM_QOS_RESOURCE,
            keys::CPU_MANAGER_POLICY,
        ];
        assert_eq!(keys, want);

        input.previous = None;
        let (fresh, notices) = Topology::compute(&input);
        assert_eq!(fresh.be_pool, set("0-15"));
        assert_eq!((fresh.kubelet_policy, notices.len()), (KubeletCpuPolicy::Unknown, 4));
    }

    #[test]
    fn before_the_node_is_seen_its_last_reservation_holds() {
        let annotated = node(&[(keys::NODE_RESERVATION, r#"{"resources":{"cpu":"2"}}"#)]);
        let kubelet = KubeletFacts::default();
        let (last, _) = compute(&annotated, &PodTable::default(), &kubelet);
        let (kept, _) = Topology::compute(&TopologyInput {
            cpus: &machine(),
            node: None,
            pods: &PodTable::default(),
            kubelet: &kubelet,
            overrides: None,
            previous: Some(&last),
        });
        assert_eq!(kept, last);
    }

    #[test]
    fn a_topology_object_wins_over_the_node_for_cpus_and_not_for_the_amount() {
        let annotated = node(&[(keys::NODE_RESERVATION, r#"{"resources":{"cpu":"1500m"}}"#)]);
        let overrides =
            BTreeMap::from([(keys::NODE_RESERVATION.to_owned(), r#"{"reservedCPUs":"7"}"#.to_owned())]);
        let (topology, _) = Topology::compute(&TopologyInput {
            cpus: &machine(),
            node: Some(&annotated),
            pods: &PodTable::default(),
            kubelet: &KubeletFacts::default(),
            overrides: Some(&overrides),
            previous: None,
        });
        assert_eq!((topology.reserved, topology.reserved_amount), (set("7"), MilliCpu(1500)));
    }

    #[test]
    fn on_overlap_the_stricter_class_owns_a_cpu() {
        let table = pods(&[
            ("z", Some(QosClass::Lsr), r#"{"cpuset":"1-2"}"#),
            ("a", Some(QosClass::Lse), r#"{"cpuset":"2-3"}"#),
        ]);
        let (topology, _) = compute(&node(&[]), &table, &KubeletFacts::default());
        assert_eq!((topology.lsr, topology.lse), (set("1"), set("2-3")));
        assert_eq!(topology.be_pool, set("0-1,4-15"));
    }
}
