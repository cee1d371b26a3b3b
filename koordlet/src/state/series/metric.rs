//! The kinds of series and their properties: the table of collection.md 5.2.

use std::fmt;

/// A property that tells series of one kind apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Property {
    /// Pod UID.
    PodUid,
    /// `runtime://id`
    ContainerId,
    /// Name of a host application.
    HostAppName,
    /// NUMA node.
    NumaNodeId,
    /// `cpu`
    BeResource,
    /// `usage`, `real-limit`, `request`
    BeAllocation,
    /// `cycle`, `instruction`
    CpiResource,
    /// `cpu`, `mem`, `io`
    PsiResource,
    /// `10`
    PsiPrecision,
    /// `some`, `full`
    PsiDegree,
    /// `LSR`, `LS`, `BE`
    Qos,
    /// Cache id.
    CacheId,
    /// `mbm_local_bytes`, `mbm_total_bytes`
    MbType,
}

impl Property {
    /// The reference's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::PodUid => "pod_uid",
            Self::ContainerId => "container_id",
            Self::HostAppName => "host_app_name",
            Self::NumaNodeId => "numa_node_id",
            Self::BeResource => "be_resource",
            Self::BeAllocation => "be_allocation",
            Self::CpiResource => "cpi_resource",
            Self::PsiResource => "psi_resource",
            Self::PsiPrecision => "psi_precision",
            Self::PsiDegree => "psi_degree",
            Self::Qos => "qos",
            Self::CacheId => "cache_id",
            Self::MbType => "resctrl_mb_type",
        }
    }
}

macro_rules! metrics {
    ($($variant:ident $name:literal [$($property:ident)*] $doc:literal,)*) => {
        /// A kind of series.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $(#[doc = $doc] $variant,)*
        }

        impl Metric {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The reference's name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The properties that each series of the kind has.
            pub fn properties(self) -> &'static [Property] {
                match self { $(Self::$variant => &[$(Property::$property,)*],)* }
            }
        }
    };
}

metrics! {
    NodeCpuUsage "node_cpu_usage" [] "CPU use of the node, cores.",
    NodeMemoryUsage "node_memory_usage" [] "Memory use of the node without page cache, bytes.",
    NodeMemoryUsageWithPageCache "node_memory_usage_with_page_cache" [] "Memory use of the node with page cache, bytes.",
    NodeNumaCpuUsage "node_numa_cpu_usage" [NumaNodeId] "CPU use of a NUMA node, cores.",
    NodeNumaMemoryUsage "node_numa_memory_usage" [NumaNodeId] "Memory use of a NUMA node, bytes.",
    SysCpuUsage "sys_cpu_usage" [] "CPU use of the system, cores.",
    SysMemoryUsage "sys_memory_usage" [] "Memory use of the system, bytes.",
    SysNumaCpuUsage "sys_numa_cpu_usage" [NumaNodeId] "CPU use of the system on a NUMA node, cores.",
    SysNumaMemoryUsage "sys_numa_memory_usage" [NumaNodeId] "Memory use of the system on a NUMA node, bytes.",
    NodeBe "node_be" [BeResource BeAllocation] "CPU of best-effort pods, milli-cores.",
    PodCpuUsage "pod_cpu_usage" [PodUid] "CPU use of a pod, cores.",
    PodMemoryUsage "pod_memory_usage" [PodUid] "Memory use of a pod without page cache, bytes.",
    PodMemoryUsageWithPageCache "pod_memory_usage_with_page_cache" [PodUid] "Memory use of a pod with page cache, bytes.",
    PodCpuThrottled "pod_cpu_throttled" [PodUid] "Share of throttled periods of a pod, 0 to 1.",
    ContainerCpuUsage "container_cpu_usage" [ContainerId] "CPU use of a container, cores.",
    ContainerMemoryUsage "container_memory_usage" [ContainerId] "Memory use of a container without page cache, bytes.",
    ContainerMemoryUsageWithPageCache "container_memory_usage_with_page_cache" [ContainerId] "Memory use of a container with page cache, bytes.",
    ContainerCpuThrottled "container_cpu_throttled" [ContainerId] "Share of throttled periods of a container, 0 to 1.",
    HostAppCpuUsage "host_application_cpu_usage" [HostAppName] "CPU use of a host application, cores.",
    HostAppMemoryUsage "host_application_memory_usage" [HostAppName] "Memory use of a host application without page cache, bytes.",
    HostAppMemoryUsageWithPageCache "host_application_memory_usage_with_page_cache" [HostAppName] "Memory use of a host application with page cache, bytes.",
    ContainerCpi "container_cpi" [PodUid ContainerId CpiResource] "Cycles or instructions of a container in a window.",
    ContainerPsi "container_psi" [PodUid ContainerId PsiResource PsiPrecision PsiDegree] "Pressure of a container, percent.",
    ContainerPsiCpuFullSupported "container_psi_cpu_full_supported" [PodUid ContainerId] "Whether the kernel tells full CPU pressure of a container.",
    PodPsi "pod_psi" [PodUid PsiResource PsiPrecision PsiDegree] "Pressure of a pod, percent.",
    PodPsiCpuFullSupported "pod_psi_cpu_full_supported" [PodUid] "Whether the kernel tells full CPU pressure of a pod.",
    NodeMemoryWithHotPageUsage "node_memory_with_hot_page_usage" [] "Hot memory of the node, bytes.",
    NodeMemoryColdPageSize "node_memory_cold_page_size" [] "Cold memory of the node, bytes.",
    PodMemoryWithHotPageUsage "pod_memory_with_hot_page_usage" [PodUid] "Hot memory of a pod, bytes.",
    PodMemoryColdPageSize "pod_memory_cold_page_size" [PodUid] "Cold memory of a pod, bytes.",
    ContainerMemoryWithHotPageUsage "container_memory_with_hot_page_usage" [ContainerId] "Hot memory of a container, bytes.",
    ContainerMemoryColdPageSize "container_memory_cold_page_size" [ContainerId] "Cold memory of a container, bytes.",
    HostAppMemoryWithHotPageUsage "host_application_memory_with_hot_page_usage" [HostAppName] "Hot memory of a host application, bytes.",
    HostAppMemoryColdPageSize "host_application_memory_cold_page_size" [HostAppName] "Cold memory of a host application, bytes.",
    ResctrlLlc "resctrl_resource_llc" [Qos CacheId] "Last-level cache in use by a class, bytes.",
    ResctrlMb "resctrl_resource_mb" [Qos CacheId MbType] "Memory traffic of a class since its group was made, bytes.",
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
