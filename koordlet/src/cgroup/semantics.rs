//! What the kernel allows and how it behaves, as plain capabilities, so that nobody outside this room has
//! to ask for a version.

use super::layout::CgroupVersion;

/// How the hierarchies of this host behave.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a kernel, not a state")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Semantics {
    /// A child's quota above its parent's is refused, and so is a parent's below its child's (EINVAL).
    /// Where false, the kernel accepts both and the smaller one holds.
    pub child_quota_bounded_by_parent: bool,
    /// A child's CPUs must lie in its parent's (EACCES), and a parent cannot drop CPUs of a child (EBUSY).
    /// Where false, the kernel accepts both and the intersection is in effect.
    pub child_cpuset_bounded_by_parent: bool,
    /// A group with an empty CPU list uses its parent's; where false, it cannot hold tasks (ENOSPC).
    pub empty_cpuset_inherits: bool,
    /// An offline CPU leaves every list for good and does not come back with the CPU.
    pub cpuset_forgets_offline_cpus: bool,
    /// A memory limit below what cannot be reclaimed is refused (EBUSY); where false, it invokes the OOM
    /// killer.
    pub memory_limit_below_use_is_refused: bool,
    /// The limit behind `MemswLimit` counts memory and swap together; where false, swap alone.
    pub memsw_counts_memory: bool,
}

impl Semantics {
    /// From the version of each controller's hierarchy.
    pub(super) fn of(cpu: CgroupVersion, cpuset: CgroupVersion, memory: CgroupVersion) -> Self {
        Self {
            child_quota_bounded_by_parent: cpu == CgroupVersion::V1,
            child_cpuset_bounded_by_parent: cpuset == CgroupVersion::V1,
            empty_cpuset_inherits: cpuset == CgroupVersion::V2,
            cpuset_forgets_offline_cpus: cpuset == CgroupVersion::V1,
            memory_limit_below_use_is_refused: memory == CgroupVersion::V1,
            memsw_counts_memory: memory == CgroupVersion::V1,
        }
    }
}
