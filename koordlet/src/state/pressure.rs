//! Pressure stall information of pods and containers (collection.md 6.9).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::series::key::{PsiDegree, PsiResource, SeriesKey};
use crate::cgroup::read::Pressure;
use crate::units::Nanos;

/// Pressure of one group on all three resources. Their `some` lines are always there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GroupPressure {
    /// CPU; `full` is absent on old kernels.
    pub cpu: Pressure,
    /// Memory.
    pub memory: Pressure,
    /// Block I/O.
    pub io: Pressure,
}

/// One round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePressure {
    /// When it was read (`CLOCK_MONOTONIC`).
    pub at: Nanos,
    /// By pod UID.
    pub pods: BTreeMap<Arc<str>, GroupPressure>,
    /// By pod UID and full container id.
    pub containers: BTreeMap<(Arc<str>, Arc<str>), GroupPressure>,
}

impl GroupPressure {
    /// What is stored of it: the averages over 10 s, in percent, and whether there is one of `full` for CPU.
    fn samples(
        self,
        key: impl Fn(PsiResource, PsiDegree) -> SeriesKey,
        full_supported: SeriesKey,
    ) -> impl Iterator<Item = (SeriesKey, f64)> {
        let resources =
            [(PsiResource::Cpu, self.cpu), (PsiResource::Memory, self.memory), (PsiResource::Io, self.io)];
        let averages = resources.into_iter().flat_map(move |(resource, pressure)| {
            let some = pressure.some.map(|line| (key(resource, PsiDegree::Some), line.avg10));
            let full = pressure.full.map(|line| (key(resource, PsiDegree::Full), line.avg10));
            [some, full].into_iter().flatten()
        });
        let supported = if self.cpu.full.is_some() { 1.0 } else { 0.0 };
        averages.chain([(full_supported, supported)])
    }
}

impl NodePressure {
    /// The samples of the round, collection.md 6.9. A degree that the kernel does not tell has none.
    pub fn samples(&self) -> impl Iterator<Item = (SeriesKey, f64)> + '_ {
        let pods = self.pods.iter().flat_map(|(uid, pressure)| {
            let key = |resource, degree| SeriesKey::pod_psi(uid, resource, degree);
            pressure.samples(key, SeriesKey::pod_psi_full_supported(uid))
        });
        let containers = self.containers.iter().flat_map(|((uid, id), pressure)| {
            let key = |resource, degree| SeriesKey::container_psi(uid, id, resource, degree);
            pressure.samples(key, SeriesKey::container_psi_full_supported(uid, id))
        });
        pods.chain(containers)
    }
}
