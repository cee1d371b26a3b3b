//! What is known of a kind of series beside its name: whom it is about, which collector writes it, and how exactly
//! its values are kept.

use super::metric::Metric;

/// Whom a kind is about. Decides how long its samples are kept and how exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The node, its NUMA nodes, the system, classes of pods.
    Node,
    /// Single pods, containers and host applications.
    Workload,
}

/// Which collector writes a kind, and so how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pace {
    /// The samples of use.
    Usage,
    /// Cold memory.
    ColdMemory,
    /// Pressure.
    Pressure,
    /// CPI.
    Cpi,
    /// resctrl.
    Resctrl,
}

/// How values are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Precision {
    /// As they are, 8 bytes.
    Exact,
    /// Times `scale` in 4 bytes: within 2^-24 of the value, relative. Whole thousandths of cores, ratios and
    /// percents up to 16,777, and bytes in whole pages of 4 KiB up to 64 GiB, come back as they were.
    Single { scale: f64 },
}

impl Metric {
    /// Whom it is about.
    pub fn scope(self) -> Scope {
        use Metric as M;
        match self {
            M::NodeCpuUsage
            | M::NodeMemoryUsage
            | M::NodeMemoryUsageWithPageCache
            | M::NodeNumaCpuUsage
            | M::NodeNumaMemoryUsage
            | M::SysCpuUsage
            | M::SysMemoryUsage
            | M::SysNumaCpuUsage
            | M::SysNumaMemoryUsage
            | M::NodeBe
            | M::NodeMemoryWithHotPageUsage
            | M::NodeMemoryColdPageSize
            | M::ResctrlLlc
            | M::ResctrlMb => Scope::Node,
            _ => Scope::Workload,
        }
    }

    /// Which collector writes it.
    pub fn pace(self) -> Pace {
        use Metric as M;
        match self {
            M::ContainerCpi => Pace::Cpi,
            M::ContainerPsi | M::ContainerPsiCpuFullSupported | M::PodPsi | M::PodPsiCpuFullSupported => {
                Pace::Pressure
            }
            M::NodeMemoryWithHotPageUsage
            | M::NodeMemoryColdPageSize
            | M::PodMemoryWithHotPageUsage
            | M::PodMemoryColdPageSize
            | M::ContainerMemoryWithHotPageUsage
            | M::ContainerMemoryColdPageSize
            | M::HostAppMemoryWithHotPageUsage
            | M::HostAppMemoryColdPageSize => Pace::ColdMemory,
            M::ResctrlLlc | M::ResctrlMb => Pace::Resctrl,
            _ => Pace::Usage,
        }
    }

    /// How values are kept: those of the node exactly, those of many small things in half the room.
    pub(super) fn precision(self) -> Precision {
        use Metric as M;
        match self {
            _ if self.scope() == Scope::Node => Precision::Exact,
            M::PodCpuUsage
            | M::PodCpuThrottled
            | M::ContainerCpuUsage
            | M::ContainerCpuThrottled
            | M::HostAppCpuUsage
            | M::ContainerPsi
            | M::PodPsi => Precision::Single { scale: 1000.0 },
            _ => Precision::Single { scale: 1.0 },
        }
    }
}
