//! The allocator's rule: which CPUs LS and BE pods share, by NUMA node, what the SYSTEM class has, and whether the
//! kubelet hands out CPUs itself (hooks.md 8.2). From a NodeResourceTopology's annotations, or from what was computed
//! locally.

use std::collections::BTreeMap;
use std::fmt;

use crate::api::annotations::{
    AnnotationCause, AnnotationError, Annotations, cpu_manager_policy, shared_pools, system_qos_resource,
};
use crate::api::keys;
use crate::api::topology::SharedPool;
use crate::cpuset::CpuSet;
use crate::state::topology::{KubeletCpuPolicy, Topology};

/// The rule in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSetRule {
    ls: Vec<Pool>,
    be: Vec<Pool>,
    kubelet_static: bool,
    system: CpuSet,
    all_shared: bool,
}

/// The part of a pool on one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pool {
    socket: u32,
    node: u32,
    /// As given: a list that cannot be read is no reason to refuse the others, as the reference has it.
    text: String,
    /// `None` if the text is no CPU list.
    cpus: Option<CpuSet>,
}

impl From<SharedPool> for Pool {
    fn from(pool: SharedPool) -> Self {
        let SharedPool { socket, node, cpuset: text } = pool;
        let cpus = text.parse().ok();
        Self { socket, node, text, cpus }
    }
}

impl CpuSetRule {
    /// From the annotations of a NodeResourceTopology. A malformed one refuses them all.
    pub fn of_annotations(annotations: &Annotations) -> Result<Self, AnnotationError> {
        let pools = |key| -> Result<Vec<Pool>, AnnotationError> {
            let pools = shared_pools(annotations, key)?.unwrap_or_default();
            Ok(pools.into_iter().map(Pool::from).collect())
        };
        let (ls, be) = (pools(keys::CPU_SHARED_POOLS)?, pools(keys::BE_CPU_SHARED_POOLS)?);
        let policy = cpu_manager_policy(annotations)?.unwrap_or_default();
        let system = system_qos_resource(annotations)?.unwrap_or_default();
        let system = system.cpuset.parse().map_err(|error| AnnotationError {
            key: keys::SYSTEM_QOS_RESOURCE,
            source: AnnotationCause::Cpus(error),
        })?;
        let kubelet_static = KubeletCpuPolicy::parse(&policy.policy) == Some(KubeletCpuPolicy::Static);
        Ok(Self { ls, be, kubelet_static, system, all_shared: false })
    }

    /// From the topology: of the annotations of a given object if they name pools, what they leave open filled in;
    /// else from what was computed locally. `None` while the kubelet's policy cannot be told: the last rule stays.
    pub fn of_topology(topology: &Topology) -> Result<Option<Self>, AnnotationError> {
        if topology.kubelet_policy == KubeletCpuPolicy::Unknown {
            return Ok(None);
        }
        let given = |object: &&Annotations, key| object.get(key).is_some_and(|text| !text.is_empty());
        let names_pools = |object: &&Annotations| {
            given(object, keys::CPU_SHARED_POOLS) || given(object, keys::BE_CPU_SHARED_POOLS)
        };
        let kubelet_static = topology.kubelet_policy == KubeletCpuPolicy::Static;
        let Some(object) = topology.object.as_ref().filter(names_pools) else {
            return Ok(Some(Self::local(topology, kubelet_static)));
        };
        let mut rule = Self::of_annotations(object)?;
        if !given(&object, keys::CPU_MANAGER_POLICY) {
            rule.kubelet_static = kubelet_static;
        }
        if !given(&object, keys::SYSTEM_QOS_RESOURCE) {
            rule.system = topology.system.clone();
        }
        Ok(Some(rule))
    }

    fn local(topology: &Topology, kubelet_static: bool) -> Self {
        let by_node = |pool: &CpuSet| {
            let mut nodes: BTreeMap<(u32, u32), CpuSet> = BTreeMap::new();
            for info in topology.cpus.iter().filter(|info| pool.contains(info.cpu)) {
                nodes.entry((info.socket, info.node)).or_default().insert(info.cpu);
            }
            let pool = |((socket, node), cpus): (_, CpuSet)| Pool {
                socket,
                node,
                text: cpus.to_string(),
                cpus: Some(cpus),
            };
            nodes.into_iter().map(pool).collect()
        };
        Self {
            ls: by_node(&topology.ls_pool),
            be: by_node(&topology.be_pool),
            kubelet_static,
            system: topology.system.clone(),
            all_shared: topology.ls_pool == topology.all(),
        }
    }

    /// All LS pools; `None` if one of them cannot be read.
    pub fn ls_pool(&self) -> Option<CpuSet> {
        union(self.ls.iter())
    }

    /// All BE pools; `None` if one of them cannot be read.
    pub fn be_pool(&self) -> Option<CpuSet> {
        union(self.be.iter())
    }

    /// The LS pools as they are given, without empty ones, joined with commas (hooks.md 17 row 26).
    pub fn ls_text(&self) -> String {
        let texts: Vec<&str> =
            self.ls.iter().map(|pool| &*pool.text).filter(|text| !text.is_empty()).collect();
        texts.join(",")
    }

    /// The part of the LS pools on NUMA nodes; `None` if one of them cannot be read.
    pub(super) fn ls_on(&self, nodes: &[u32]) -> Option<CpuSet> {
        union(self.ls.iter().filter(|pool| nodes.contains(&pool.node)))
    }

    /// The part of the BE pools on NUMA nodes; `None` if one of them cannot be read.
    pub(super) fn be_on(&self, nodes: &[u32]) -> Option<CpuSet> {
        union(self.be.iter().filter(|pool| nodes.contains(&pool.node)))
    }

    /// Whether the kubelet's CPU manager policy is `static`.
    pub fn kubelet_static(&self) -> bool {
        self.kubelet_static
    }

    /// CPUs of the SYSTEM class; empty where it has none of its own.
    pub fn system(&self) -> &CpuSet {
        &self.system
    }

    /// Whether every CPU of the node is shared, as far as this agent can tell by itself: the pool keeps nobody off
    /// anything, so there is nothing to enforce.
    pub(super) fn all_shared(&self) -> bool {
        self.all_shared
    }

    /// What is wrong with pools whose text is no CPU list.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = AnnotationError> {
        let ls = self.ls.iter().map(|pool| (keys::CPU_SHARED_POOLS, pool));
        let be = self.be.iter().map(|pool| (keys::BE_CPU_SHARED_POOLS, pool));
        ls.chain(be).filter_map(|(key, pool)| {
            let error = pool.text.parse::<CpuSet>().err()?;
            Some(AnnotationError { key, source: AnnotationCause::Cpus(error) })
        })
    }
}

fn union<'a>(mut pools: impl Iterator<Item = &'a Pool>) -> Option<CpuSet> {
    pools.try_fold(CpuSet::new(), |all, pool| Some(all.union(pool.cpus.as_ref()?)))
}

impl fmt::Display for CpuSetRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let be: Vec<&str> = self.be.iter().map(|pool| &*pool.text).filter(|text| !text.is_empty()).collect();
        let policy = if self.kubelet_static { "static" } else { "none" };
        write!(f, "LS pool [{}], BE pool [{}], kubelet policy {policy}", self.ls_text(), be.join(","))?;
        if self.system.is_empty() { Ok(()) } else { write!(f, ", SYSTEM [{}]", self.system) }
    }
}
