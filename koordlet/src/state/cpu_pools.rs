//! Which CPUs LS and BE pods share: what is left of the node's when others have theirs, collection.md 10.3. The
//! topology that decisions use and the one that is published are both made from it; where the inputs come from is
//! theirs to know.

use super::cpu_sources::Allocations;
use crate::api::qos::QosClass;
use crate::cpuset::CpuSet;

/// The two pools; that of LS is part of that of BE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuPools {
    /// CPUs that LS pods share.
    pub ls: CpuSet,
    /// CPUs that BE pods may use.
    pub be: CpuSet,
}

impl CpuPools {
    /// Steps (a) and (b) of collection.md 10.3: CPUs that the kubelet pinned and those that the scheduler gave to LSE
    /// pods leave both pools, those that it gave to other pods leave that of LS.
    pub(super) fn new(all: &CpuSet, pinned: &CpuSet, allocations: &Allocations) -> Self {
        let be = all.difference(pinned).difference(&allocations.of(QosClass::Lse));
        Self { ls: be.difference(&allocations.all()), be }
    }

    /// Step (c): reserved CPUs and those of the SYSTEM class leave both pools.
    #[must_use]
    pub fn without(&self, reserved: &CpuSet, system_exclusive: &CpuSet) -> Self {
        let rest = |pool: &CpuSet| pool.difference(reserved).difference(system_exclusive);
        Self { ls: rest(&self.ls), be: rest(&self.be) }
    }
}
