//! What this host's kernel offers and how its switches stand, as far as rules depend on it. Looked at again from time
//! to time: a negative answer is not for ever (hooks.md 17, H13).

use std::collections::BTreeSet;

use super::resctrl::ResctrlFacts;
use crate::cgroup::resource::Resource;

/// Features and switches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelFacts {
    /// Whether cgroups have `cpu.bvt_warp_ns` (the kubepods directory has).
    pub bvt: bool,
    /// `kernel/sched_group_identity_enabled`
    pub group_identity: Switch,
    /// `kernel/sched_core`
    pub sched_core: Switch,
    /// Of the settings that only vendors' kernels have, and of those that may stand in for them
    /// (`cgroup::mainline`), the ones that the kubepods directory has. Empty while there is no such directory.
    pub files: BTreeSet<Resource>,
    /// Whether cgroups have `net_cls.classid` (the kubepods directory has).
    pub net_cls: bool,
    /// Caches and memory bandwidth.
    pub resctrl: ResctrlFacts,
    /// Whether the kernel has core scheduling, and how it is switched on.
    pub core_sched: CoreSchedSwitch,
}

/// How core scheduling is switched on, hooks.md 10.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoreSchedSwitch {
    /// The kernel has none.
    #[default]
    Unsupported,
    /// It needs no switch: the first cookie switches it on.
    None,
    /// By `kernel/sched_core`.
    Sysctl,
    /// By the word `CORE_SCHED` in `sched_features`.
    Feature,
}

/// A kernel switch that may not be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Switch {
    /// There is no such file.
    #[default]
    Absent,
    /// Its number.
    Reads(i64),
    /// It is there and cannot be read, or holds no number.
    Unreadable,
}

impl Switch {
    /// Whether the file is there.
    pub fn is_there(&self) -> bool {
        *self != Self::Absent
    }
}
