//! Every annotation, label and resource name that is read or written, once.

/// Pod label: Koordinator QoS class (`LSE`, `LSR`, `LS`, `BE`, `SYSTEM`).
pub const QOS_CLASS: &str = "koordinator.sh/qosClass";
/// Pod label: priority class (`koord-prod`, `koord-mid`, `koord-batch`, `koord-free`).
pub const PRIORITY_CLASS: &str = "koordinator.sh/priority-class";
/// Pod label: sub-priority.
pub const SUB_PRIORITY: &str = "koordinator.sh/priority";
/// Pod annotation: what the scheduler allocated (cpuset, NUMA resources).
pub const RESOURCE_STATUS: &str = "scheduling.koordinator.sh/resource-status";
/// Pod annotation: batch resources per container, from the webhook.
pub const EXTENDED_RESOURCE_SPEC: &str = "node.koordinator.sh/extended-resource-spec";
/// Pod annotation: CPU burst of one pod, over that of the node.
pub const CPU_BURST: &str = "koordinator.sh/cpuBurst";
/// Pod annotation: CPU QoS of one pod, over that of its class.
pub const CPU_QOS: &str = "koordinator.sh/cpuQOS";
/// Node and topology annotation: CPUs and resources kept from pods.
pub const NODE_RESERVATION: &str = "node.koordinator.sh/reservation";
/// Node and topology annotation: CPUs of the SYSTEM class.
pub const SYSTEM_QOS_RESOURCE: &str = "node.koordinator.sh/system-qos-resource";
/// Node annotation: CPU normalization ratio, a decimal text.
pub const CPU_NORMALIZATION_RATIO: &str = "node.koordinator.sh/cpu-normalization-ratio";
/// Node annotation: allocatable resources before amplification, a resource list.
pub const RAW_ALLOCATABLE: &str = "node.koordinator.sh/raw-allocatable";
/// Topology annotation: the kubelet's CPU manager policy.
pub const CPU_MANAGER_POLICY: &str = "kubelet.koordinator.sh/cpu-manager-policy";
/// Topology annotation: facts about the processor model.
pub const CPU_BASIC_INFO: &str = "node.koordinator.sh/cpu-basic-info";
/// Topology annotation: core, socket and NUMA node of each CPU.
pub const CPU_TOPOLOGY: &str = "node.koordinator.sh/cpu-topology";
/// Topology annotation: CPUs that LS pods share, by NUMA node.
pub const CPU_SHARED_POOLS: &str = "node.koordinator.sh/cpu-shared-pools";
/// Topology annotation: CPUs that BE pods share, by NUMA node.
pub const BE_CPU_SHARED_POOLS: &str = "node.koordinator.sh/be-cpu-shared-pools";
/// Topology annotation: CPUs that the kubelet pinned, by pod.
pub const POD_CPU_ALLOCS: &str = "node.koordinator.sh/pod-cpu-allocs";
/// Node and topology label: `true` takes the node's reservation out of its NUMA nodes.
pub const ENABLE_NUMA_RESERVATION: &str = "node.koordinator.sh/enable-numa-reservation";
/// Label of an object: what made it.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Pod annotation: limits of its bandwidth, hooks.md 11.4.
pub const NETWORK_QOS: &str = "koordinator.sh/networkQOS";
/// Pod label: the core scheduling group that the pod's containers share a cookie in.
pub const CORE_SCHED_GROUP_ID: &str = "koordinator.sh/core-sched-group-id";
/// Pod label: `exclusive` makes the pod a core scheduling group of its own, `none` takes it out.
pub const CORE_SCHED_POLICY: &str = "koordinator.sh/core-sched-policy";
/// Pod annotation: the OOM score adjustment of all containers, a whole number.
pub const OOM_SCORE_ADJ: &str = "koordinator.sh/oom-score-adj";
/// Pod annotation: the OOM score adjustment of single containers, JSON.
pub const OOM_SCORE_ADJ_SPEC: &str = "koordinator.sh/oom-score-adj-spec";
/// Node annotation: total network bandwidth, a quantity; wins over the policy's.
pub const NETWORK_BANDWIDTH: &str = "node.koordinator.sh/network-bandwidth";
/// Resource name: native CPU.
pub const CPU: &str = "cpu";
/// Resource name: bytes of memory.
pub const MEMORY: &str = "memory";
/// Resource name: bytes in pages of 2 MiB.
pub const HUGEPAGES_2MI: &str = "hugepages-2Mi";
/// Resource name: bytes in pages of 1 GiB.
pub const HUGEPAGES_1GI: &str = "hugepages-1Gi";
/// Resource name: batch CPU, whole milli-cores.
pub const BATCH_CPU: &str = "kubernetes.io/batch-cpu";
/// Resource name: batch memory, bytes.
pub const BATCH_MEMORY: &str = "kubernetes.io/batch-memory";
/// Resource name: mid CPU, whole milli-cores.
pub const MID_CPU: &str = "kubernetes.io/mid-cpu";
/// Resource name: mid memory, bytes.
pub const MID_MEMORY: &str = "kubernetes.io/mid-memory";
/// Annotation of a mirror pod: UID of the static pod that it mirrors.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// Pod annotation: the part of cache and memory bandwidth that a pod may use.
pub const RESCTRL: &str = "node.koordinator.sh/resctrl";
/// Pod annotation: devices that the scheduler gave to a pod.
pub const DEVICE_ALLOCATED: &str = "scheduling.koordinator.sh/device-allocated";
/// Pod label: who keeps containers that share a GPU apart.
pub const GPU_ISOLATION_PROVIDER: &str = "koordinator.sh/gpu-isolation-provider";
/// Resource name: percent of a GPU's memory.
pub const GPU_MEMORY_RATIO: &str = "koordinator.sh/gpu-memory-ratio";
/// Resource name: bytes of a GPU's memory.
pub const GPU_MEMORY: &str = "koordinator.sh/gpu-memory";
/// Resource name: percent of a GPU's processors.
pub const GPU_CORE: &str = "koordinator.sh/gpu-core";
