//! The sources that say who may use which CPUs, read one by one: annotations of Node, topology object and
//! pods, and the kubelet's state file. A source that cannot be read keeps what it said last and is named in a
//! notice. What follows from them together is in `topology`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::cpu_manager::CpuManagerState;
use super::pods::{PodEntry, PodTable};
use super::reserve::reservation_cpus;
use super::topology::{KubeletCpuPolicy, TopologyInput};
use crate::api::annotations::{self, AnnotationError, Annotations};
use crate::api::keys;
use crate::api::qos::QosClass;
use crate::api::topology::{NodeReservation, SystemQosResource};
use crate::cpuset::CpuSet;
use crate::units::MilliCpu;

/// Names of objects in notices.
const NODE: &str = "node";
const TOPOLOGY_OBJECT: &str = "noderesourcetopology";

/// A source that cannot be read; what it said last stays in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyNotice {
    /// The object that it is on, e.g. `node`, `pod default/web`.
    pub object: String,
    /// Annotation key or file name.
    pub key: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for TopologyNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.object, self.key, self.problem)
    }
}

/// CPUs that the scheduler gave to pods; no empty sets.
#[derive(Default)]
pub(super) struct Allocations {
    /// Label and CPUs by UID.
    pub(super) by_pod: BTreeMap<Arc<str>, (Option<QosClass>, CpuSet)>,
}

impl Allocations {
    /// Of these pods; one whose annotation cannot be read has none and is named.
    pub(super) fn of_pods(pods: &PodTable, notices: &mut Vec<TopologyNotice>) -> Self {
        let mut allocations = Self::default();
        for (uid, pod) in &pods.pods {
            match allocated_cpus(pod) {
                Ok(cpus) if cpus.is_empty() => {}
                Ok(cpus) => {
                    allocations.by_pod.insert(Arc::clone(uid), (pod.qos, cpus));
                }
                Err(error) => {
                    let meta = &pod.pod.metadata;
                    let object = format!("pod {}/{}", meta.namespace, meta.name);
                    notices.push(TopologyNotice {
                        object,
                        key: keys::RESOURCE_STATUS,
                        problem: problem(&error),
                    });
                }
            }
        }
        allocations
    }

    /// CPUs of all pods.
    pub(super) fn all(&self) -> CpuSet {
        self.by_pod.values().fold(CpuSet::new(), |all, (_, cpus)| all.union(cpus))
    }

    /// CPUs of all pods with that label.
    pub(super) fn of(&self, class: QosClass) -> CpuSet {
        let pods = self.by_pod.values().filter(|(qos, _)| *qos == Some(class));
        pods.fold(CpuSet::new(), |all, (_, cpus)| all.union(cpus))
    }
}

/// CPUs that the scheduler gave to one pod: `cpuset` of its resource-status annotation, empty without one.
pub fn allocated_cpus(pod: &PodEntry) -> Result<CpuSet, AnnotationError> {
    match annotations::resource_status(&pod.pod)? {
        Some(status) => status.cpus(),
        None => Ok(CpuSet::new()),
    }
}

/// Reads the sources and keeps the faults.
pub(super) struct CpuSources<'a> {
    input: &'a TopologyInput<'a>,
    notices: Vec<TopologyNotice>,
}

impl<'a> CpuSources<'a> {
    pub(super) fn new(input: &'a TopologyInput<'a>) -> Self {
        Self { input, notices: Vec::new() }
    }

    pub(super) fn into_notices(self) -> Vec<TopologyNotice> {
        self.notices
    }

    fn notice(&mut self, object: &str, key: &'static str, problem: String) {
        self.notices.push(TopologyNotice { object: object.into(), key, problem });
    }

    /// The value, or what was valid last and a notice.
    fn or_last<T>(&mut self, object: &str, key: &'static str, value: Result<T, String>, last: T) -> T {
        value.unwrap_or_else(|problem| {
            self.notice(object, key, problem);
            last
        })
    }

    /// Whether neither object was seen, so that nothing is known yet.
    fn no_objects(&self) -> bool {
        self.input.node.is_none() && self.input.overrides.is_none()
    }

    /// The annotations of the topology object if `key` is there, else the Node's, with the object's name.
    /// Empty text counts as absent.
    fn annotations(&self, key: &str) -> Option<(&'static str, &Annotations)> {
        let node = self.input.node.map(|node| &node.metadata.annotations);
        let objects = [(TOPOLOGY_OBJECT, self.input.overrides), (NODE, node)];
        let mut objects = objects.into_iter().filter_map(|(name, object)| Some((name, object?)));
        objects.find(|(_, object)| object.get(key).is_some_and(|text| !text.is_empty()))
    }

    /// The reserved CPUs; collection.md 10.3. An amount of a topology object names no CPUs.
    pub(super) fn reserved(&mut self) -> CpuSet {
        let last = self.input.previous.map(|last| last.reserved.clone()).unwrap_or_default();
        if self.no_objects() {
            return last;
        }
        let Some((object, annotations)) = self.annotations(keys::NODE_RESERVATION) else {
            return CpuSet::new();
        };
        let reservation = annotations::node_reservation(annotations);
        let cpus = reservation.map_err(|error| problem(&error)).and_then(|reservation| {
            let reservation = reservation.unwrap_or_default();
            if object != NODE {
                return listed(&reservation);
            }
            reservation_cpus(&reservation, self.input.cpus).map_err(|error| error.to_string())
        });
        self.or_last(object, keys::NODE_RESERVATION, cpus, last)
    }

    /// What the Node's reservation annotation takes from BE, as qos.md 5.1 counts it: the length of its list,
    /// else its amount. An annotation that cannot be read is named by `reserved`.
    pub(super) fn reserved_amount(&self) -> MilliCpu {
        let last = self.input.previous.map(|last| last.reserved_amount).unwrap_or_default();
        let Some(node) = self.input.node else { return last };
        let reservation = annotations::node_reservation(&node.metadata.annotations);
        let amount = reservation.map_err(|error| problem(&error)).and_then(|reservation| {
            let Some(reservation) = reservation else { return Ok(MilliCpu(0)) };
            if reservation.reserved_cpus.is_empty() {
                let amount = reservation.resources.get(keys::CPU).map(|amount| amount.milli_cpu());
                return Ok(amount.unwrap_or_default().max(MilliCpu(0)));
            }
            let count = i64::try_from(listed(&reservation)?.len()).unwrap_or(i64::MAX);
            Ok(MilliCpu(count.saturating_mul(1000)))
        });
        amount.unwrap_or(last)
    }

    /// The CPUs of the SYSTEM class, and those of them that others must stay off; qos.md 2.2.
    pub(super) fn system(&mut self) -> (CpuSet, CpuSet) {
        let last = self.input.previous.map(|last| (last.system.clone(), last.system_exclusive.clone()));
        let last = last.unwrap_or_default();
        if self.no_objects() {
            return last;
        }
        let Some((object, annotations)) = self.annotations(keys::SYSTEM_QOS_RESOURCE) else {
            return Default::default();
        };
        let system = annotations::system_qos_resource(annotations);
        let parsed = system
            .map_err(|error| problem(&error))
            .and_then(|system| system_cpus(&system.unwrap_or_default()));
        self.or_last(object, keys::SYSTEM_QOS_RESOURCE, parsed, last)
    }

    /// The kubelet's state file.
    pub(super) fn cpu_manager(&mut self) -> CpuManagerState {
        let text = self.input.kubelet.cpu_manager_state.as_deref().unwrap_or("");
        match CpuManagerState::parse(text) {
            Ok(state) => {
                for problem in &state.skipped {
                    self.notice("kubelet", "cpu_manager_state", problem.clone());
                }
                state
            }
            Err(error) => {
                self.notice("kubelet", "cpu_manager_state", error.to_string());
                let exclusive =
                    self.input.previous.map(|last| last.kubelet_exclusive.clone()).unwrap_or_default();
                let policy = self.input.previous.map(|last| last.kubelet_policy);
                CpuManagerState { policy, exclusive, skipped: Vec::new() }
            }
        }
    }

    /// The kubelet's policy: of the topology object, else of its configuration, else of its state file.
    pub(super) fn policy(&mut self, manager: &CpuManagerState) -> KubeletCpuPolicy {
        let kubelet = self.input.kubelet.policy.or(manager.policy).unwrap_or_default();
        let Some(overrides) = self.input.overrides else { return kubelet };
        match annotations::cpu_manager_policy(overrides) {
            Ok(annotation) => {
                annotation.and_then(|named| KubeletCpuPolicy::parse(&named.policy)).unwrap_or(kubelet)
            }
            Err(error) => {
                self.notice(TOPOLOGY_OBJECT, keys::CPU_MANAGER_POLICY, problem(&error));
                self.input.previous.map_or(KubeletCpuPolicy::Unknown, |last| last.kubelet_policy)
            }
        }
    }

    /// What the scheduler gave to pods.
    pub(super) fn allocations(&mut self) -> Allocations {
        Allocations::of_pods(self.input.pods, &mut self.notices)
    }
}

/// The CPU list of a reservation; empty without one.
fn listed(reservation: &NodeReservation) -> Result<CpuSet, String> {
    reservation.reserved_cpus.parse().map_err(|error| format!("reservedCPUs: {error}"))
}

/// The CPUs of the SYSTEM class, and those that it has for itself: none where it shares them.
fn system_cpus(system: &SystemQosResource) -> Result<(CpuSet, CpuSet), String> {
    let cpus: CpuSet = system.cpuset.parse().map_err(|error| format!("cpuset: {error}"))?;
    let exclusive = if system.cpuset_exclusive.unwrap_or(true) { cpus.clone() } else { CpuSet::new() };
    Ok((cpus, exclusive))
}

/// The CPUs that the SYSTEM class has for itself; none where it shares them.
pub(super) fn exclusive_cpus(system: &SystemQosResource) -> Result<CpuSet, String> {
    system_cpus(system).map(|(_, exclusive)| exclusive)
}

/// The causes of an error in one line; the notice itself names the annotation.
pub(super) fn problem(error: &AnnotationError) -> String {
    let mut text = error.source.to_string();
    let mut cause = error.source.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
